"""Language modelling of bytes: what comes next in a text. Real text, held on the device; windows of it drawn by key.

text      d e f _ f ( x ) :   ->   e f _ f ( x ) : \n        (each byte is asked for behind those before it)

`length` is the context: the bytes a model reads. Unless told otherwise the text is the source of Python's standard
library, which everybody has: code, with names and brackets that refer far back. Its digest stands in the rows, for it
differs from one version of Python to the next. The bits per byte of a context are told by both protocols in use (see
`experiments.evaluate`).

Text that is larger than the device's memory is held in pools, one after the other: pieces of 64 KiB from all over the
training part. All seeds have the same ones.
"""

import dataclasses

import jax
import jax.numpy as jnp

from experiments.tasks import corpus
from experiments.tasks.base import Asked, Stream

DIGITS = 12  # of a digest


@dataclasses.dataclass(frozen=True)
class Text(Stream):
    """Each byte of a window of text, from those before it in the window.

    Args:
        path: a file, or a folder whose files are the text.
        dataset: in place of it, one that `datasets.load_dataset` knows, "name" or "name:configuration".
        column: of the dataset, where its text is.
        pool: bytes that are held at a time where the text has more; 0 to hold all of it.
        pool_steps: steps of training with one pool.
    """

    alike = True
    bytes = True

    path: str = ""
    dataset: str = ""
    column: str = "text"
    pool: int = 0
    pool_steps: int = 1000

    def __post_init__(self):
        if self.path and self.dataset:
            raise ValueError(
                f"task.text.path is {self.path!r} and task.text.dataset {self.dataset!r}: leave one of them out."
            )
        if self.pool and self.pool < corpus.PIECE:
            raise ValueError(
                f"task.text.pool is {self.pool}; expected bytes, {corpus.PIECE} or more, or 0 to hold the whole text."
            )
        if self.pool_steps < 1:
            raise ValueError(f"task.text.pool_steps is {self.pool_steps}; expected 1 or more.")

    @property
    def symbols(self):
        return 256

    def read(self) -> corpus.Corpus:
        """The text, in its parts."""
        return corpus.read(self.path, self.dataset, self.column)

    @property
    def renewed(self):
        return self.pool_steps if self.pool else 0

    def sample(self, key, length, longest, *, text):
        start = jax.random.randint(key, (), 0, len(text) - length)
        window = text[jnp.minimum(start + jnp.arange(longest + 1), len(text) - 1)].astype(jnp.int32)
        return Asked(window[:-1], window[1:], jnp.ones(longest, bool))

    def chance(self, length):
        """Nobody guesses a whole window."""
        return 0.0

    def held(self, split, longest, turn=0):
        """The bytes of a part, or of its pool of that number.

        Raises:
            ValueError: there is no such text, or too little of it.
        """
        return {"text": self.read().held(split, longest + 1, self.pool, turn)}

    def identity(self):
        return self.read().digest[:DIGITS]
