"""Positional encodings as small Flax modules, swapped by name into one transformer."""

from posenc import testing
from posenc.adapter import attention_fn
from posenc.attention import Attention, attend
from posenc.blocks import Form
from posenc.building import make, make_layers
from posenc.cache import Cache
from posenc.decoding import generate
from posenc.drawing import draw
from posenc.encoder_decoder import EncoderDecoder
from posenc.encodings import ENCODINGS
from posenc.encodings.base import Encoding
from posenc.options import options_of
from posenc.positions import Positions, distance
from posenc.schemes import SCHEMES, Scheme
from posenc.transformer import Transformer
from posenc.visibility import Visibility, visibility

__all__ = [
    "ENCODINGS",
    "SCHEMES",
    "Attention",
    "Cache",
    "EncoderDecoder",
    "Encoding",
    "Form",
    "Positions",
    "Scheme",
    "Transformer",
    "Visibility",
    "attend",
    "attention_fn",
    "distance",
    "draw",
    "generate",
    "make",
    "make_layers",
    "options_of",
    "testing",
    "visibility",
]
