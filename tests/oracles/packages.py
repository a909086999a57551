"""Sources that are packages: torch, transformers, x-transformers, equinox, torchscale, fla-core, nemo_toolkit."""

import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.oracles.cases import Case
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


def run_file(path: Path, name: str, stand_ins: dict[str, Any] | None = None, **attributes: Any) -> ModuleType:
    """A module from one file, without the package around it; what it imports beyond torch stands in."""
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    loaded.__dict__.update(attributes)
    own = {name: one for name, one in (stand_ins or {}).items() if name not in sys.modules}
    sys.modules.update(own)
    try:
        spec.loader.exec_module(loaded)
    finally:
        for one in own:  # and no others: what was imported meanwhile, such as torch, has to stay
            sys.modules.pop(one)
    return loaded


def file_of(package: str, path: str) -> Path:
    """A file of an installed package that need not be importable as a whole."""
    return Path(str(importlib.metadata.distribution(package).locate_file(path)))


# No positions, plain positions, tables and waves.


@source("none", "torch", "torch")
def none(rng):
    functional = module("torch.nn.functional")
    cases = []
    for causal in (True, False):
        qkv = triple(rng, 10, 2, 8)
        out = functional.scaled_dot_product_attention(*(by_head(qkv[name]) for name in "qkv"), is_causal=causal)
        inputs = qkv | attention(10, causal)
        cases.append(Case(f"causal {causal}", "out", shape(2, 8), inputs, {"out": from_heads(out)}))
    return cases


@source("index", "torch", "torch")
def index(rng):
    torch = module("torch")
    x, positions, weight = normal(rng, 1, 6, 8), np.array([0, 1, 2, 5, 9, 40], np.int32), normal(rng, 9, 8, size=0.3)
    layer = torch.nn.Linear(9, 8, bias=False)
    linear(layer, weight)
    column = tensor(0.125 * positions.astype(np.float32))[None, :, None]
    expected = {"x": array(layer(torch.cat([tensor(x), column], -1)))}
    inputs = {"x": x, "positions": positions}
    return [Case("appended", "embeddings", shape(2, 4), inputs, expected, {"scale": 0.125}, {}, {"projection": weight})]


@source("one_hot", "torch", "torch")
def one_hot(rng):
    torch = module("torch")
    x, positions, weight = normal(rng, 1, 5, 8), np.array([0, 1, 3, 6, 5], np.int32), normal(rng, 15, 8, size=0.3)
    layer = torch.nn.Linear(15, 8, bias=False)
    linear(layer, weight)
    ones = torch.nn.functional.one_hot(tensor(positions).long(), 7)[None].float()
    appended = array(layer(torch.cat([tensor(x), ones], -1)))
    added = array(tensor(x) + torch.nn.functional.pad(ones, (0, 1)))
    inputs = {"x": x, "positions": positions}
    append, add = ({"max_position": 7, "combine": how} for how in ("append", "add"))
    return [
        Case("appended", "embeddings", shape(2, 4), inputs, {"x": appended}, append, {}, {"projection": weight}),
        Case("added", "embeddings", shape(2, 4), inputs, {"x": added}, add),
    ]


@source("sinusoidal", "x_transformers", "x-transformers")
def sinusoidal_scaled(rng):
    layer = module("x_transformers.x_transformers").ScaledSinusoidalEmbedding(12)
    fill(layer.scale, np.float32([0.7]))
    x, positions = normal(rng, 1, 9, 12), np.array([0, 1, 2, 7, 8, 30, 31, 60, 61], np.int32)
    expected = {"x": array(tensor(x) + layer(tensor(x), pos=tensor(positions)))}
    options = {"layout": "halves", "learned_scale": True}
    sizes, inputs = shape(2, 4, 12), {"x": x, "positions": positions}
    return [Case("halves", "embeddings", sizes, inputs, expected, options, {}, {"scale": np.float32(0.7)})]


@source("sinusoidal", "transformers", "transformers")
def sinusoidal_tables(rng):
    torch = module("torch")
    x, sizes = normal(rng, 1, 64, 12), shape(2, 4, 12)
    interleaved = torch.zeros(64, 12)
    module("transformers.models.xlm.modeling_xlm").create_sinusoidal_embeddings(64, 12, interleaved)
    roformer = module("transformers.models.roformer.modeling_roformer").RoFormerSinusoidalPositionalEmbedding(64, 12)
    inputs = {"x": x, "positions": steps(64)}
    return [
        Case("XLM", "embeddings", sizes, inputs, {"x": x + array(interleaved)}),
        Case("RoFormer", "embeddings", sizes, inputs, {"x": x + array(roformer.create_weight())}, {"layout": "halves"}),
    ]


