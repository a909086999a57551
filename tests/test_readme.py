"""What the README says is so."""

import re
import subprocess
from pathlib import Path

import pytest

from experiments import report, results
from experiments.tasks import TASKS
from posenc import ENCODINGS, SCHEMES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda text: text.splitlines()[0])
def test_a_snippet_runs_as_it_stands(snippet, monkeypatch):
    monkeypatch.chdir(ROOT)
    exec(compile(snippet, "README.md", "exec"), {"__name__": "readme"})


def test_snippets_are_found():
    assert len(SNIPPETS) == 5


def test_the_table_is_that_of_the_committed_rows():
    rows = results.load(ROOT / "notebooks" / "sample")
    tables = report.markdown(report.summarize(rows), rows).split("\n\n")[1:5]
    assert [part.splitlines()[0].split(" |")[0] for part in tables][1::2] == ["| encoding"] * 2
    for part in tables:
        assert part in README, part


def test_every_name_is_listed():
    for name in (*ENCODINGS, *SCHEMES, *TASKS):
        assert f"`{name}`" in README, name


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert "://" in target or (ROOT / target).exists(), target


def test_every_make_target_it_names_exists():
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        subprocess.run(["make", "--dry-run", "--always-make", target], cwd=ROOT, check=True, capture_output=True)
