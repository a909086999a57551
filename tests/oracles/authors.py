"""Sources that are repositories, mostly of the papers' authors: run where they are checked out, never copied.

What a file imports beyond torch, and what it takes from the machine (such as the number of a GPU), stands in.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from tests.oracles.cases import Case
from tests.oracles.packages import run_file
from tests.oracles.sources import (
    array,
    attention,
    by_head,
    fill,
    from_heads,
    linear,
    module,
    normal,
    shape,
    softmax,
    some,
    source,
    split,
    steps,
    tensor,
    triangle,
    triple,
)

CABLE = "axiomlab/Cable@8bc6b83e872899c50827e6940344350c37fadaa8"
CREAM = "microsoft/Cream@4a13c4091e78f9abd2160e7e01c02e48c1cf8fb9"
DAPE = "chuanyang-Zheng/DAPE@bde344a844f2bd1f498b2bac70240dcda41c50c1"
DEBERTA = "microsoft/DeBERTa@4d7fe0bd4fb3c7d4f4005a7cafabde9800372098"
FOURIER = "willGuimont/learnable_fourier_positional_encoding@1fe87e28b41616bad875d2eeb3a488dfe3fbf698"
KERPLE = "chijames/KERPLE@25be3d712e96a3353b374f1f8e36b97d86f97ffa"
LONGROPE = "microsoft/LongRoPE@c9e56aa54007c328399677232a489feec446e4b8"
MUSIC = "jason9693/MusicTransformer-pytorch@fe296678c99030adb073768112b54ee6cebef907"
ROPE_VIT = "naver-ai/rope-vit@ce85c2e56c5ff3aadc10e1a849872081f7b86293"
STICK = "shawntan/stickbreaking-attention@3147a3841b025a31d271fc8f873120ff6fa0461b"
TRANSFORMER_XL = "kimiyoung/transformer-xl@44781ed21dbaec88b280f74d9ae2877f52b492a5"
TUPE = "guolinke/TUPE@4c64ff748a7039be4918429f05bbb43d81357107"


@contextmanager
def without_gpu() -> Iterator[None]:
    """The current GPU is the CPU."""
    with mock.patch("torch.cuda.current_device", lambda: "cpu"):
        yield


def logits_of(qkv: dict[str, np.ndarray]) -> Any:
    """Scaled products, ``[1, h, q, k]``."""
    return by_head(qkv["q"]) @ by_head(qkv["k"]).transpose(-1, -2) * qkv["q"].shape[-1] ** -0.5


def megatron(heads: int, **more: Any) -> SimpleNamespace:
    """The arguments that Megatron's descendants read."""
    return SimpleNamespace(num_attention_heads=heads, params_dtype=module("torch").float32, **more)


@source("fourier", "guimont", FOURIER)
def fourier(rng, folder):
    name = "learnable_fourier_positional_encoding"
    package = run_file(folder / "src" / name / "learnable_fourier_pos_encoding.py", "fourier")
    layer = package.LearnableFourierPositionalEncoding(1, 1, 12, 10, 8, 10.0)
    parameters = {
        "frequencies": normal(rng, 6, size=0.3), "up": normal(rng, 12, 10), "up_bias": normal(rng, 10),
        "down": normal(rng, 10, 8, size=0.4), "down_bias": normal(rng, 8),
    }  # fmt: skip
    fill(layer.Wr.weight, parameters["frequencies"][:, None])
    linear(layer.mlp[0], parameters["up"], parameters["up_bias"])
    linear(layer.mlp[2], parameters["down"], parameters["down_bias"])
    x, positions = normal(rng, 1, 6, 8), np.array([0, 1, 2, 9, 21, 30], np.int32)
    added = layer(tensor(positions.astype(np.float32))[:, None, None])
    options, expected = {"features": 12, "hidden": 10}, {"x": array(tensor(x) + added)}
    inputs = {"x": x, "positions": positions}
    return [Case("one axis", "embeddings", shape(2, 4), inputs, expected, options, {}, parameters)]


