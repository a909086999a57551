"""Examples of a task as lists, drawn by one program for all lengths."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


@functools.cache
def program(task, longest):
    """Draws one example for each key, of a traced length; what else the task is told is traced, too."""

    def sample(key, length, options):
        return task.sample(key, length, longest, **options)

    return jax.jit(jax.vmap(sample, (0, None, None)))


def sampled(task, length, longest, count, whole=False, **options):
    """So many examples as the task gives them; its length is a whole number instead of a traced one where asked for."""
    keys = jax.random.split(jax.random.key(3), count)
    if whole:
        return jax.jit(jax.vmap(lambda key: task.sample(key, length, longest, **options)))(keys)
    return program(task, longest)(keys, length, options)


@functools.cache
def drawn(task, length, longest, count, whole=False, **options):
    """Examples as pairs of lists, without what pads them."""
    got = sampled(task, length, longest, count, whole, **options)
    assert got.input.shape == (count, task.input_length(longest))
    assert got.answer.shape == (count, task.answer_length(longest))
    assert got.input.dtype == got.answer.dtype == jnp.int32
    assert task.alike or got.answered is not None
    asked = np.broadcast_to(task.input_length(length) if got.asked is None else got.asked, count)
    answered = np.broadcast_to(task.answer_length(length) if got.answered is None else got.answered, count)
    rows = zip(np.asarray(got.input), np.asarray(got.answer), asked, answered, strict=True)
    return [(question[:i].tolist(), answer[:a].tolist()) for question, answer, i, a in rows]


def in_words(examples, words):
    """The same examples, with a word for each symbol."""
    return [tuple([words[symbol] for symbol in side] for side in example) for example in examples]