@source("learned", "x_transformers", "x-transformers")
def learned_scaled(rng):
    layer = module("x_transformers.x_transformers").AbsolutePositionalEmbedding(8, 16)
    rows = normal(rng, 16, 8)
    fill(layer.emb.weight, rows)
    x, positions = normal(rng, 1, 6, 8), np.array([0, 3, 4, 9, 2, 15], np.int32)
    expected = {"x": array(tensor(x) + layer(tensor(x), pos=tensor(positions)))}
    parameters = {"rows": rows * np.float32(8**-0.5)}  # it divides by the square root of the width
    inputs = {"x": x, "positions": positions}
    return [Case("rows", "embeddings", shape(2, 4), inputs, expected, {"max_position": 16}, {}, parameters)]


@source("learned", "transformers_clip", "transformers")
def learned_clip(rng):
    clip = module("transformers.models.clip.modeling_clip")
    config = module("transformers").CLIPTextConfig(hidden_size=8, vocab_size=3, max_position_embeddings=16)
    layer = clip.CLIPTextEmbeddings(config)
    rows = normal(rng, 16, 8)
    fill(layer.position_embedding.weight, rows)
    x, positions = normal(rng, 1, 6, 8), np.array([0, 3, 4, 9, 2, 15], np.int32)
    expected = {"x": array(layer(inputs_embeds=tensor(x), position_ids=tensor(positions).long()[None]))}
    inputs = {"x": x, "positions": positions}
    return [Case("rows", "embeddings", shape(2, 4), inputs, expected, {"max_position": 16}, {}, {"rows": rows})]


# Rows and numbers for distances.


@source("shaw", "transformers_wav2vec2_bert", "transformers")
def shaw_keys(rng):
    """Counts from the query to the key, so that its table is ours read backwards; no rows on the values."""
    torch, heads, head_dim, left, right = module("torch"), 2, 8, 5, 3
    wav2vec2 = module("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    config = module("transformers").Wav2Vec2BertConfig(
        hidden_size=16, num_attention_heads=heads, position_embeddings_type="relative_key", attention_dropout=0.0,
        left_max_position_embeddings=left, right_max_position_embeddings=right, attn_implementation="eager",
    )  # fmt: skip
    layer = wav2vec2.Wav2Vec2BertSelfAttention(config).eval()
    qkv, rows, x = {}, normal(rng, left + right + 1, head_dim), normal(rng, 1, 12, 16)
    fill(layer.distance_embedding.weight, rows)
    for name, projection in {"q": layer.linear_q, "k": layer.linear_k, "v": layer.linear_v}.items():
        linear(projection, normal(rng, 16, 16, size=0.4))
        qkv[name] = split(array(projection(tensor(x))), heads)
    weights = layer(tensor(x), output_attentions=True)[1]
    seen = torch.zeros(1, 1, 12, 12).masked_fill(~tensor(triangle(12)), float("-inf"))
    causal = layer(tensor(x), attention_mask=seen, output_attentions=True)[1]
    options = {"r_min": -right, "r_max": left, "values": False}
    parameters = {"key_rows": rows[::-1].copy()}

    def case(title, weights, inputs):
        expected = {"weights": array(weights)}
        return Case(title, "weights", shape(heads, head_dim, 16), qkv | inputs, expected, options, {}, parameters)

    return [case("both sides", weights, attention(12, False)), case("causal", causal, attention(12, True))]


@source("shaw", "transformers_vits", "transformers")
def shaw_values(rng):
    """Rows on keys and values; they are zero beyond the window, so that only distances within it are compared."""
    heads, head_dim, window = 2, 8, 11
    config = module("transformers").VitsConfig(
        hidden_size=16, num_attention_heads=heads, window_size=window, attention_dropout=0.0
    )
    layer = module("transformers.models.vits.modeling_vits").VitsAttention(config).eval()
    x, keys, values = normal(rng, 1, 12, 16), *(normal(rng, 2 * window + 1, head_dim) for _ in range(2))
    fill(layer.emb_rel_k, keys[None])
    fill(layer.emb_rel_v, values[None])
    linear(layer.out_proj, np.eye(16, dtype=np.float32))
    qkv = {}
    for name, projection in {"q": layer.q_proj, "k": layer.k_proj, "v": layer.v_proj}.items():
        linear(projection, normal(rng, 16, 16, size=0.4))
        qkv[name] = split(array(projection(tensor(x))), heads)
    out, weights = layer(tensor(x), output_attentions=True)
    expected = {"out": split(array(out), heads), "weights": array(weights)}
    parameters = {"key_rows": keys[::-1].copy(), "value_rows": values[::-1].copy()}
    options = {"r_min": -window, "r_max": window}
    inputs = qkv | attention(12, False)
    return [Case("keys and values", "out", shape(heads, head_dim, 16), inputs, expected, options, {}, parameters)]


