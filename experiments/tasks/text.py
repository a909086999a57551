"""Language modelling of bytes: what comes next in a text. Real text, held on the device; windows of it drawn by key.

text      d e f _ f ( x ) :   ->   e f _ f ( x ) : \n        (each byte is asked for behind those before it)

`length` is the context: the bytes a model reads. Without a path the text is the source of Python's standard library,
which everybody has: code, with names and brackets that refer far back. Its digest stands in the rows, for it differs
from one version of Python to the next. The bits per byte of a context are told by both protocols in use (see
`experiments.evaluate`).
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
        path: a file, or a folder whose files are the text; Python's standard library where it is empty.
    """

    alike = True
    bytes = True

    path: str = ""

    @property
    def symbols(self):
        return 256

    def sample(self, key, length, longest, *, text):
        start = jax.random.randint(key, (), 0, len(text) - length)
        window = text[jnp.minimum(start + jnp.arange(longest + 1), len(text) - 1)].astype(jnp.int32)
        return Asked(window[:-1], window[1:], jnp.ones(longest, bool))

    def chance(self, length):
        """Nobody guesses a whole window."""
        return 0.0

    def held(self, split, longest):
        """The bytes of a part.

        Raises:
            ValueError: there is no such text, or too little of it.
        """
        return {"text": corpus.read(self.path).part(split, longest + 1)}

    def identity(self):
        return corpus.read(self.path).digest[:DIGITS]
