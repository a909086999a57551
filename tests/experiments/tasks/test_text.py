"""Text: which bytes fall into which part, what a window is, and how bits are counted."""

import hashlib
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flax import nnx

from experiments.evaluate import Evaluator, starts
from experiments.tasks import Layout, corpus
from experiments.tasks.text import Text
from experiments.train import Trainer
from tests.experiments.test_train import SEEDS, tiny_cell

WORDS = [f"file number {i}, with some words of its own: {i * i} and {'x' * (i % 40)}.\n".encode() for i in range(400)]


@pytest.fixture
def files(tmp_path):
    """A folder with many small files of text, some of them deeper."""
    (tmp_path / "texts" / "deeper").mkdir(parents=True)
    for i, words in enumerate(WORDS):
        (tmp_path / "texts" / ("deeper" if i % 3 else "") / f"{i}.txt").write_bytes(words)
    return tmp_path / "texts"


def parts(found):
    """The files of each part."""
    return {split: set(text.tobytes().split(b"\0")) - {b""} for split, text in found.parts.items()}


def test_each_file_is_in_one_part_by_the_hash_of_what_it_holds(files):
    found = corpus.read(str(files))
    split = parts(found)
    assert sorted(text for part in split.values() for text in part) == sorted(WORDS)
    assert found.files == 400
    for words in WORDS:
        share = int(hashlib.sha256(words).hexdigest()[:16], 16) / 2**64
        assert words in split["test" if share < 0.05 else "validation" if share < 0.1 else "train"]
    assert 8 <= len(split["test"]) <= 35 and 8 <= len(split["validation"]) <= 35  # 20 expected, 4 standard deviations


def test_names_and_order_decide_nothing_and_new_files_move_no_other(files):
    before, first = parts(corpus.read(str(files))), corpus.read(str(files)).digest
    (files / "0.txt").rename(files / "deeper" / "renamed")
    (files / ".hidden").write_bytes(b"not seen")
    (files / "picture").write_bytes(b"\x89\0\0")
    corpus.read.cache_clear()
    assert corpus.read(str(files)).digest == first
    (files / "more.txt").write_bytes(b"another file")
    corpus.read.cache_clear()
    after = parts(corpus.read(str(files)))
    assert all(before[split] <= after[split] for split in before)
    assert sum(map(len, after.values())) == 401
    assert corpus.read(str(files)).digest != first


def test_one_file_is_cut_into_pieces(tmp_path):
    text = np.random.default_rng(0).integers(1, 256, 40 * corpus.PIECE + 5, dtype=np.uint8).tobytes()
    (tmp_path / "book").write_bytes(text)
    found = corpus.read(str(tmp_path / "book"))
    pieces = [text[i : i + corpus.PIECE] for i in range(0, len(text), corpus.PIECE)]
    assert sorted(piece for part in parts(found).values() for piece in part) == sorted(pieces)
    assert found.files == 41


def test_the_standard_library_is_there_without_a_path_and_has_one_digest():
    found = corpus.read("")
    assert found.files > 300
    assert len(found.parts["train"]) > 5e6
    assert min(len(found.parts[split]) for split in ("validation", "test")) > 1e5
    assert b"def loads(" in found.parts["train"].tobytes() + found.parts["test"].tobytes()
    assert Text().identity() == found.digest[:12] == Text().identity()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "and there is nothing; expected a file or a folder"),
        (lambda path: path.mkdir(), "there is no text in .*expected a file of text"),
        (lambda path: path.write_bytes(b"short"), r"1 files, and its \w+ part 0 bytes; a window takes 7"),
    ],
)
def test_a_path_without_enough_text_is_refused_before_anything_runs(tmp_path, make, words):
    make(tmp_path / "text")
    corpus.read.cache_clear()
    with pytest.raises(ValueError, match=words):
        tiny_cell(task__name="text", task__text__path=str(tmp_path / "text"))