def transformers_t5(heads: int, decoder: bool, buckets: int, reach: int) -> Any:
    """An attention layer with a bias."""
    config = module("transformers").T5Config(
        d_model=8, d_kv=4, num_heads=heads, is_decoder=decoder, relative_attention_num_buckets=buckets,
        relative_attention_max_distance=reach, dropout_rate=0.0, attn_implementation="eager",
    )  # fmt: skip
    layer = module("transformers.models.t5.modeling_t5").T5Attention(config, True, layer_idx=0)
    return layer.eval()


@source("t5", "transformers", "transformers")
def t5(rng):
    cases = []
    for decoder, buckets, reach in ((True, 32, 128), (False, 32, 128), (True, 12, 40), (False, 20, 50)):
        table = normal(rng, buckets, 3)
        layer = transformers_t5(3, decoder, buckets, reach)
        fill(layer.relative_attention_bias.weight, table)
        rows = some(array(layer.compute_bias(160, 160)), [0, 79, 159])
        options, sizes = {"buckets": buckets, "max_distance": reach}, shape(3, 4, bidirectional=not decoder)
        title = f"decoder {decoder}, {buckets} buckets up to {reach}"
        cases.append(Case(title, sizes=sizes, options=options, parameters={"table": table}, **rows))
    layer, table, qkv, x = transformers_t5(2, False, 32, 128), normal(rng, 32, 2), {}, normal(rng, 1, 12, 8)
    fill(layer.relative_attention_bias.weight, table)
    for name, projection in {"q": layer.q, "k": layer.k, "v": layer.v}.items():
        linear(projection, normal(rng, 8, 8, size=0.4))
        qkv[name] = split(array(projection(tensor(x))), 2)
    expected = {"weights": array(layer(tensor(x))[2])}
    inputs, sizes = qkv | attention(12, False), shape(2, 4, bidirectional=True)
    options = {"scaled": False}
    return [*cases, Case("not scaled", "weights", sizes, inputs, expected, options, {}, {"table": table})]


@source("t5", "x_transformers", "x-transformers")
def t5_again(rng):
    cases = []
    for causal in (True, False):
        table = normal(rng, 32, 3)
        layer = module("x_transformers.x_transformers").RelativePositionBias(1.0, causal=causal, heads=3)
        fill(layer.relative_attention_bias.weight, table)
        rows = some(array(layer(160, 160))[None], [0, 100, 159])
        sizes = shape(3, 4, bidirectional=not causal)
        cases.append(Case(f"causal {causal}", sizes=sizes, parameters={"table": table}, **rows))
    return cases


@source("scalar_bias", "transformers_swin", "transformers")
def scalar_bias(rng):
    """A window of one row. No distance is clipped there."""
    layer = module("transformers.models.swin.modeling_swin").SwinRelativePositionBias(3, (1, 12))
    table = normal(rng, 23, 3)
    fill(layer.relative_position_bias_table, table)
    bias = array(layer())
    both, behind = some(bias, range(12)), some(bias, range(12), causal=True)
    options = {"max_distance": 11}
    return [
        Case("both sides", sizes=shape(3, 4, bidirectional=True), options=options, parameters={"table": table}, **both),
        Case("behind", sizes=shape(3, 4), options=options, parameters={"table": table[11:].copy()}, **behind),
    ]


@source("mlp_bias", "x_transformers", "x-transformers")
def mlp_bias(rng):
    cases = []
    for log in (False, True):
        layer = module("x_transformers.x_transformers").DynamicPositionBias(8, heads=3, depth=2, log_distance=log)
        parameters = {
            "first": normal(rng, 1, 8), "first_bias": normal(rng, 8), "second": normal(rng, 8, 8, size=0.4),
            "second_bias": normal(rng, 8), "last": normal(rng, 8, 3, size=0.4),
        }  # fmt: skip
        linear(layer.mlp[0][0], parameters["first"], parameters["first_bias"])
        linear(layer.mlp[1][0], parameters["second"], parameters["second_bias"])
        linear(layer.mlp[2], parameters["last"], normal(rng, 3))  # its last bias is the same for all keys
        rows = some(array(layer(24, 24))[None], [0, 7, 23], per_row=True)
        options = {"hidden": 8, "log": log}
        cases.append(Case(f"log {log}", sizes=shape(3, 4), options=options, parameters=parameters, **rows))
    return cases


