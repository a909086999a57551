"""Jobs of Slurm: what is asked of it, what a job does when it has to go; and, where Slurm is installed, a real one."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from experiments import slurm
from experiments.config import cluster_of, default_config
from tests.experiments.test_command_line import ROOT, rows_in
from tests.experiments.test_launch import cache as cache  # a fixture
from tests.experiments.test_launch import started, until

INSTALLED = os.geteuid() == 0 and all(map(shutil.which, ("slurmctld", "slurmd", "munged")))


def test_what_is_asked_of_slurm_is_what_the_config_says():
    config = default_config()
    asked = slurm.parameters(cluster_of(config), 4)
    assert not {"slurm_partition", "gpus_per_node", "cpus_per_task", "mem_gb"} & set(asked)
    config.cluster.update(minutes=1, partition="gpu", gpus=2, cores=8, memory=64, options="account=mine --no-kill")
    asked = slurm.parameters(cluster_of(config), 3)
    said = [asked[name] for name in ("slurm_partition", "gpus_per_node", "cpus_per_task", "mem_gb", "timeout_min")]
    assert said == ["gpu", 2, 8, 64, 1]
    assert asked["slurm_array_parallelism"] == 3
    assert asked["slurm_signal_delay_s"] == 30  # half of its time
    assert asked["slurm_additional_parameters"] == {
        "requeue": True,
        "export": "ALL",
        "account": "mine",
        "no_kill": True,
    }


@pytest.mark.parametrize(
    "values, words",
    [
        ({"jobs": 0}, "cluster.jobs is 0; expected 1 or more"),
        ({"gpus": -1}, "cluster.gpus is -1; expected 0 or more"),
        ({"minutes": "long"}, "cluster.minutes is 'long'; expected"),
        ({"options": "=3"}, "cluster.options holds '=3'"),
    ],
)
def test_what_makes_no_sense_is_refused(values, words):
    config = default_config()
    config.cluster.update(values)
    with pytest.raises(ValueError, match=words):
        cluster_of(config)


def test_where_cells_run_does_not_change_what_they_are():
    from experiments.config import expand

    config = default_config()
    (before,) = expand(config)
    config.cluster.update(jobs=9, partition="other")
    assert expand(config)[0].name == before.name


def test_a_job_that_has_to_go_lets_its_worker_save_and_comes_back(tmp_path):
    code = (
        "import signal, sys, time; from pathlib import Path; here = Path(sys.argv[1]); "
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), (here / 'saved').write_text(''), sys.exit(143))); "
        "(here / 'ready').write_text(''); time.sleep(60)"
    )
    job, ended = slurm.Job([sys.executable, "-c", code, str(tmp_path)]), []

    def run():
        try:
            job()
        except RuntimeError as error:
            ended.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    until((tmp_path / "ready").exists)
    again = job.checkpoint()
    assert (tmp_path / "saved").exists()
    assert again.function.command == job.command
    thread.join()
    assert "the worker ended with 143" in ended[0]


def test_without_slurm_that_is_said(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(RuntimeError, match=r"there is no Slurm here: sbatch is not found\. Use --workers"):
        slurm.check()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The environment of a Slurm of one node."""
    folder = tmp_path_factory.mktemp("slurm")
    begun = not subprocess.run(["pgrep", "-x", "slurmctld"], stdout=subprocess.DEVNULL).returncode
    if begun:
        pytest.skip("a Slurm runs already")
    subprocess.run([ROOT / "tests" / "slurm" / "start.sh", folder], check=True, stdout=subprocess.DEVNULL)
    yield {"SLURM_CONF": str(folder / "slurm.conf")}
    for name in ("slurmctld", "slurmd", "munged"):
        subprocess.run(["pkill", "-x", name])


@pytest.mark.skipif(
    not INSTALLED, reason="no Slurm here (or not root): apt-get install slurmctld slurmd slurm-client munge"
)
def test_jobs_of_a_real_slurm_give_the_rows_of_this_process(tmp_path, cache, cluster):
    here = started(tmp_path / "here", **cache)
    shown, _ = here.communicate(timeout=300)
    assert here.returncode == 0, shown
    there = started(tmp_path / "there", "--launcher=slurm", "--config.cluster.jobs=2", **cache, **cluster)
    shown, _ = there.communicate(timeout=100)
    assert (there.returncode, "2 jobs: " in shown) == (0, True), shown
    until(lambda: len(list((tmp_path / "there").glob("*/seeds-*"))) == 3, seconds=300)
    assert rows_in(tmp_path / "here") == rows_in(tmp_path / "there")
    wanted = [json.loads(path.read_text()) for path in Path(tmp_path / "there" / "asked").iterdir()]
    assert [len(one["cells"]) for one in wanted] == [3]
    time.sleep(1)
    again = started(tmp_path / "there", "--launcher=slurm", **cache, **cluster)
    assert "nothing is left to submit" in again.communicate(timeout=100)[0]