@source("music_transformer", "jason9693", MUSIC)
def music_transformer(rng, folder):
    """It has one table for all heads, read from its end."""
    missing = {name: mock.MagicMock() for name in ("torchvision", "deprecated", "deprecated.sequence")}
    utils = run_file(folder / "utils.py", "utils", missing)
    layers = run_file(folder / "custom" / "layers.py", "music_layers", {"utils": utils})
    heads, head_dim, tokens, x, qkv = 2, 8, 12, normal(rng, 1, 12, 16), {}
    cases = []
    for rows in (12, 20):
        layer = layers.RelativeGlobalAttention(heads, heads * head_dim, max_seq=rows)
        layer.E = tensor(table := normal(rng, rows, head_dim))
        for name, projection in {"q": layer.Wq, "k": layer.Wk, "v": layer.Wv}.items():
            linear(projection, normal(rng, 16, 16, size=0.4))
            qkv[name] = split(array(projection(tensor(x))), heads)
        _, weights = layer([tensor(x)] * 3, mask=~tensor(triangle(tokens)))
        parameters = {"rows": np.stack([table[::-1]] * heads)}
        inputs, options = qkv | attention(tokens, True), {"max_distance": rows}
        sizes, expected = shape(heads, head_dim, 16), {"weights": array(weights)}
        cases.append(Case(f"{rows} rows", "weights", sizes, inputs, expected, options, {}, parameters))
    return cases


@source("transformer_xl", "kimiyoung", TRANSFORMER_XL)
def transformer_xl(rng, folder):
    """With a memory: fewer queries than keys."""
    missing = {name: mock.MagicMock() for name in ("proj_adaptive_softmax", "log_uniform_sampler")}
    with mock.patch.object(sys, "path", list(sys.path)):
        package = run_file(folder / "pytorch" / "mem_transformer.py", "mem_transformer", missing)
    heads, head_dim, tokens, memory = 2, 8, 8, 6
    torch, keys = module("torch"), tokens + memory
    layer = package.RelPartialLearnableMultiHeadAttn(heads, 16, head_dim, 0.0).eval()
    parameters = {
        "projection": normal(rng, 16, heads, head_dim, size=0.4),
        "u": normal(rng, heads, head_dim), "v": normal(rng, heads, head_dim),
    }  # fmt: skip
    linear(layer.r_net, parameters["projection"].reshape(16, -1))
    linear(layer.qkv_net, normal(rng, 16, 48, size=0.4))
    x = tensor(normal(rng, keys, 1, 16))
    q, k, v = (split(array(part.transpose(0, 1)), heads) for part in layer.qkv_net(x).chunk(3, -1))
    qkv = {"q": q[:, memory:].copy(), "k": k, "v": v}
    waves = package.PositionalEmbedding(16)(torch.arange(keys - 1, -1, -1.0))
    seen = np.tril(np.ones((tokens, keys), bool), memory)
    kept = []
    layer.dropatt.register_forward_hook(lambda _, given, __: kept.append(given[0]))
    u, v = tensor(parameters["u"]), tensor(parameters["v"])
    layer(x[memory:], waves, u, v, attn_mask=~tensor(seen)[:, :, None], mems=x[:memory])
    inputs = qkv | {
        "q_positions": steps(tokens, memory), "k_positions": steps(keys), "visible": seen[None, None],
    }  # fmt: skip
    expected = {"weights": array(kept[0].permute(2, 3, 0, 1))}
    return [Case("a memory", "weights", shape(heads, head_dim, 16), inputs, expected, {}, {}, parameters)]