HEADS = (2, 3, 6, 8, 12)


@source("alibi", "transformers_bloom", "transformers")
def alibi_bloom(rng):
    """It adds slope times position of the key, which differs for each query by a number."""
    torch, bloom = module("torch"), module("transformers.models.bloom.modeling_bloom")
    cases = []
    for heads in HEADS:
        bias = bloom.build_alibi_tensor(torch.ones(1, 20, dtype=torch.long), heads, torch.float32)
        rows = some(array(bias)[None], [0, 1, 11, 19], per_row=True, causal=True)
        cases.append(Case(f"{heads} heads", sizes=shape(heads, 4), **rows))
    return cases


@source("alibi", "transformers_mpt", "transformers")
def alibi_mpt(rng):
    """As above, by another rule for the slopes of heads that are no power of two."""
    mpt = module("transformers.models.mpt.modeling_mpt")
    cases = []
    for heads in HEADS:
        bias = array(mpt.build_mpt_alibi_tensor(heads, 20))[None]
        rows = some(bias, [0, 1, 11, 19], per_row=True, causal=True)
        cases.append(Case(f"{heads} heads", sizes=shape(heads, 4), **rows))
    return cases


@source("alibi", "x_transformers", "x-transformers")
def alibi(rng):
    layer = module("x_transformers.x_transformers").AlibiPositionalBias
    cases = []
    for heads in HEADS:
        rows = some(array(layer(heads)(20, 20))[None], [0, 9, 19])
        cases.append(Case(f"{heads} heads", sizes=shape(heads, 4, bidirectional=True), **rows))
    slopes = np.abs(normal(rng, 3))
    rows = some(array(layer(3, slopes=slopes.tolist())(20, 20))[None], [0, 9, 19])
    options = {"slopes": "learned"}
    return [*cases, Case("learned", sizes=shape(3, 4), options=options, parameters={"slopes": slopes}, **rows)]


NEMO = "nemo/collections/nlp/modules/common/megatron/position_embedding"


def nemo(name: str) -> ModuleType:
    """A file of the folder, which imports one other and a decorator that warns."""
    alibi = f"{NEMO}/alibi_relative_position_embedding"
    first = run_file(file_of("nemo_toolkit", f"{alibi}.py"), "nemo_alibi")
    path = file_of("nemo_toolkit", f"{NEMO}/{name}_relative_position_embedding.py")
    silent = SimpleNamespace(experimental=lambda one: one)
    return run_file(path, f"nemo_{name}", {alibi.replace("/", "."): first, "nemo.utils.decorators": silent})


@source("kerple", "nemo", "nemo_toolkit")
def kerple(rng):
    """It has an exponent on the distance in the logarithm besides, which is 1 here."""
    layer = nemo("kerple").KERPLERelativePositionEmbedding(True, 3, None, max_seq_len=24)
    r1, r2 = (rng.uniform(0.1, 2, 3).astype(np.float32) for _ in range(2))
    fill(layer.kerple_b, r1[:, None, None])
    fill(layer.kerple_a, r2[:, None, None])
    rows = some(array(layer(24, 24)), [0, 11, 23])
    return [Case("log", sizes=shape(3, 4), parameters={"r1": r1, "r2": r2}, **rows)]


@source("sandwich", "nemo", "nemo_toolkit")
def sandwich(rng):
    """It counts the waves from 1 on and subtracts their number.

    From 1 on is from 0 on with all positions shrunk by the step from one wave to the next; the number is the same for
    all keys.
    """
    layer = nemo("sandwich").SandwichRelativePositionEmbedding(True, 3, None, 16, max_seq_len=24)
    rows = some(array(layer(24, 24)), [0, 11, 23], per_row=True)
    shrunk = np.float64(10000) ** (-2 / 16)
    rows["inputs"] = {name: (shrunk * values).astype(np.float32) for name, values in rows["inputs"].items()}
    return [Case("all waves but one", sizes=shape(3, 4), options={"channels": 16}, **rows)]


