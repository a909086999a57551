"""Would the tests notice? Bugs that other projects have shipped, made here as one-line patches, one after the other.

    python -m tests.mutants [words]        words: only those whose title contains one of them

Each patch is applied to a copy of the project, the tests that concern it are run there, and it is caught if one of them
fails. The last line says how many of how many were; the exit status is 1 if any survives. Takes about ten minutes.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
KEPT = ("posenc", "experiments", "configs", "tests", "pyproject.toml")


class Mutant(NamedTuple):
    """A bug: what was seen where, and the line that makes it here."""

    title: str
    seen: str  # repository and thread, or the kind of mistake
    file: str
    line: str  # occurs once in the file
    patch: str
    tests: str  # arguments of pytest


FORMULA, TEXTBOOK = "tests/posenc/test_reference.py -k", "tests/posenc/test_textbook.py -k"
FAR = "tests/posenc/test_far_out.py -k"
TEXT = "tests/experiments/tasks/test_text.py -k"
WORKER = "tests/experiments/test_worker.py -k"
DECODING, ROADS = "tests/posenc/test_decoding.py -k", "tests/posenc/test_roads.py -k"
MUTANTS = [
    Mutant(
        "ALiBi's first slope is 1", "paiml/aprender#2143", "posenc/encodings/alibi.py",
        "for head in range(1, heads + 1)]", "for head in range(heads)]", f"{FORMULA} alibi",
    ),
    Mutant(
        "ALiBi's slopes are geometric for 6 heads", "ml-explore/mlx#3071", "posenc/encodings/alibi.py",
        'geometric_slopes(heads) if slopes == "geometric" else published_slopes(heads)', "geometric_slopes(heads)",
        f"{FORMULA} alibi",
    ),
    Mutant(
        "ALiBi's extra heads in another order", "NVIDIA/TensorRT-LLM#1611", "posenc/encodings/alibi.py",
        "(2 * below)[::2]", "(2 * below)[1::2]", f"{FORMULA} alibi",
    ),
    Mutant(
        "RoPE's positions in bfloat16", "huggingface/transformers#29285", "posenc/encodings/rope.py",
        "values = Positions.of(positions).values[:, :, None]",
        "values = Positions.of(positions).values[:, :, None].astype(jnp.bfloat16).astype(jnp.float32)", f"{FORMULA} rope",
    ),
    Mutant(
        "RoPE's angles in bfloat16", "huggingface/transformers#25681", "posenc/encodings/rope.py",
        "at = self.angles(positions, channels // 2, x.dtype)",
        "at = self.angles(positions, channels // 2, x.dtype).astype(jnp.bfloat16)", f"{FORMULA} rope",
    ),
    Mutant(
        "RoPE's angles in plain float32", "float32 far out", "posenc/encodings/phase.py",
        "return 2 * np.pi * counted", "return positions[..., None].astype(dtype) * frequencies.astype(dtype)",
        f"{FAR} angles",
    ),
    Mutant(
        "queries in one layout, keys in the other", "conversion of weights", "posenc/encodings/rope.py",
        "return self.rotated(q, q_positions), self.rotated(k, k_positions)",
        'return self.rotated(q, q_positions), RoPE(layout="interleaved").rotated(k, k_positions)', f"{FORMULA} rope",
    ),
    Mutant(
        "RoPE turns the other way for keys", "sign", "posenc/encodings/rope.py",
        "return self.rotated(q, q_positions), self.rotated(k, k_positions)",
        "return self.rotated(q, q_positions), self.rotated(k, -Positions.of(k_positions).values)", f"{FORMULA} rope",
    ),
    Mutant(
        "every query at position 0", "Blaizzy/mlx-vlm#1983", "posenc/attention.py",
        "q, k = encoding.queries_keys(q, k, queries.positions, keys.positions)",
        "q, k = encoding.queries_keys(q, k, 0 * queries.positions.values, keys.positions)",
        f"{FORMULA} rope",
    ),
    Mutant(
        "queries one position too far", "fla-org/flash-linear-attention#766", "posenc/attention.py",
        "q, k = encoding.queries_keys(q, k, queries.positions, keys.positions)",
        "q, k = encoding.queries_keys(q, k, 1 + queries.positions.values, keys.positions)",
        f"{FORMULA} rope",
    ),
    Mutant(
        "T5's direction the wrong way", "huggingface/transformers#8518", "posenc/encodings/t5.py",
        "if not self.bidirectional:", "if self.bidirectional:", f"{FORMULA} t5",
    ),
    Mutant(
        "T5's buckets linear", "huggingface/candle#727", "posenc/encodings/t5.py",
        "return [*range(exact), *log_starts(exact, max_distance, shares)]", "return list(range(buckets))",
        f"{FORMULA} t5",
    ),
    Mutant(
        "T5's table one for each layer", "huggingface/transformers#8518", "posenc/encodings/t5.py",
        'kind = "relative"', 'kind, shared = "relative", False', "tests/posenc/test_transformer.py tests/posenc/test_textbook.py",
    ),
    Mutant(
        "Shaw's clip one short", "off by one", "posenc/encodings/shaw.py",
        "self.r_min, self.r_max)\n", "self.r_min, self.r_max - 1)\n", f"{FORMULA} shaw",
    ),
    Mutant(
        "Shaw's distance reversed", "sign", "posenc/encodings/shaw.py",
        "jnp.clip(r, self.r_min", "jnp.clip(-r, self.r_min", f"{FORMULA} shaw",
    ),
    Mutant(
        "Transformer-XL's shift off by one", "off by one", "posenc/encodings/skew.py",
        "[..., queries - 1 :]", "[..., queries - 2 : -1]", f"{FORMULA} transformer_xl",
    ),
    Mutant(
        "Transformer-XL's positions flipped", "sign", "posenc/encodings/skew.py",
        "read(first - y + last[:, None] - jnp.arange", "read(y - first - last[:, None] + jnp.arange", f"{FORMULA} transformer_xl",
    ),
    Mutant(
        "sinusoid's exponent without its 2", "2i/d or i/d", "posenc/encodings/phase.py",
        "-np.arange(0, channels, 2) / channels", "-np.arange(0, channels // 2) / channels", f"{FORMULA} sinusoidal",
    ),
    Mutant(
        "sinusoid's base overflows", "10000 as a whole number", "posenc/encodings/phase.py",
        "np.float64(base) ** (-np.arange(0, channels, 2) / channels)",
        "1 / np.abs(np.int32(base) ** np.arange(0, channels, 2, dtype=np.int32)) ** (1 / channels)",
        f"{FORMULA} sinusoidal",
    ),
    Mutant(
        "learned table clamps past its end", "JAX's default", "posenc/encodings/learned.py",
        'mode="fill", fill_value=jnp.nan, wrap_negative_indices=False', 'mode="clip"', f"{FORMULA} learned",
    ),
    Mutant(
        "mask put on after the softmax", "mask", "posenc/encodings/base.py",
        "return softmax(logits, visible)", "return softmax(logits, visible | True) * visible", f"{FORMULA} none",
    ),
    Mutant(
        "mask of -1e4 beside large logits", "mask", "posenc/encodings/base.py",
        "return softmax(logits, visible)", "return softmax(logits - 1e4 * (1 - visible), visible | True)",
        "tests/posenc",
    ),
    Mutant(
        "scaled twice", "1/sqrt(d)", "posenc/attention.py", "* q.shape[-1] ** -0.5", "* q.shape[-1] ** -1.0",
        f"{FORMULA} none",
    ),
    Mutant(
        "never scaled", "1/sqrt(d)", "posenc/attention.py", " * q.shape[-1] ** -0.5", "", f"{FORMULA} none",
    ),
    Mutant(
        "same batch and dropout at every step", "keys", "experiments/train.py",
        'return jax.random.fold_in(seed_key(seed, "steps"), step)', 'return jax.random.fold_in(seed_key(seed, "steps"), 0)',
        "tests/experiments/test_train.py",
    ),
    Mutant(
        "all seeds the same", "keys", "experiments/train.py",
        "jax.random.fold_in(jax.random.key(seed), (", "jax.random.fold_in(jax.random.key(0), (",
        "tests/experiments/test_train.py",
    ),
    Mutant(
        "tested in training mode", "dropout", "experiments/evaluate.py",
        "logits(model, scheme, positions_key, batch)", "logits(model, scheme, positions_key, batch, nnx.Rngs(0))",
        "tests/experiments/test_evaluate.py",
    ),
    Mutant(
        "tested at no more than the trained length", "lengths", "experiments/evaluate.py",
        "layout.batch(batch_key, jnp.full(size, length), longest, **held)",
        "layout.batch(batch_key, jnp.full(size, jnp.minimum(length, 4)), longest, **held)",
        "tests/experiments/test_evaluate.py",
    ),
    Mutant(
        "loss averaged over padding", "loss", "experiments/train.py",
        "return jnp.sum(losses, where=scored) / jnp.sum(scored)", "return jnp.mean(losses)",
        "tests/experiments/test_train.py",
    ),
    Mutant(
        "lengths averaged as if batches were equal", "metrics", "experiments/evaluate.py",
        "self.right / self.tokens", "self.right / self.examples", "tests/experiments/test_evaluate.py",
    ),
    Mutant(
        "xPos grows where it should fade", "sign", "posenc/encodings/xpos.py",
        "self.rotated(q, q_positions, middle, 1), self.rotated(k, k_positions, middle, -1)",
        "self.rotated(q, q_positions, middle, -1), self.rotated(k, k_positions, middle, 1)", f"{FORMULA} xpos",
    ),
    Mutant(
        "CoPE counts what is not visible", "mask", "posenc/encodings/cope.py",
        "jnp.where(visible, jax.nn.sigmoid(logits), 0)", "jax.nn.sigmoid(logits)", f"{FORMULA} cope",
    ),
    Mutant(
        "DeBERTa without its 3", "1/sqrt(3d)", "posenc/encodings/deberta.py",
        "return (q * 3**-0.5).astype(q.dtype), k", "return q, k", f"{FORMULA} deberta",
    ),
    Mutant(
        "stick-breaking sees the query itself", "off by one", "posenc/encodings/stick_breaking.py",
        "reverse=True) > 1)", "reverse=True) > 0)", f"{FORMULA} stick_breaking",
    ),
    Mutant(
        "KERPLE's numbers may become negative", "constraint", "posenc/encodings/kerple.py",
        "return x + jax.lax.stop_gradient(jnp.clip(x, LEAST, largest) - x)", "return x", f"{FORMULA} kerple",
    ),
    Mutant(
        "FIRE scaled by the trained length alone", "normaliser", "posenc/encodings/fire.py",
        "end = jnp.maximum(m, jnp.abs(self.multiplier[...] * self.threshold))",
        "end = jnp.abs(self.multiplier[...] * self.threshold) + 0 * m", f"{FORMULA} fire",
    ),
    Mutant(
        "YaRN without its attention factor", "0.1 ln s + 1", "posenc/encodings/scaling.py",
        "return 0.1 * math.log(self.factor) + 1", "return 1.0", f"{FORMULA} rope",
    ),
    Mutant(
        "decoding with a cache forgets its offset", "RobertCsordas/moeut#6", "posenc/cache.py",
        "slots = self.lengths[:, None] + jnp.arange(tokens)[None]",
        "slots = 0 * self.lengths[:, None] + jnp.arange(tokens)[None]", f"{DECODING} token_by_token",
    ),
    Mutant(
        "the counter of a cache taken for a position", "rajveer43/VeloxQuant-MLX#389", "posenc/decoding.py",
        "position = Positions(taken(where.values, cache.lengths[:, None]))",
        "position = Positions(cache.lengths[:, None])", f"{DECODING} positions",
    ),
    Mutant(
        "a cache keeps keys that are turned already", "cache", "posenc/attention.py",
        "cache = cache.put(new, slots)",
        "cache = cache.put(new._replace(k=encoding.queries_keys(new.k, new.k, positions, positions)[1]), slots)",
        f"{DECODING} token_by_token",
    ),
    Mutant(
        "a full cache overwrites its last slot", "cache", "posenc/attention.py",
        'row.at[at].set(x, mode="drop")', 'row.at[at].set(x, mode="clip")', f"{DECODING} past_its_end",
    ),
    Mutant(
        "running totals begin anew behind a cache", "cache", "posenc/attention.py",
        "jnp.where(slots[:, :1, None] > 0, before, 0)", "0 * before", f"{DECODING} token_by_token",
    ),
    Mutant(
        "the last, ragged block is taken for a whole one", "blocks", "posenc/attention.py",
        "jnp.concatenate([out[:, : total - size], out[:, -size:]], axis=1)", "out[:, :total]", f"{ROADS} blocks",
    ),
    Mutant(
        "a block sees as far as the one before it", "blocks", "posenc/attention.py",
        "for less in [0, *extents[:-1]]", "for less in [0, *extents[1:]]", f"{ROADS} blocks",
    ),
    Mutant(
        "every block drops the same", "dropout", "posenc/attention.py",
        "dropout.of(number)", "dropout", f"{ROADS} blocks_drop",
    ),
    Mutant(
        "a decoder's cross-attention takes queries past the source for padding", "cross-attention", "posenc/blocks.py",
        "visible = Visibility(False, memory.lengths, jnp.zeros((1, x.shape[1]), int))  # no query is past the text",
        "visible = Visibility(False, memory.lengths)", "tests/posenc/test_encoder_decoder.py -k past_the_end",
    ),
    Mutant(
        "T5's bias in cross-attention", "cross-attention", "posenc/encoder_decoder.py",
        "cross = NoPE() if cross is None else cross", "cross = encoder_encodings[0] if cross is None else cross",
        "tests/posenc/test_encoder_decoder.py",
    ),
    Mutant(
        "padding of the source is seen", "cross-attention", "posenc/blocks.py",
        "Visibility(False, memory.lengths, jnp", "Visibility(False, None, jnp",
        "tests/posenc/test_encoder_decoder.py -k padding",
    ),
    Mutant(
        "batch norm takes padding into its mean", "padding", "posenc/norms.py",
        "norm(x, mask=real[:, :, None])", "norm(x)", "tests/posenc/test_form.py -k batch",
    ),
    Mutant(
        "running statistics are not carried", "batch norm", "experiments/train.py",
        "label_smoothing), nnx.state(model, nnx.BatchStat)", "label_smoothing), statistics",
        "tests/experiments/test_architectures.py -k statistics",
    ),
    Mutant(
        "bits per byte over padding", "metrics", "experiments/evaluate.py",
        "(place < jnp.minimum(stop, length))", "(place < stop)", "tests/experiments/tasks/test_text.py -k bits",
    ),
    Mutant(
        "an encoder is given as many blanks as the answer has symbols", "leak", "experiments/tasks/base.py",
        "asked + most + self.end", "asked + answered + self.end",
        "tests/experiments/test_architectures.py -k says_nothing",
    ),
    Mutant(
        "every pool of text is the first", "data restarted on resume", "experiments/tasks/corpus.py",
        "pieces = pools[number]", "pieces = pools[0]", f"{TEXT} pool",
    ),
    Mutant(
        "documents run into each other", "joined without a separator", "experiments/tasks/corpus.py",
        "NUL.join(found)", 'b"".join(found)', f"{TEXT} part",
    ),
    Mutant(
        "training goes on a step late after a checkpoint", "stanford-crfm/levanter#311", "experiments/worker.py",
        "step, state, training, started = progress.step, progress.state",
        "step, state, training, started = max(progress.step, min(progress.step, 1) * (progress.step + 1)), progress.state",
        f"{WORKER} same_bits",
    ),
    Mutant(
        "draws begin anew where training paused", "google/orbax#620", "experiments/train.py",
        "state, loss = self.step(state, seed, step, held)", "state, loss = self.step(state, seed, step - start, held)",
        "tests/experiments/test_train.py -k cutting",
    ),
    Mutant(
        "the loss begins anew where training paused", "kind: a sum that is not saved", "experiments/train.py",
        "total=state.total + loss,", "total=jnp.where(step == start, 0.0, state.total) + loss,",
        "tests/experiments/test_train.py -k pausing",
    ),
    Mutant(
        "a checkpoint under the name of another step is taken", "AI-Hypercomputer/maxtext#5260",
        "experiments/checkpoints.py", 'told["step"] != step or ', "", "tests/experiments/test_checkpoints.py",
    ),
    Mutant(
        "numbers of a checkpoint are taken unchecked", "kind: silent corruption", "experiments/checkpoints.py",
        'check_files(path, told["digests"])', "pass", "tests/experiments/test_checkpoints.py",
    ),
    Mutant(
        "two processes take one cell", "optuna/optuna#4002", "experiments/claims.py",
        "        if newest and not abandoned(claims / name(newest), lease):\n            return None\n", "",
        "tests/experiments/test_claims.py",
    ),
    Mutant(
        "a process that has lost its cell publishes", "kind: no fencing", "experiments/worker.py",
        "        if not claim.held():\n            return  # another process has taken over, and will publish the same\n", "",
        f"{WORKER} too_late",
    ),
    Mutant(
        "a cell that failed runs again by itself", "kind: failures repeated for ever", "experiments/ablate.py",
        "failed = [] if retry else [one for one, _ in missing if one.failure()]", "failed = []",
        f"{WORKER} left_alone",
    ),
    Mutant(
        "a run that diverged is left out of the mean", "kind: mean() skips NaN", "experiments/report.py",
        'rows.loc[rows["diverged"].notna(), "value"] = math.inf', "pass", "tests/experiments/test_report.py -k diverged",
    ),
    Mutant(
        "a pool is held for one step too long", "off by one", "experiments/train.py",
        "min(stop, (turn + 1) * length)", "min(stop, (turn + 1) * length + 1)",
        "tests/experiments/test_train.py -k turns",
    ),
    Mutant(
        "smoothed labels weigh more than one", "the target keeps its share", "experiments/train.py",
        "(1 - smoothing) * losses", "losses", "tests/experiments/test_train.py -k smoothed",
    ),
    Mutant(
        "the operands of a heat map are swapped", "rows for columns", "experiments/heatmap.py",
        'index="second", columns="length", values="value"', 'index="length", columns="second", values="value"',
        "tests/experiments/test_report.py -k map",
    ),
]  # fmt: skip

WAITING = {
    "positions from the slot where padding stands in front": "padding stands behind so far",
    "the eviction counter of a cache taken for a position": "a cache evicts nothing so far",
}


def caught(mutant: Mutant) -> str:
    """What the tests say of a copy of the project with this bug; empty where they see nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for name in KEPT:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, Path(folder) / name)
        path = Path(folder) / mutant.file
        path.write_text(patched(mutant, path.read_text()))
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "--maxfail=2", "--tb=no", "-p", "no:cacheprovider"]
        arguments = mutant.tests.split(" -k ")
        command += [*arguments[0].split(), *(["-k", arguments[1]] if arguments[1:] else [])]
        # In the folder of the copy, so that its packages are imported and not the installed ones.
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        summary = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]
        return summary if done.returncode == 1 and re.search(r"\d+ failed", summary) else ""


def patched(mutant: Mutant, text: str) -> str:
    """The text of a file with the bug in it.

    Raises:
        ValueError: the line to be patched is not there, or is there twice.
    """
    if text.count(mutant.line) != 1:
        raise ValueError(f"{mutant.title}: {mutant.line!r} occurs {text.count(mutant.line)} times in {mutant.file}.")
    return text.replace(mutant.line, mutant.patch)


def main() -> None:
    words = [word.lower() for word in sys.argv[1:]]
    chosen = [one for one in MUTANTS if not words or any(word in one.title.lower() for word in words)]
    survivors = []
    for mutant in chosen:
        verdict = caught(mutant)
        survivors += [] if verdict else [mutant.title]
        print(f"{'caught  ' if verdict else 'SURVIVES'}  {mutant.title}  ({mutant.seen})", flush=True)
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} caught.")
    print("Waiting for code that does not exist yet:")
    for title, reason in WAITING.items():
        print(f"  {title}: {reason}")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