@source("deberta", "microsoft", DEBERTA)
def deberta(rng, folder):
    """It reads the distance from the query to the key in both terms.

    Keys that are as far ahead as its greatest distance, or further, have row 1 there; row 0 in the paper's formula, in
    transformers and here. So there are no more tokens than that.
    """
    torch, heads, head_dim, tokens, buckets, reach = module("torch"), 2, 8, 28, 8, 28
    inside = folder / "DeBERTa" / "deberta"
    around = {
        "DeBERTa": SimpleNamespace(__path__=[]), "DeBERTa.deberta": SimpleNamespace(__path__=[]),
        "DeBERTa.utils": mock.MagicMock(), "DeBERTa.utils.jit_tracing": SimpleNamespace(traceable=lambda one: one),
    }  # fmt: skip
    for name in ("ops", "da_utils"):
        path = f"DeBERTa.deberta.{name}"
        around[path] = run_file(inside / f"{name}.py", path, around, __package__="DeBERTa.deberta")
    path = "DeBERTa.deberta.disentangled_attention"
    package = run_file(inside / "disentangled_attention.py", path, around, __package__="DeBERTa.deberta")
    config = SimpleNamespace(
        hidden_size=16, num_attention_heads=heads, relative_attention=True, position_buckets=buckets,
        max_relative_positions=reach, pos_att_type="c2p|p2c", share_att_key=False, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    layer = package.DisentangledSelfAttention(config).eval()
    x, rows, qkv = normal(rng, 1, tokens, 16), normal(rng, 2 * buckets, 16), {}
    parameters = {"rows": rows} | {name: normal(rng, 16, heads, head_dim, size=0.3) for name in ("key", "query")}
    linear(layer.pos_key_proj, parameters["key"].reshape(16, -1))
    linear(layer.pos_query_proj, parameters["query"].reshape(16, -1))
    for name, projection in {"q": layer.query_proj, "k": layer.key_proj, "v": layer.value_proj}.items():
        linear(projection, normal(rng, 16, 16, size=0.3))
        qkv[name] = split(array(projection(tensor(x))), heads)
    seen = torch.ones(1, 1, tokens, tokens, dtype=torch.bool)
    weights = layer(tensor(x), seen, rel_embeddings=tensor(rows))["attention_probs"]
    options = {"max_distance": reach, "buckets": buckets, "p2c": "query_to_key"}
    sizes, inputs, expected = shape(heads, head_dim, 16), qkv | attention(tokens, False), {"weights": array(weights)}
    return [Case("three terms", "weights", sizes, inputs, expected, options, {}, parameters)]


@source("tupe", "guolinke", TUPE)
def tupe(rng, folder):
    """It normalises p, which is done beforehand here, and treats the first token apart, which is left out."""
    torch, heads, head_dim, tokens = module("torch"), 2, 8, 24
    kept = []

    class Layer(torch.nn.Module):
        """In the place of a layer; keeps the bias that it is given."""

        def __init__(self, **_):
            super().__init__()

        def forward(self, x, self_attn_padding_mask, self_attn_bias):
            kept.append(self_attn_bias)
            return x

    stand_in = SimpleNamespace(
        LayerNorm=lambda width, export: torch.nn.LayerNorm(width), MultiheadAttention=torch.nn.MultiheadAttention,
        TransformerSentenceEncoderLayer=Layer,
    )  # fmt: skip
    path = folder / "fairseq" / "modules" / "transformer_sentence_encoder.py"
    package = run_file(path, "tupe_encoder", {"fairseq": mock.MagicMock(), "fairseq.modules": stand_in})
    cases = []
    for relative in (False, True):
        encoder = package.TransformerSentenceEncoder(
            0, 4, num_encoder_layers=1, embedding_dim=16, num_attention_heads=heads, max_seq_len=tokens,
            rel_pos=relative,
        ).eval()  # fmt: skip
        fill(encoder.pos.weight, normal(rng, tokens + 1, 16))
        parameters = {name: normal(rng, 16, heads, head_dim, size=0.4) for name in ("query", "key")}
        linear(encoder.pos_q_linear, parameters["query"].reshape(16, -1))
        linear(encoder.pos_k_linear, parameters["key"].reshape(16, -1))
        parameters["rows"] = array(encoder.pos_ln(encoder.pos.weight))[1:]
        if relative:
            table = normal(rng, 33, heads)
            fill(encoder.relative_attention_bias.weight, table)
            parameters["distance_bias.table"] = table[:32].copy()
        kept.clear()
        encoder(torch.ones(1, tokens, dtype=torch.long))
        inputs = {"q_positions": steps(tokens - 1, 1), "k_positions": steps(tokens - 1, 1)}
        expected = {"bias": array(kept[0])[None, :, 1:, 1:].copy()}
        options = {"max_position": tokens, "relative": relative}
        sizes = shape(heads, head_dim, 16, bidirectional=True)
        cases.append(Case(f"relative {relative}", "bias", sizes, inputs, expected, options, {}, parameters))
    return cases


@source("irpe", "cream", CREAM, "easydict")
def irpe(rng, folder):
    """Columns of an image that is one row high; its three tables put together as in its attention."""
    missing = {"rpe_ops": mock.MagicMock(), "rpe_ops.rpe_index": None}
    with mock.patch("warnings.warn"):  # says that a kernel for GPUs is not built
        package = run_file(folder / "iRPE" / "DeiT-with-iRPE" / "irpe.py", "irpe", missing)
    heads, head_dim, tokens, (alpha, beta, gamma) = 2, 8, 24, (3, 6, 14)

    def layer(transposed, mode):
        config = SimpleNamespace(alpha=alpha, beta=beta, gamma=gamma)
        return package.iRPE(
            head_dim, num_heads=1, mode=mode, method=package.METHOD.CROSS_COLS, transposed=transposed,
            num_buckets=2 * beta + 1, rpe_config=config,
        )  # fmt: skip

    options = {"alpha": alpha, "beta": beta, "gamma": gamma}
    rows = {name: normal(rng, 2 * beta + 1, head_dim) for name in ("q_rows", "k_rows", "v_rows")}
    on_q, on_k, on_v = (layer(transposed, "contextual") for transposed in (True, True, False))
    fill(on_q.lookup_table_weight, rows["q_rows"].T[None].copy())
    fill(on_k.lookup_table_weight, rows["k_rows"].T[None].copy())
    fill(on_v.lookup_table_weight, rows["v_rows"][None])
    size = {"height": 1, "width": tokens}
    cases = []
    for on in (["k"], ["q"], ["q", "k", "v"]):
        qkv = triple(rng, tokens, heads, head_dim)
        q, k, v = (by_head(qkv[name]) for name in "qkv")
        logits = q @ k.transpose(-1, -2) * head_dim**-0.5
        if "k" in on:
            logits = logits + on_k(q * head_dim**-0.5, **size)
        if "q" in on:
            logits = logits + on_q(k * head_dim**-0.5, **size).transpose(2, 3)
        weights = logits.softmax(-1)
        out = weights @ v + (on_v(weights, **size) if "v" in on else 0)
        inputs, expected = qkv | attention(tokens, False), {"out": from_heads(out)}
        parameters = {f"{name}_rows": rows[f"{name}_rows"] for name in on}
        title = f"contextual, on {', '.join(on)}"
        cases.append(Case(title, "out", shape(heads, head_dim), inputs, expected, {"on": on} | options, {}, parameters))
    numbers, biased = normal(rng, 2 * beta + 1), layer(True, "bias")
    fill(biased.lookup_table_bias, numbers[None])
    bias = array(biased(tensor(normal(rng, 1, 1, tokens, head_dim)), **size))
    picked = some(np.repeat(bias, heads, axis=1), [0, 11, 23])
    options, parameters = options | {"mode": "bias", "on": ["k"]}, {"k_rows": numbers}
    return [*cases, Case("bias, on k", sizes=shape(heads, head_dim), options=options, parameters=parameters, **picked)]


@source("kerple", "chijames", KERPLE)
def kerple(rng, folder):
    """Both kernels; numbers below the least are pushed up to it there, too."""
    around = {f"megatron_mpu.{name}": mock.MagicMock() for name in ("mappings", "random", "utils")}
    around["megatron_mpu"] = SimpleNamespace(__path__=[])
    alone = {"get_model_parallel_rank": lambda: 0, "get_model_parallel_world_size": lambda: 1}
    around["megatron_mpu.initialize"] = SimpleNamespace(**alone)
    path = folder / "megatron" / "mpu" / "layers.py"
    package = run_file(path, "megatron_mpu.layers", around, __package__="megatron_mpu")
    zeros, cases = tensor(np.zeros((1, 3, 24, 24), np.float32)), []
    with without_gpu():
        log = package.ParallelKerpleLog(megatron(3, pos_emb="kerple_log"))
        power = package.ParallelKerplePower(megatron(3, pos_emb="kerple_power_ap_none"))
    for kernel, layer, (r1, r2) in (
        ("log", log, (log.bias_p, log.bias_a)),
        ("power", power, (power.bias_a, power.bias_p)),
    ):
        numbers = {"r1": np.float32([0.3, 1.2, 0.001]), "r2": np.float32([0.7, 2.5, 0.002])}
        fill(r1, numbers["r1"][:, None, None])
        fill(r2, numbers["r2"][:, None, None])
        rows = some(array(layer(zeros)), [0, 1, 11, 23], causal=True)
        cases.append(Case(kernel, sizes=shape(3, 4), options={"kernel": kernel}, parameters=numbers, **rows))
    return cases


@source("kerple", "dape", DAPE)
def kerple_again(rng, folder):
    package = run_file(folder / "DAPE.py", "dape")
    with without_gpu():
        layer = package.ParallelKerpleLog(megatron(3, pos_emb="kerple_log"))
    r1, r2 = (rng.uniform(0.1, 2, 3).astype(np.float32) for _ in range(2))
    fill(layer.bias_p, r1[:, None, None])
    fill(layer.bias_a, r2[:, None, None])
    rows = some(array(layer(tensor(np.zeros((1, 3, 24, 24), np.float32)))), [0, 1, 11, 23], causal=True)
    return [Case("log", sizes=shape(3, 4), parameters={"r1": r1, "r2": r2}, **rows)]


@source("fire", "dape", DAPE)
def fire(rng, folder):
    """The network's last bias is the same for all keys."""
    layer = run_file(folder / "DAPE.py", "dape").FIRE(3, 8, init_L=6.0)
    parameters = {
        "c": np.float32(0.4), "multiplier": np.float32(1.5), "up": normal(rng, 1, 8), "up_bias": normal(rng, 8),
        "down": normal(rng, 8, 3),
    }  # fmt: skip
    fill(layer.c, 0.4)
    fill(layer.L_multiplier, 1.5)
    linear(layer.mlp[0], parameters["up"], parameters["up_bias"])
    linear(layer.mlp[2], parameters["down"], normal(rng, 3))
    bias = array(layer(tensor(np.zeros((1, 3, 24, 24), np.float32))))
    rows = some(bias, [0, 1, 8, 9, 10, 23], causal=True, per_row=True)
    options = {"hidden": 8, "threshold": 6.0}
    return [Case("a short threshold", sizes=shape(3, 4), options=options, parameters=parameters, **rows)]


@source("dape", "zheng", DAPE)
def dape(rng, folder):
    """Of ALiBi and of KERPLE; the network's last bias is the same for all keys."""
    package, heads, tokens = run_file(folder / "DAPE.py", "dape"), 3, 12
    with without_gpu():
        kerple = package.ParallelKerpleLog_DAPE(megatron(heads, pos_emb="kerple_log", mlp_width=8), 0)
    r1, r2 = (rng.uniform(0.1, 2, heads).astype(np.float32) for _ in range(2))
    fill(kerple.bias_p, r1[:, None, None])
    fill(kerple.bias_a, r2[:, None, None])
    cases = []
    for of, layer, own in (
        ("alibi", package.AliBi_DAPE(heads, mp_rank=0, mlp_width=8), {}),
        ("kerple", kerple, {"of.r1": r1, "of.r2": r2}),
    ):
        qkv = triple(rng, tokens, heads, 8)
        parameters = {"up": normal(rng, 2 * heads, 8), "up_bias": normal(rng, 8), "down": normal(rng, 8, heads)}
        linear(layer.mlp2[0], parameters["up"], parameters["up_bias"])
        linear(layer.mlp2[2], parameters["down"], normal(rng, heads))
        expected = {"weights": softmax(layer(logits_of(qkv)), triangle(tokens))}
        inputs, options = qkv | attention(tokens, True), {"of": of, "hidden": 8}
        cases.append(Case(of, "weights", shape(heads, 8), inputs, expected, options, {}, parameters | own))
    return cases


@source("cable", "axiomlab", CABLE)
def cable(rng, folder):
    """It does not divide the products by anything; queries that are sqrt(d) times as large make up for it."""
    package = run_file(folder / "src" / "Cable.py", "cable")
    heads, head_dim, tokens, x = 2, 8, 12, normal(rng, 1, 12, 16)
    layer = package.CausalSelfAttention(SimpleNamespace(n_embd=16, n_head=heads, block_size=tokens))
    parameters = {"step": normal(rng, 16, heads, size=0.3), "step_bias": normal(rng, heads)}
    linear(layer.h_attn, parameters["step"], parameters["step_bias"])
    linear(layer.c_attn, normal(rng, 16, 48, size=0.3))
    linear(layer.c_proj, np.eye(16, dtype=np.float32))
    q, k, v = (split(array(part), heads) for part in layer.c_attn(tensor(x)).chunk(3, -1))
    inputs = {"q": q * np.float32(head_dim**0.5), "k": k, "v": v, "x": x} | attention(tokens, True)
    expected = {"out": split(array(layer(tensor(x))), heads)}
    return [Case("steps", "out", shape(heads, head_dim, 16), inputs, expected, {}, {}, parameters)]


@source("rope", "longrope", LONGROPE, "transformers")
def rope(rng, folder):
    """LongRoPE, with and without first positions that stay as they are, and its copy of YaRN's code."""
    torch, llama = module("torch"), module("transformers.models.llama.modeling_llama")
    longrope, yarn = (run_file(folder / "rope" / f"{name}.py", f"longrope_{name}") for name in ("longrope", "yarn"))
    tokens, factors = 24, np.linspace(1, 6, 8).round(3).tolist()
    given = dict(max_position_embeddings=80, original_max_position_embeddings=20, model_type="mistral")
    plain = torch.outer(torch.arange(tokens), 1 / 10000 ** (torch.arange(0, 16, 2) / 16)).repeat(1, 2)
    # What stays as it was is to be handed over, already as large as the rest.
    size = longrope.LongRoPEScaledRotaryEmbedding(16, factors, **given).mscale
    first = (plain.cos() * size, plain.sin() * size)
    given_yarn = given | {"scale": 4.0, "original_max_position_embeddings": 64}
    options = {"scaling": "longrope", "factor": 4.0, "original": 20, "rescale": factors}
    whole = longrope.LongRoPEScaledRotaryEmbedding(16, factors, **given)
    mixed = longrope.MixedLongRoPEScaledRotaryEmbedding(16, factors, 5, first, **given)
    turning = yarn.YaRNScaledRotaryEmbedding(16, **given_yarn)
    yarn_options = {"scaling": "yarn", "factor": 4.0, "original": 64, "ramp": "pairs"}
    cases = []
    for title, forward, own in (
        ("longrope", whole.forward, options),
        # Its forward hands over one pair where two waves are asked for; this is what it means to do.
        (
            "longrope, first positions",
            lambda x, length: mixed._add_original_embeddings(*mixed._longrope_forward(x, length)),
            options | {"start": 5},
        ),
        ("yarn", turning.forward, yarn_options),
    ):
        inputs = {name: normal(rng, 1, tokens, 2, 16) for name in "qk"}
        cos, sin = forward(tensor(inputs["q"]), tokens)
        cos, sin = (wave.reshape(-1, 16)[:tokens][None] for wave in (cos, sin))
        q, k = llama.apply_rotary_pos_emb(tensor(inputs["q"]), tensor(inputs["k"]), cos, sin, unsqueeze_dim=2)
        inputs |= {"q_positions": steps(tokens), "k_positions": steps(tokens)}
        cases.append(Case(title, "turned", shape(2, 16), inputs, {"q": array(q), "k": array(k)}, own))
    return cases


@source("axial_rope", "rope_vit", ROPE_VIT)
def axial_rope(rng, folder):
    package = run_file(folder / "self-attn" / "rope_self_attn.py", "rope_vit")
    cases = []
    for base in (100.0, 10.0):
        inputs = {name: normal(rng, 1, 15, 2, 8) for name in "qk"}
        waves = package.compute_axial_cis(8, 5, 3, base)
        turned = package.apply_rotary_emb(by_head(inputs["q"]), by_head(inputs["k"]), waves)
        across, down = package.init_t_xy(5, 3)
        grid = np.stack([array(across), array(down)], -1).astype(np.int32)[None]
        expected = dict(zip("qk", map(from_heads, turned), strict=True))
        inputs |= {"q_positions": grid, "k_positions": grid}
        cases.append(Case(f"base {base:.0f}", "turned", shape(2, 8), inputs, expected, {"base": base}))
    return cases


@source("stick_breaking", "tan", STICK)
def stick_breaking(rng, folder):
    """Its reference, with the masks of its test; what is left of the stick goes nowhere, as in the paper."""
    torch = module("torch")
    package = run_file(folder / "stickbreaking_attention" / "sb_ref.py", "sb_ref")
    cases = []
    for size in (1.0, 4.0):
        tokens, ones = 14, torch.ones(14, 14)
        qkv = triple(rng, tokens, 2, 8, size)
        out, left = package.stickbreaking(*map(by_head, qkv.values()), ones.triu(0).bool(), ones.tril(-1))
        del left
        inputs = qkv | attention(tokens, True)
        cases.append(Case(f"queries of size {size:.0f}", "out", shape(2, 8), inputs, {"out": from_heads(out)}))
    return cases