@source("sandwich", "transformers_xlm", "transformers")
def sandwich_table(rng):
    """The product of a table of waves with itself, which is what the encoding is by definition."""
    torch = module("torch")
    table = torch.zeros(24, 16)
    module("transformers.models.xlm.modeling_xlm").create_sinusoidal_embeddings(24, 16, table)
    compression = 8 * torch.arange(1, 4)[:, None, None] / 3
    rows = some(array((table @ table.T)[None] / compression)[None], [0, 11, 23])
    return [Case("a table's products", sizes=shape(3, 4), options={"channels": 16}, **rows)]


# Terms in the products.


@source("transformer_xl", "transformers_xlnet", "transformers")
def transformer_xl(rng):
    heads, head_dim, tokens = 2, 8, 12
    config = module("transformers").XLNetConfig(d_model=16, n_head=heads, d_head=head_dim, n_layer=1, d_inner=4)
    xlnet = module("transformers.models.xlnet.modeling_xlnet")
    layer = xlnet.XLNetRelativeAttention(config).eval()
    waves = xlnet.XLNetModel(config).relative_positional_encoding(tokens, tokens)
    qkv = triple(rng, tokens, heads, head_dim)
    parameters = {
        "projection": normal(rng, 16, heads, head_dim, size=0.4),
        "u": normal(rng, heads, head_dim), "v": normal(rng, heads, head_dim),
    }  # fmt: skip
    fill(layer.r, parameters["projection"])
    fill(layer.r_w_bias, parameters["u"])
    fill(layer.r_r_bias, parameters["v"])
    torch = module("torch")
    rows = torch.einsum("ibh,hnd->ibnd", waves, layer.r)
    cases = []
    for causal in (False, True):
        inputs = qkv | attention(tokens, causal)
        hidden = ~tensor(inputs["visible"])[0, 0, :, :, None, None]
        given = (tensor(qkv[name].swapaxes(0, 1)) for name in "qkv")
        weights = layer.rel_attn_core(*given, rows, attn_mask=hidden.float(), output_attentions=True)[1]
        expected, title = {"weights": array(weights.permute(2, 3, 0, 1))}, f"causal {causal}"
        cases.append(Case(title, "weights", shape(heads, head_dim, 16), inputs, expected, {}, {}, parameters))
    return cases


