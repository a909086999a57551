"""Encodings outside this project: in models written with plain Flax NNX and with Linen."""

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import linen, nnx

import posenc
from posenc import ENCODINGS

WIDTH, HEADS, HEAD_DIM = 16, 2, 8
SIZES = dict(width=WIDTH, heads=HEADS, head_dim=HEAD_DIM)
X = jax.random.normal(jax.random.key(0), (2, 6, WIDTH))
WANTED = X[:, ::-1]  # backwards: cannot be learned without positions
every_encoding = pytest.mark.parametrize("name", ENCODINGS)


class StockNNX(nnx.Module):
    """Somebody's model, with an encoding in it."""

    def __init__(self, name, rngs):
        self.encoding = posenc.make(name, rngs=rngs, **SIZES)
        self.qkv = nnx.Linear(WIDTH, 3 * WIDTH, rngs=rngs)

    def __call__(self, x, positions):
        x = self.encoding.embeddings(x, positions)
        q, k, v = (part.reshape(*x.shape[:2], HEADS, HEAD_DIM) for part in jnp.split(self.qkv(x), 3, axis=-1))
        totals = running(self.encoding.steps(x, positions))
        visible = posenc.visibility(x.shape[1], causal=self.encoding.causal_only)
        out = posenc.attend(self.encoding, q, k, v, positions, positions, visible, q_totals=totals, k_totals=totals)
        return out.reshape(x.shape)


def running(steps):
    return None if steps is None else jnp.cumsum(steps, axis=1)


class StockLinen(linen.Module):
    """The same in Linen; hooks are called by name through the bridge."""

    name_of: str

    @linen.compact
    def __call__(self, x, positions):
        encoding = nnx.bridge.to_linen(posenc.make, self.name_of, **SIZES, name="encoding")
        x = encoding(x, positions, nnx_method="embeddings")
        qkv = jnp.split(linen.Dense(3 * WIDTH)(x), 3, axis=-1)
        q, k, v = (part.reshape(*x.shape[:2], HEADS, HEAD_DIM) for part in qkv)
        q, k = encoding(q, k, positions, positions, nnx_method="queries_keys")
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) * HEAD_DIM**-0.5
        bias = encoding(positions, positions, nnx_method="bias")
        logits = logits if bias is None else logits + bias
        totals = running(encoding(x, positions, nnx_method="steps"))
        if totals is not None:
            totals = jnp.swapaxes(totals, 1, 2)  # b h t
            logits = logits + totals[:, :, :, None] - totals[:, :, None, :]
        visible = posenc.visibility(x.shape[1], causal=ENCODINGS[self.name_of].causal_only)
        logits = encoding(logits, q, k, positions, positions, visible, nnx_method="logits")
        weights = encoding(logits, visible, nnx_method="weights")
        out = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        return encoding(out, weights, v, positions, positions, nnx_method="values").reshape(x.shape)


def losses_while_training(loss, parameters, steps=30):
    """Adam on a loss; all gradients of the first step are finite and somewhere not zero."""
    optimizer = optax.adam(3e-2)
    state, losses = optimizer.init(parameters), []
    step = jax.jit(jax.value_and_grad(loss))
    for i in range(steps):
        value, gradients = step(parameters)
        if i == 0:
            for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
                assert jnp.all(jnp.isfinite(gradient)), path
                assert jnp.any(gradient != 0), path
        updates, state = optimizer.update(gradients, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        losses.append(float(value))
    return losses


@every_encoding
def test_a_stock_nnx_model_trains_with_it(name):
    graph, parameters = nnx.split(StockNNX(name, nnx.Rngs(0)), nnx.Param)
    losses = losses_while_training(
        lambda p: jnp.mean((nnx.merge(graph, p)(X, jnp.arange(6)) - WANTED) ** 2), parameters
    )
    assert losses[-1] < 0.9 * losses[0]


@every_encoding
def test_a_stock_linen_model_trains_with_it(name):
    model = StockLinen(name)
    variables = model.init(jax.random.key(0), X, jnp.arange(6))
    assert set(variables) == {"params"}  # a clean Linen tree
    losses = losses_while_training(lambda p: jnp.mean((model.apply(p, X, jnp.arange(6)) - WANTED) ** 2), variables)
    assert losses[-1] < 0.9 * losses[0]


@every_encoding
def test_nnx_and_linen_give_the_same_numbers_from_the_same_parameters(name):
    native = StockNNX(name, nnx.Rngs(0))
    encoding = nnx.to_pure_dict(nnx.state(native.encoding, nnx.Param))
    params = {"Dense_0": {"kernel": native.qkv.kernel[...], "bias": native.qkv.bias[...]}}
    params |= {"encoding": encoding} if encoding else {}
    bridged = StockLinen(name).apply({"params": params}, X, jnp.arange(6))
    assert jnp.abs(bridged - native(X, jnp.arange(6))).max() < 1e-5


def test_attention_stands_in_for_the_stock_layer():
    attention = posenc.Attention(WIDTH, HEADS, rngs=nnx.Rngs(0))
    rope = ENCODINGS["rope"]()
    out = attention(X, jnp.arange(6), rope, posenc.visibility(6, causal=True))
    assert out.shape == X.shape
    stock = nnx.MultiHeadAttention(HEADS, WIDTH, use_bias=False, decode=False, rngs=nnx.Rngs(0))
    for ours, theirs in (("query", "query"), ("key", "key"), ("value", "value")):
        getattr(stock, theirs).kernel[...] = getattr(attention, ours).kernel[...].reshape(WIDTH, HEADS, HEAD_DIM)
    stock.out.kernel[...] = attention.out.kernel[...].reshape(HEADS, HEAD_DIM, WIDTH)
    none = attention(X, jnp.arange(6), ENCODINGS["none"](), posenc.visibility(6, causal=True))
    theirs = stock(X, mask=posenc.visibility(6, causal=True))
    assert jnp.abs(none - theirs).max() < 1e-5


def test_hooks_are_usable_as_they_stand_in_a_notebook():
    q = k = jax.random.normal(jax.random.key(1), (1, 4, HEADS, HEAD_DIM))
    turned, _ = ENCODINGS["rope"](base=1e4).queries_keys(q, k, jnp.arange(4), jnp.arange(4))
    assert jnp.array_equal(turned[:, 0], q[:, 0])
    assert ENCODINGS["t5"](heads=8, rngs=nnx.Rngs(0)).bias(jnp.arange(4), jnp.arange(4)).shape == (1, 8, 4, 4)
    with pytest.raises(ValueError, match="pass rngs="):
        ENCODINGS["shaw"](head_dim=64)


def test_attend_does_not_forget_the_steps_of_an_encoding():
    q = k = v = jnp.ones((1, 3, HEADS, HEAD_DIM))
    fox, visible = posenc.make("fox", rngs=nnx.Rngs(0), **SIZES), posenc.visibility(3, causal=True)
    with pytest.raises(ValueError, match=r"FoX takes steps .* pass q_totals and k_totals"):
        posenc.attend(fox, q, k, v, jnp.arange(3), jnp.arange(3), visible)
