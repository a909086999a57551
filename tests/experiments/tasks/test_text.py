"""Text: which bytes fall into which part, what a window is, and how bits are counted."""

import hashlib
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flax import nnx

from experiments.evaluate import Evaluator, starts
from experiments.tasks import Layout, corpus
from experiments.tasks.corpus import Document
from experiments.tasks.text import Text
from experiments.train import Trainer
from tests.experiments.test_train import SEEDS, tiny_cell

WORDS = [f"file number {i}, with some words of its own: {i * i} and {'x' * (i % 40)}.\n".encode() for i in range(400)]


@pytest.fixture(scope="module")
def quick_compilation():
    """None here: models are trained, and what is compiled for them serves other tests, too."""


@pytest.fixture
def files(tmp_path):
    """A folder with many small files of text, some of them deeper."""
    (tmp_path / "texts" / "deeper").mkdir(parents=True)
    for i, words in enumerate(WORDS):
        (tmp_path / "texts" / ("deeper" if i % 3 else "") / f"{i}.txt").write_bytes(words)
    return tmp_path / "texts"


def parts(found):
    """The documents of each part."""
    return {split: set(part.whole.tobytes().split(b"\0")) - {b""} for split, part in found.parts.items() if part.size}


def test_each_file_is_in_one_part_by_the_hash_of_what_it_holds(files):
    found = corpus.read(str(files))
    split = parts(found)
    assert sorted(text for part in split.values() for text in part) == sorted(WORDS)
    assert found.documents == 400
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
    assert found.documents == 41


def test_a_part_is_read_where_it_is_asked_for():
    texts = [b"one", b"", b"three", b"4", b"", b"six six"]
    part = corpus.Part(Document.of(text, lambda start, stop, text=text: text[start:stop]) for text in texts)
    whole = b"\0".join(sorted(texts, key=lambda text: hashlib.sha256(text).digest()))
    assert part.size == len(whole)
    assert part.whole.tobytes() == whole
    for start in range(len(whole)):
        for stop in range(start + 1, len(whole) + 1):
            assert part.between(start, stop) == whole[start:stop]


def test_pools_have_every_piece_once_in_each_pass_in_another_order(monkeypatch, files):
    monkeypatch.setattr(corpus, "PIECE", 64)
    part = corpus.read(str(files)).parts["train"]
    whole, of_a_pool = part.whole.tobytes(), 6
    pieces = [whole[i * 64 : (i + 1) * 64] for i in range(len(part))]
    passes = [
        [part.pool(i, of_a_pool * 64 + 5).tobytes() for i in range(len(part) * k, len(part) * (k + 1))] for k in (0, 1)
    ]
    drawn = [[pool[i : i + 64] for pool in one for i in range(0, len(pool), 65)] for one in passes]
    for pool in passes[0]:
        assert len(pool) == of_a_pool * 65 - 1
        assert pool[64::65] == b"\0" * (of_a_pool - 1)
    for one in drawn:  # as many pools as there are pieces: each piece as often as a pool has pieces
        assert sorted(one) == sorted(pieces * of_a_pool)
    assert sorted(drawn[0][: len(pieces)]) == sorted(pieces)
    assert drawn[0][: len(pieces)] != drawn[0][len(pieces) : 2 * len(pieces)] != pieces


def test_training_on_pools_goes_on_as_if_never_interrupted(monkeypatch, files):
    monkeypatch.setattr(corpus, "PIECE", 64)
    pooled = dict(task__text__path=str(files), task__text__pool=640, task__text__pool_steps=3, train__steps=12)
    cell = tiny_cell(task__name="text", **pooled)
    trainer = Trainer(cell)
    whole, loss = trainer.advance(trainer.init(SEEDS), SEEDS, 0, 10)
    state, losses = trainer.init(SEEDS), []
    for start, stop in ((0, 2), (2, 7), (7, 10)):
        state, mean = Trainer(cell).advance(state, SEEDS, start, stop)
        losses.append(mean * (stop - start))
    jax.tree.map(np.testing.assert_array_equal, whole, state)
    np.testing.assert_allclose(loss, sum(losses) / 10, rtol=1e-5)
    held = [trainer.held(turn)["text"].tobytes() for turn in range(4)]
    assert len(set(held)) == 4 and len({len(text) for text in held}) == 1
    one = Trainer(tiny_cell(task__name="text", **pooled | dict(task__text__pool_steps=100)))
    assert one.program is not trainer.program
    other, _ = one.advance(one.init(SEEDS), SEEDS, 0, 10)
    leaves = (jax.tree.leaves(state.parameters)[0] for state in (whole, other))
    assert np.abs(np.subtract(*leaves)).max() > 1e-6  # the second pool was another one


