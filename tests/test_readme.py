"""What the pages say is so."""

import re
import subprocess
from pathlib import Path

import pytest
from flax import nnx

from experiments import report, results
from experiments.tasks import TASKS
from posenc import ENCODINGS, SCHEMES, make

SIZES = dict(width=16, heads=2, head_dim=8)
ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {page: (ROOT / page).read_text() for page in ("README.md", "posenc/README.md")}
SNIPPETS = [(page, text) for page in PAGES for text in re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL)]


@pytest.mark.parametrize("page, snippet", SNIPPETS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(SNIPPETS)])
def test_a_snippet_runs_as_it_stands(page, snippet, monkeypatch):
    monkeypatch.chdir(ROOT)
    exec(compile(snippet, page, "exec"), {"__name__": "readme"})


def test_snippets_are_found():
    assert [page for page, _ in SNIPPETS] == ["README.md"] * 4 + ["posenc/README.md"] * 8


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
    for page, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            assert "://" in target or (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"


def test_encodings_without_parameters_are_those_that_the_page_names():
    line = next(line for line in PAGES["posenc/README.md"].splitlines() if "nothing to train" in line)
    without = {name for name in ENCODINGS if not nnx.state(make(name, **SIZES, rngs=nnx.Rngs(0)), nnx.Param)}
    assert set(re.findall(r"`(\w+)`", line)) == without


def test_every_make_target_it_names_exists():
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        subprocess.run(["make", "--dry-run", "--always-make", target], cwd=ROOT, check=True, capture_output=True)
