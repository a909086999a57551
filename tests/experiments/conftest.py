"""What tests of experiments may ask for."""

import jax
import pytest


@pytest.fixture(scope="module")
def quick_compilation():
    """For programs that are many and small: compiling them well takes longer than running them badly."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()  # other tests compile their own, or the same number would have other bits here and there