@source("deberta", "transformers", "transformers")
def deberta(rng):
    """It reads the distance from the query to the key in both terms."""
    torch, heads, head_dim, tokens, buckets, reach = module("torch"), 2, 8, 28, 8, 20
    config = module("transformers").DebertaV2Config(
        hidden_size=16, num_attention_heads=heads, relative_attention=True, position_buckets=buckets,
        max_relative_positions=reach, pos_att_type="c2p|p2c", share_att_key=False, norm_rel_ebd="none",
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    layer = module("transformers.models.deberta_v2.modeling_deberta_v2").DisentangledSelfAttention(config).eval()
    x, rows, qkv = normal(rng, 1, tokens, 16), normal(rng, 2 * buckets, 16), {}
    parameters = {"rows": rows} | {name: normal(rng, 16, heads, head_dim, size=0.3) for name in ("key", "query")}
    linear(layer.pos_key_proj, parameters["key"].reshape(16, -1))
    linear(layer.pos_query_proj, parameters["query"].reshape(16, -1))
    for name, projection in {"q": layer.query_proj, "k": layer.key_proj, "v": layer.value_proj}.items():
        linear(projection, normal(rng, 16, 16, size=0.3))
        qkv[name] = split(array(projection(tensor(x))), heads)
    seen = torch.ones(1, 1, tokens, tokens)
    _, weights = layer(tensor(x), seen, output_attentions=True, rel_embeddings=tensor(rows))
    options = {"max_distance": reach, "buckets": buckets, "p2c": "query_to_key"}
    sizes, inputs, expected = shape(heads, head_dim, 16), qkv | attention(tokens, False), {"weights": array(weights)}
    return [Case("three terms", "weights", sizes, inputs, expected, options, {}, parameters)]


@source("cope", "x_transformers", "x-transformers")
def cope(rng):
    """It counts hidden keys unless their logits are very low, and adds its term to the logits."""
    torch, heads, head_dim, tokens = module("torch"), 2, 8, 14
    cases = []
    for rows in (24, 5):
        layer = module("x_transformers.x_transformers").CoPE(head_dim, heads, rows)
        table, qkv, seen = normal(rng, rows, head_dim), triple(rng, tokens, heads, head_dim), triangle(tokens)
        fill(layer.pos_emb, table)
        logits = by_head(qkv["q"]) @ by_head(qkv["k"]).transpose(-1, -2) * head_dim**-0.5
        hidden = logits.masked_fill(~tensor(seen), -torch.finfo(torch.float32).max)
        expected = {"weights": softmax(logits + layer(by_head(qkv["q"]), hidden), seen)}
        inputs, options = qkv | attention(tokens, True), {"max_position": rows, "scaled": False}
        sizes, title = shape(heads, head_dim), f"{rows} rows"
        cases.append(Case(title, "weights", sizes, inputs, expected, options, {}, {"rows": table}))
    return cases


def gates(rng: np.random.Generator, sign: int) -> tuple[Any, dict[str, np.ndarray], np.ndarray]:
    """x-transformers' forget gates of random tokens, a matrix and a bias; they are minus softplus of minus these."""
    layer = module("x_transformers.x_transformers").DataDependentAlibi(16, 2)
    weight, bias, x = normal(rng, 16, 2, size=0.3), normal(rng, 2), normal(rng, 1, 12, 16)
    linear(layer.to_forget_gates[0], sign * weight, sign * bias)
    return layer(tensor(x)), {"weight": weight, "bias": bias}, x


@source("fox", "x_transformers", "x-transformers")
def fox(rng):
    bias, drawn, x = gates(rng, 1)
    qkv = triple(rng, 12, 2, 8)
    logits = by_head(qkv["q"]) @ by_head(qkv["k"]).transpose(-1, -2) * 8**-0.5 + bias
    expected = {"weights": softmax(logits, triangle(12))}
    inputs, parameters = qkv | {"x": x} | attention(12, True), {"gate": drawn["weight"], "gate_bias": drawn["bias"]}
    return [Case("gates", "weights", shape(2, 8, 16), inputs, expected, {}, {}, parameters)]


@source("fox", "fla", "fla-core", "einops")
def fox_fla(rng):
    """Its plain reference, which is given the logarithms of the gates; those are torch's."""
    torch = module("torch")
    path = file_of("fla-core", "fla/ops/forgetting_attn/naive.py")
    qkv, x, weight, bias = triple(rng, 12, 2, 8), normal(rng, 1, 12, 16), normal(rng, 16, 2, size=0.3), normal(rng, 2)
    opened = torch.nn.functional.logsigmoid(tensor(x) @ tensor(weight) + tensor(bias))
    out = run_file(path, "fla_naive").naive_forgetting_attn(*(tensor(qkv[name]) for name in "qkv"), opened)
    inputs, parameters = qkv | {"x": x} | attention(12, True), {"gate": weight, "gate_bias": bias}
    return [Case("gates", "out", shape(2, 8, 16), inputs, {"out": array(out)}, {}, {}, parameters)]


@source("cable", "x_transformers", "x-transformers")
def cable(rng):
    """Forget gates with weights of the other sign: log sigma(-z) = -softplus(z)."""
    bias, drawn, x = gates(rng, -1)
    qkv = triple(rng, 12, 2, 8)
    logits = by_head(qkv["q"]) @ by_head(qkv["k"]).transpose(-1, -2) * 8**-0.5 + bias
    expected = {"weights": softmax(logits, triangle(12))}
    inputs, parameters = qkv | {"x": x} | attention(12, True), {"step": drawn["weight"], "step_bias": drawn["bias"]}
    return [Case("steps", "weights", shape(2, 8, 16), inputs, expected, {}, {}, parameters)]


# Turned queries and keys.


def turned(rng: np.random.Generator, tokens: int, head_dim: int) -> dict[str, np.ndarray]:
    """Queries and keys of two heads, and their positions."""
    return {name: normal(rng, 1, tokens, 2, head_dim) for name in "qk"} | {
        "q_positions": steps(tokens),
        "k_positions": steps(tokens),
    }


@source("rope", "transformers_llama", "transformers")
def rope(rng):
    """Halves, and every kind of scaling."""
    llama, transformers = module("transformers.models.llama.modeling_llama"), module("transformers")
    factors = np.linspace(1, 6, 8).round(3).tolist()
    scalings: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "plain": ({"rope_type": "default"}, {}),
        "another base": ({"rope_type": "default", "rope_theta": 500.0}, {"base": 500.0}),
        "linear": ({"rope_type": "linear", "factor": 4.0}, {"scaling": "linear", "factor": 4.0}),
        "dynamic": (
            {"rope_type": "dynamic", "factor": 2.0},
            {"scaling": "dynamic_ntk", "factor": 2.0, "original": 20, "length": 48},
        ),
        "dynamic, short": (
            {"rope_type": "dynamic", "factor": 2.0, "original": 64},
            {"scaling": "dynamic_ntk", "factor": 2.0, "original": 64, "length": 48},
        ),
        "yarn": (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256},
            {"scaling": "yarn", "factor": 4.0, "original": 256, "ramp": "pairs"},
        ),
        "yarn, short": (
            {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 40},
            {"scaling": "yarn", "factor": 8.0, "original": 40, "ramp": "pairs"},
        ),
        "llama3": (
            {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            {"scaling": "llama3", "factor": 8.0, "original": 64},
        ),
        "longrope": (
            {
                "rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 20,
                "short_factor": [1.0] * 8, "long_factor": factors,
            },
            {"scaling": "longrope", "factor": 4.0, "original": 20, "rescale": factors},
        ),
        "proportional": ({"rope_type": "proportional", "partial_rotary_factor": 0.75}, {"keep": 0.75}),
    }  # fmt: skip
    cases = []
    for title, (theirs, options) in scalings.items():
        trained = theirs.pop("original", 20)
        config = transformers.LlamaConfig(
            hidden_size=32, num_attention_heads=2, head_dim=16, max_position_embeddings=trained,
            rope_parameters={"rope_theta": 10000.0} | theirs,
        )  # fmt: skip
        inputs = turned(rng, 8, 16)
        inputs["q_positions"] = np.array([0, 1, 2, 5, 13, 19, 20, 47], np.int32)
        inputs["k_positions"] = inputs["q_positions"]
        positions = tensor(inputs["q_positions"]).long()[None]
        cos, sin = llama.LlamaRotaryEmbedding(config)(tensor(inputs["q"]), positions)
        q, k = llama.apply_rotary_pos_emb(tensor(inputs["q"]), tensor(inputs["k"]), cos, sin, unsqueeze_dim=2)
        cases.append(Case(title, "turned", shape(2, 16), inputs, {"q": array(q), "k": array(k)}, options))
    return cases


