"""Jobs of Slurm, submitted through submitit: each is a worker on the results folder, like any other.

A job takes one cell after the other until there is none left to take, so that short cells cost no job each. A job that
is preempted, or has run for its time, saves what it has and is queued again; meanwhile others may go on with that.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.launch import COMMAND
from experiments.settings import Cluster

WARNING = 90  # seconds before its time is up, a job is told
REQUEUES = 1000  # times that a job may be queued again


class Job:
    """What runs in a job.

    Args:
        command: of a worker.
    """

    def __init__(self, command: Sequence[str]):
        self.command, self.process = list(command), 0

    def __call__(self) -> None:
        """Runs the worker.

        Raises:
            RuntimeError: it ended with an error, or because it was told to stop.
        """
        running = subprocess.Popen(self.command)  # noqa: S603
        self.process = running.pid
        while running.poll() is None:
            time.sleep(0.2)  # a signal may come at any time, and asks for the process too
        if running.returncode:
            raise RuntimeError(f"the worker ended with {running.returncode}; what it said stands above.")

    def checkpoint(self) -> Any:
        """Called by submitit when the job has to go: stops the worker, which saves, and is queued again."""
        from submitit.helpers import DelayedSubmission

        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.process, signal.SIGTERM)
            os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOWAIT)
        return DelayedSubmission(Job(self.command))


def check() -> None:
    """Raises RuntimeError unless jobs can be submitted from here."""
    if importlib.util.find_spec("submitit") is None:
        raise RuntimeError("--launcher=slurm needs submitit: pip install submitit.")
    if shutil.which("sbatch") is None:
        raise RuntimeError("there is no Slurm here: sbatch is not found. Use --workers, or --launcher=print.")


def submit(cluster: Cluster, arguments: Sequence[str], folder: Path, jobs: int) -> list[str]:
    """Submits workers as one array of jobs; their names.

    Args:
        cluster: what each may have.
        arguments: of the command line of a worker.
        folder: for the results; what the jobs say goes to `slurm` in it.
        jobs: how many.

    Raises:
        RuntimeError: Slurm refuses.
    """
    import submitit

    if not jobs:
        return []
    try:
        executor = submitit.AutoExecutor(folder / "slurm", cluster="slurm", slurm_max_num_timeout=REQUEUES)
        executor.update_parameters(**parameters(cluster, jobs))
        with executor.batch():
            command = [*COMMAND, *arguments, "--patience=0"]
            submitted = [executor.submit(Job([*command, f"--worker={number}"])) for number in range(jobs)]
    except (RuntimeError, submitit.core.utils.FailedJobError) as error:
        raise RuntimeError(f"Slurm does not take the jobs: {' '.join(str(error).split())}") from error
    return [job.job_id for job in submitted]


def parameters(cluster: Cluster, jobs: int) -> dict[str, Any]:
    """The same for submitit."""
    asked = {
        "slurm_partition": cluster.partition,
        "gpus_per_node": cluster.gpus,
        "cpus_per_task": cluster.cores,
        "mem_gb": cluster.memory,
    }
    return {name: value for name, value in asked.items() if value} | {
        "name": "posenc",
        "timeout_min": cluster.minutes,
        "slurm_array_parallelism": jobs,
        "slurm_signal_delay_s": min(WARNING, 30 * cluster.minutes),
        "slurm_additional_parameters": {"requeue": True, "export": "ALL"} | cluster.more,
    }
