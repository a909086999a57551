"""Every encoding trains in a model that knows nothing of it: made of Flax's own layers, in NNX and in Linen.

The gradients of all its parameters are held against finite differences in float64. A loss that falls would not tell:
it falls with gradients that are half wrong, and with none at all in an encoding.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx

import posenc
from posenc import ENCODINGS
from tests.formulas import driver

TOKENS = jax.random.randint(jax.random.key(0), (64, 6), 0, 10)
FEW = TOKENS[:3]
STEP = 1e-5  # of a finite difference: rounding and the third derivative are each 1e-10; kinks are seldom that near
every_encoding = pytest.mark.parametrize("name", ENCODINGS)
with_and_without = pytest.mark.parametrize("name", ["fire", "shaw", "none"])


class ModelNNX(nnx.Module):
    """A decoder of one layer, with any encoding."""

    def __init__(self, name: str, rngs: nnx.Rngs):
        self.encoding = posenc.make(name, width=16, heads=2, head_dim=8, rngs=rngs)
        self.embed, self.norm = nnx.Embed(10, 16, rngs=rngs), nnx.LayerNorm(16, rngs=rngs)
        self.attention, self.readout = posenc.Attention(16, 2, rngs=rngs), nnx.Linear(16, 10, rngs=rngs)

    def __call__(self, tokens):
        positions, visible = jnp.arange(tokens.shape[1]), posenc.visibility(tokens.shape[1], causal=True)
        x = self.encoding.embeddings(self.embed(tokens), positions)
        return self.readout(x + self.attention(self.norm(x), positions, self.encoding, visible))


class ModelLinen(linen.Module):
    """The same in Linen: the bridge calls a hook by its name, and all those of attention by way of `attend`."""

    name_of: str

    @linen.compact
    def __call__(self, tokens):
        encoding = nnx.bridge.to_linen(posenc.make, self.name_of, width=16, heads=2, head_dim=8, name="encoding")
        at, visible = jnp.arange(tokens.shape[1]), posenc.visibility(tokens.shape[1], causal=True)
        x = encoding(linen.Embed(10, 16, name="embed")(tokens), at, nnx_method="embeddings")
        normed = linen.LayerNorm()(x)
        q, k, v = jnp.moveaxis(linen.DenseGeneral((3, 2, 8))(normed), 2, 0)
        steps = encoding(normed, at, nnx_method="steps")  # None but for fox and cable
        totals = {} if steps is None else dict.fromkeys(("q_totals", "k_totals"), jnp.cumsum(steps, axis=1))
        out = encoding(q, k, v, at, at, visible, **totals, nnx_method=posenc.attend)
        return linen.Dense(10)(x + out.reshape(x.shape))


def loss_of(logits, tokens):
    """Each token is to tell the one before it, which takes positions."""
    return optax.softmax_cross_entropy_with_integer_labels(logits[:, 1:], tokens[:, :-1]).mean()


@with_and_without
def test_a_foreign_nnx_model_trains(name):
    model = ModelNNX(name, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(3e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        loss, gradients = nnx.value_and_grad(lambda model: loss_of(model(TOKENS), TOKENS))(model)
        optimizer.update(model, gradients)
        return loss

    losses = [float(step(model, optimizer)) for _ in range(30)]
    assert (losses[-1] < 0.05 * losses[0]) == (name != "none")


@with_and_without
def test_a_foreign_linen_model_trains(name):
    model = ModelLinen(name)
    parameters, optimizer = model.init(jax.random.key(0), TOKENS), optax.adam(3e-2)

    @jax.jit
    def step(parameters, state):
        loss, gradients = jax.value_and_grad(lambda p: loss_of(model.apply(p, TOKENS), TOKENS))(parameters)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(parameters, updates), state, loss

    state, losses = optimizer.init(parameters), []
    for _ in range(30):
        parameters, state, loss = step(parameters, state)
        losses.append(float(loss))
    assert (losses[-1] < 0.05 * losses[0]) == (name != "none")


def drawn(name, shapes):
    """Numbers for all parameters of a model; those of an encoding as in its formula's tests, where no term is lost."""
    rng, formula = np.random.default_rng(0), driver.module(name).Formula

    def draw(path, array):
        names, normal = [str(step.key) for step in path], rng.normal(size=array.shape)
        if names[0] != "encoding":
            return jnp.asarray(normal / 4)
        # To a threshold of 512 the distances of 6 tokens are all one, and FIRE's network tells none from another.
        less = 128 if names[-1] == "multiplier" else 1
        return jnp.asarray(formula.draw(".".join(names[1:]), normal, {}) / less)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def check_gradients(value_and_gradients, parameters):
    """Along a random direction in each array of the encoding the value rises as the gradient says, which is not zero.

    Also in the embeddings, whose gradient has come through every hook: of an encoding that has no parameters too.
    """
    arrays = {part: parameters[part] for part in ("encoding", "embed") if part in parameters}
    gradients = jax.tree.leaves(value_and_gradients(arrays)[1])
    leaves, tree = jax.tree_util.tree_flatten_with_path(arrays)
    values, rng = [leaf for _, leaf in leaves], np.random.default_rng(1)
    for number, (path, leaf) in enumerate(leaves):
        where, direction = jax.tree_util.keystr(path), rng.normal(size=leaf.shape)
        up, down = (
            value_and_gradients(tree.unflatten([*values[:number], leaf + by * direction, *values[number + 1 :]]))[0]
            for by in (STEP, -STEP)
        )
        said, found = jnp.sum(gradients[number] * direction), (up - down) / (2 * STEP)
        assert said != 0 and said.dtype == found.dtype == jnp.float64, where
        assert abs(said - found) < 1e-5 * abs(said), f"{where}: {said} instead of {found}"


@every_encoding
def test_gradients_in_a_foreign_nnx_model_are_finite_differences(name):
    with jax.enable_x64(True):
        model = nnx.eval_shape(lambda: ModelNNX(name, nnx.Rngs(0)))
        parameters = drawn(name, nnx.to_pure_dict(nnx.state(model)))
        nnx.update(model, parameters)
        model.set_attributes(dtype=jnp.float64)  # the layers' own is that of the parameters they were made with
        compiled = nnx.jit(nnx.value_and_grad(lambda model: loss_of(model(FEW), FEW)))

        def value_and_gradients(arrays):
            nnx.update(model, arrays)
            value, gradients = compiled(model)
            return value, {part: nnx.to_pure_dict(nnx.state(gradients))[part] for part in arrays}

        check_gradients(value_and_gradients, parameters)


@every_encoding
def test_gradients_in_a_foreign_linen_model_are_finite_differences(name):
    with jax.enable_x64(True):
        model = ModelLinen(name)
        parameters = drawn(name, jax.eval_shape(model.init, jax.random.key(0), FEW)["params"])

        def loss(arrays):
            return loss_of(model.apply({"params": parameters | arrays}, FEW), FEW)

        check_gradients(jax.jit(jax.value_and_grad(loss)), parameters)