@source("rope", "transformers_gptj", "transformers")
def rope_interleaved(rng):
    gptj, torch = module("transformers.models.gptj.modeling_gptj"), module("torch")
    inputs = turned(rng, 24, 8)
    sin, cos = torch.split(gptj.create_sinusoidal_positions(24, 8)[None], 4, dim=-1)
    expected = {name: array(gptj.apply_rotary_pos_emb(tensor(inputs[name]), sin, cos)) for name in "qk"}
    return [Case("interleaved", "turned", shape(2, 8), inputs, expected, {"layout": "interleaved"})]


@source("rope", "transformers_gpt_neox", "transformers")
def rope_partial(rng):
    neox = module("transformers.models.gpt_neox.modeling_gpt_neox")
    config = module("transformers").GPTNeoXConfig(
        hidden_size=32, num_attention_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    )  # fmt: skip
    inputs = turned(rng, 24, 16)
    cos, sin = neox.GPTNeoXRotaryEmbedding(config)(tensor(inputs["q"]), tensor(inputs["q_positions"]).long()[None])
    q, k = neox.apply_rotary_pos_emb(by_head(inputs["q"]), by_head(inputs["k"]), cos, sin)
    expected = {"q": from_heads(q), "k": from_heads(k)}
    return [Case("a quarter", "turned", shape(2, 16), inputs, expected, {"fraction": 0.25})]


@source("rope", "x_transformers", "x-transformers")
def rope_stretched(rng):
    """Interleaved; its base_rescale_factor is the NTK-aware scaling, its interpolation_factor the linear one."""
    package = module("x_transformers.x_transformers")
    cases = []
    for title, theirs, options in (
        ("plain", {}, {}),
        ("ntk", {"base_rescale_factor": 4.0}, {"scaling": "ntk", "factor": 4.0}),
        ("linear", {"interpolation_factor": 4.0}, {"scaling": "linear", "factor": 4.0}),
    ):
        inputs = turned(rng, 24, 8)
        angles, size = package.RotaryEmbedding(8, **theirs).forward_from_seq_len(24)
        expected = {
            name: from_heads(package.apply_rotary_pos_emb(by_head(inputs[name]), angles, size)) for name in "qk"
        }
        options = {"layout": "interleaved"} | options
        cases.append(Case(title, "turned", shape(2, 8), inputs, expected, options))
    return cases


@source("rope", "equinox", "equinox", "jax")
def rope_equinox(rng):
    jax, equinox = module("jax"), module("equinox")
    inputs = turned(rng, 24, 8)
    layer = jax.vmap(jax.vmap(equinox.nn.RotaryPositionalEmbedding(8), in_axes=1, out_axes=1))
    expected = {name: np.asarray(layer(inputs[name])) for name in "qk"}
    return [Case("halves", "turned", shape(2, 8), inputs, expected)]


