"""What a query may see, against loops."""

import jax.numpy as jnp
import numpy as np
import pytest

from posenc import Visibility, visibility

LENGTHS = [None, jnp.array([3]), jnp.array([5, 0, 2])]
SLOTS = [None, jnp.array([[2, 0, 4]]), jnp.array([[0, 1, 2], [4, 4, 4], [3, 0, 1]])]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("slots", SLOTS, ids=str)
def test_mask_rows_and_reach_are_those_of_loops(causal, lengths, slots):
    queries, keys = 3, 5
    visible = Visibility(causal, lengths, slots)
    examples = max(1 if lengths is None else len(lengths), 1 if slots is None else len(slots))
    expected = np.zeros((examples, 1, queries, keys), bool)
    for b, q, k in np.ndindex(examples, queries, keys):
        slot = q if slots is None else int(slots[b % len(slots), q])
        real = keys if lengths is None else int(lengths[b % len(lengths)])
        expected[b, 0, q, k] = k < real and (not causal or k <= slot)
    mask = np.asarray(visible.mask(queries, keys))
    np.testing.assert_array_equal(np.broadcast_to(mask, expected.shape), expected)
    part = np.asarray(visible.rows(1, 2, queries).mask(2, keys))
    np.testing.assert_array_equal(np.broadcast_to(part, (examples, 1, 2, keys)), expected[:, :, 1:])
    seen = np.nonzero(expected.any(axis=(0, 1, 2)))[0]
    assert visible.reach(queries, keys) >= (seen.max() + 1 if len(seen) and lengths is None else 0)


def test_reach_is_no_farther_than_it_must_be():
    assert int(Visibility(True).rows(2, 2, 8).reach(2, 8)) == 4
    assert Visibility(False).reach(8, 8) == 8
    assert int(Visibility(False, jnp.array([5])).reach(8, 8)) == 5
    assert int(Visibility(True, jnp.array([5])).rows(5, 2, 8).reach(2, 8)) == 0  # padding asks
    assert int(Visibility(True, jnp.array([5, 2])).rows(2, 2, 8).reach(2, 8)) == 4


def test_real_tokens():
    np.testing.assert_array_equal(Visibility(True, jnp.array([2, 0])).real(3), [[1, 1, 0], [0, 0, 0]])
    assert Visibility(False).real(3).all()


def test_the_matrix_is_that_of_the_words():
    lengths = jnp.array([2, 4])
    np.testing.assert_array_equal(visibility(4, causal=True, lengths=lengths), Visibility(True, lengths).mask(4, 4))