def test_text_that_fits_into_a_pool_is_held_whole(files):
    task = Text(str(files), pool=corpus.PIECE)
    np.testing.assert_array_equal(task.held("train", 9, 3)["text"], Text(str(files)).held("train", 9)["text"])


def test_a_dataset_is_read_by_name_and_keeps_the_parts_that_it_has(tmp_path):
    datasets = pytest.importorskip("datasets")
    words = [one.decode() for one in WORDS]
    for split, some in (("train", words[:300]), ("validation", words[300:350]), ("test", words[350:])):
        datasets.Dataset.from_dict({"said": some, "number": list(range(len(some)))}).to_parquet(
            tmp_path / "own" / f"{split}.parquet"
        )
    own = corpus.read("", str(tmp_path / "own"), "said")
    assert {split: len(part.documents) for split, part in own.parts.items()} == dict(train=300, validation=50, test=50)
    assert parts(own)["validation"] == set(WORDS[300:350])
    datasets.Dataset.from_dict({"text": ["", *words]}).to_parquet(tmp_path / "one" / "train.parquet")
    (tmp_path / "files").mkdir()
    for i, text in enumerate(WORDS):
        (tmp_path / "files" / f"{i}.txt").write_bytes(text)
    one, files = corpus.read("", str(tmp_path / "one")), corpus.read(str(tmp_path / "files"))
    assert parts(one) == parts(files) and one.digest == files.digest == own.digest
    cell = tiny_cell(task__name="text", task__text__dataset=str(tmp_path / "own"), task__text__column="said")
    assert cell.config["task"]["data"] == own.digest[:12]
    with pytest.raises(ValueError, match=r"task\.text\.dataset is 'nowhere/nothing', which `datasets` cannot load: "):
        corpus.read("", "nowhere/nothing")
    with pytest.raises(ValueError, match=r"task.text.column is 'text', and the dataset .* has said, number"):
        corpus.read("", str(tmp_path / "own"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(path="x", dataset="y"), "leave one of them out"),
        (dict(pool=1000), "task.text.pool is 1000; expected bytes, 65536 or more, or 0"),
        (dict(pool_steps=0), "task.text.pool_steps is 0; expected 1 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Text(**options)


def test_windows_longer_than_a_piece_of_a_pool_are_refused(monkeypatch, files):
    monkeypatch.setattr(corpus, "PIECE", 64)
    with pytest.raises(ValueError, match=r"pieces of 64 bytes, and a window takes 66\. Set it to 0"):
        Text(str(files), pool=640).held("train", 65)


@pytest.mark.parametrize(("package", "option"), [("grain", "task.text.pool"), ("datasets", "task.text.dataset")])
def test_packages_that_are_not_installed_are_named(monkeypatch, package, option):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=f"{option} needs the package {package}: pip install 'posenc.text.'"):
        corpus.needed(package)


def test_the_standard_library_is_there_without_a_path_and_has_one_digest():
    found = corpus.read("")
    assert found.documents > 300
    assert found.parts["train"].size > 5e6
    assert min(found.parts[split].size for split in ("validation", "test")) > 1e5
    assert b"def loads(" in found.parts["train"].whole.tobytes() + found.parts["test"].whole.tobytes()
    assert Text().identity() == found.digest[:12] == Text().identity()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "and there is nothing; expected a file or a folder"),
        (lambda path: path.mkdir(), "there is no text in .*expected a file of text"),
        (lambda path: path.write_bytes(b"short"), r"1 documents, and its \w+ part 0 bytes; a window takes 7"),
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
