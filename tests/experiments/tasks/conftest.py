"""What holds for the tests of tasks."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def quickly(quick_compilation):
    """All of them compile many small programs."""