def test_windows_begin_at_each_place_equally_often_and_padding_changes_nothing():
    whole = np.random.default_rng(0).integers(0, 256, 407, dtype=np.uint8)  # no seven bytes of it are there twice
    task, text, keys = Text(), jnp.asarray(whole), jax.random.split(jax.random.key(0), 8000)
    short, long = (jax.jit(jax.vmap(lambda key, n=n: task.sample(key, 6, n, text=text)))(keys) for n in (6, 11))
    np.testing.assert_array_equal(short.tokens, long.tokens[:, :6])
    np.testing.assert_array_equal(short.targets, long.targets[:, :6])
    np.testing.assert_array_equal(short.tokens[:, 1:], short.targets[:, :-1])
    windows = np.concatenate([short.tokens, short.targets[:, -1:]], axis=1).astype(np.uint8)
    begun = [whole.tobytes().find(window.tobytes()) for window in windows]
    counts = np.bincount(begun, minlength=401)
    assert len(counts) == 401 and min(counts) > 0  # the first byte and the last one are in windows, too
    assert scipy.stats.chisquare(counts).pvalue > 1e-4
    all_of_it = task.sample(keys[0], 406, 406, text=text)
    np.testing.assert_array_equal(all_of_it.targets, whole[1:])


def test_every_byte_of_a_window_is_asked_for_and_nothing_behind_it(files):
    task = Text(str(files))
    layout, held = Layout(task, "decoder"), task.held("train", 9)
    batch = layout.batch(jax.random.key(0), jnp.array([4, 9]), 9, **held)
    assert batch.scored.tolist() == [[slot < 4 for slot in range(9)], [True] * 9]
    assert batch.slots.tolist()[1] == list(range(9))
    assert batch.lengths.tolist() == [4, 9]


def test_bits_are_those_of_the_losses_at_each_place(files):
    cell = tiny_cell(
        task__name="text", task__text__path=str(files), train__min_length=8, train__max_length=8,
        evaluate__lengths=(5, 11), evaluate__stride=3,
    )  # fmt: skip
    evaluator, trainer = Evaluator(cell), Trainer(cell)
    state, _ = trainer.advance(trainer.init(SEEDS[:2]), SEEDS[:2], 0, 10)
    model = nnx.merge(evaluator.graph, jax.tree.map(lambda x: x[1], state.parameters))
    for length, _, metrics in evaluator(state.parameters):
        root, losses = jax.random.fold_in(jax.random.key(cell.evaluate.seed), length), []
        for key in jax.random.split(root, 2):
            batch = cell.layout.batch(jax.random.split(key)[0], jnp.full(8, length), length, **evaluator.held)
            said = jax.nn.log_softmax(model(batch.tokens, jnp.arange(length)))
            losses.append(-np.take_along_axis(np.asarray(said), np.asarray(batch.targets)[:, :, None], 2)[:, :, 0])
        bits = np.concatenate(losses) / math.log(2)  # examples, places
        expected = {"bits_per_byte": bits.mean(), "bits_per_byte_sliding": bits[:, -3:].mean()}
        for start in starts(length):
            expected[f"bits_per_byte_from_{start}"] = bits[:, start : 2 * start].mean()
        got = {name: float(value[1]) for name, value in metrics.items() if name.startswith("bits")}
        assert got == pytest.approx(expected, rel=1e-4)
    assert starts(11) == [1, 2, 4, 8]


def test_the_digest_of_the_text_is_part_of_a_cell_and_of_its_label(files):
    cells = []
    for more in (b"", b"a new file"):
        (files / "more").write_bytes(more)
        corpus.read.cache_clear()
        cells.append(tiny_cell(task__name="text", task__text__path=str(files)))
    assert cells[0].digest != cells[1].digest
    for cell in cells:
        assert cell.config["task"]["data"] and cell.label("task").endswith(f"#{cell.config['task']['data'][:6]}")
    assert cells[0].label("task") != cells[1].label("task")