def weighed(rng: np.random.Generator, tokens: int, turn: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs, and the weights that queries and keys have once `turn` has seen them, by head."""
    qkv = triple(rng, tokens, 2, 8)
    q, k = turn(by_head(qkv["q"]), by_head(qkv["k"]))
    return qkv | attention(tokens, True), {"weights": softmax(q @ k.transpose(-1, -2) * 8**-0.5, triangle(tokens))}


@source("xpos", "x_transformers", "x-transformers")
def xpos(rng):
    package = module("x_transformers.x_transformers")
    cases = []
    for base in (512, 16):

        def turn(q, k, base=base):
            angles, size = package.RotaryEmbedding(8, use_xpos=True, scale_base=base).forward_from_seq_len(24)
            return package.apply_rotary_pos_emb(q, angles, size), package.apply_rotary_pos_emb(k, angles, size**-1)

        options = {"scale_base": float(base)}
        cases.append(Case(f"scale base {base}", "weights", shape(2, 8), *weighed(rng, 24, turn), options))
    return cases


@source("xpos", "torchscale", "torchscale")
def xpos_torchscale(rng):
    path = file_of("torchscale", "torchscale/component/xpos_relative_position.py")
    package = run_file(path, "torchscale_xpos")
    cases = []
    for base in (512, 16):

        def turn(q, k, base=base):
            layer = package.XPOS(8, base)
            return layer(q[0])[None], layer(k[0], downscale=True)[None]

        options = {"scale_base": float(base)}
        cases.append(Case(f"scale base {base}", "weights", shape(2, 8), *weighed(rng, 24, turn), options))
    return cases


# Encodings made of others.


@source("chain", "x_transformers", "x-transformers")
def chain(rng):
    """A learned table on the embeddings and T5's bias on the logits, of the same chain."""
    package = module("x_transformers.x_transformers")
    rows, table, x = normal(rng, 24, 8), normal(rng, 32, 2), normal(rng, 1, 24, 8)
    embedding, bias = (
        package.AbsolutePositionalEmbedding(8, 24),
        package.RelativePositionBias(1.0, causal=True, heads=2),
    )
    fill(embedding.emb.weight, rows)
    fill(bias.relative_attention_bias.weight, table)
    made = {
        "sizes": shape(2, 4),
        "options": {"of": ["learned", "t5"]},
        "parts": {"learned": {"max_position": 24}},
        "parameters": {"parts.0.rows": rows * np.float32(8**-0.5), "parts.1.table": table},
    }
    embedded = {"x": array(tensor(x) + embedding(tensor(x)))}
    return [
        Case("embeddings", "embeddings", inputs={"x": x, "positions": steps(24)}, expected=embedded, **made),
        Case("bias", **some(array(bias(24, 24))[None], range(24), causal=True), **made),
    ]


@source("chain", "transformers", "transformers")
def chain_turned(rng):
    """Llama's rotation and Bloom's bias at once, and T5's bias with them."""
    torch, transformers = module("torch"), module("transformers")
    llama, bloom = (
        module("transformers.models.llama.modeling_llama"),
        module("transformers.models.bloom.modeling_bloom"),
    )
    parameters = {"rope_type": "default", "rope_theta": 10000.0}
    config = transformers.LlamaConfig(hidden_size=16, num_attention_heads=2, head_dim=8, rope_parameters=parameters)
    qkv, tokens = triple(rng, 16, 2, 8), 16
    cos, sin = llama.LlamaRotaryEmbedding(config)(tensor(qkv["q"]), tensor(steps(tokens)).long()[None])
    q, k = llama.apply_rotary_pos_emb(by_head(qkv["q"]), by_head(qkv["k"]), cos, sin)
    bias = bloom.build_alibi_tensor(torch.ones(1, tokens, dtype=torch.long), 2, torch.float32)
    layer, table = transformers_t5(2, True, 32, 128), normal(rng, 32, 2)
    fill(layer.relative_attention_bias.weight, table)
    inputs, cases = qkv | attention(tokens, True), []
    for of, added, parameters in (
        (["rope", "alibi"], bias[None], {}),
        (["t5", "rope", "alibi"], bias[None] + layer.compute_bias(tokens, tokens), {"parts.0.table": table}),
    ):
        weights = {"weights": softmax(q @ k.transpose(-1, -2) * 8**-0.5 + added, triangle(tokens))}
        cases.append(Case(", ".join(of), "weights", shape(2, 8), inputs, weights, {"of": of}, {}, parameters))
    return cases
