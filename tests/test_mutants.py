"""Each known bug can still be planted: `python -m tests.mutants` says whether the tests notice it."""

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant, patched


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.title)
def test_the_line_of_a_bug_is_there_once_and_the_tests_that_should_see_it_exist(mutant):
    text = (ROOT / mutant.file).read_text()
    compile(patched(mutant, text), mutant.file, "exec")
    assert patched(mutant, text) != text
    assert all((ROOT / path).exists() for path in mutant.tests.split(" -k ")[0].split())


def test_a_line_that_is_gone_or_there_twice_is_refused():
    for text in ("b = 1", "a = 1; a = 1"):
        with pytest.raises(ValueError, match=r"clamped: 'a = 1' occurs \d times in x.py"):
            patched(Mutant("clamped", "", "x.py", "a = 1", "a = 2", ""), text)
