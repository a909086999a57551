"""The table of encodings: a name in a config is the name of a file here and of a class in it."""

from posenc.encodings.alibi import ALiBi
from posenc.encodings.axial_rope import AxialRoPE
from posenc.encodings.base import Encoding
from posenc.encodings.cable import Cable
from posenc.encodings.chain import Chain
from posenc.encodings.cope import CoPE
from posenc.encodings.dape import DAPE
from posenc.encodings.deberta import DeBERTa
from posenc.encodings.fire import FIRE
from posenc.encodings.fourier import Fourier
from posenc.encodings.fox import FoX
from posenc.encodings.index import Index
from posenc.encodings.irpe import IRPE
from posenc.encodings.kerple import KERPLE
from posenc.encodings.learned import Learned
from posenc.encodings.mlp_bias import MLPBias
from posenc.encodings.music_transformer import MusicTransformer
from posenc.encodings.none import NoPE
from posenc.encodings.one_hot import OneHot
from posenc.encodings.rope import RoPE
from posenc.encodings.sandwich import Sandwich
from posenc.encodings.scalar_bias import ScalarBias
from posenc.encodings.shaw import Shaw
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.encodings.stick_breaking import StickBreaking
from posenc.encodings.t5 import T5
from posenc.encodings.transformer_xl import TransformerXL
from posenc.encodings.tupe import TUPE
from posenc.encodings.xpos import XPos

ENCODINGS: dict[str, type[Encoding]] = {
    "none": NoPE,
    "index": Index,
    "one_hot": OneHot,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "fourier": Fourier,
    "shaw": Shaw,
    "music_transformer": MusicTransformer,
    "transformer_xl": TransformerXL,
    "deberta": DeBERTa,
    "tupe": TUPE,
    "irpe": IRPE,
    "t5": T5,
    "scalar_bias": ScalarBias,
    "mlp_bias": MLPBias,
    "alibi": ALiBi,
    "kerple": KERPLE,
    "sandwich": Sandwich,
    "fire": FIRE,
    "cope": CoPE,
    "dape": DAPE,
    "fox": FoX,
    "cable": Cable,
    "rope": RoPE,
    "xpos": XPos,
    "axial_rope": AxialRoPE,
    "stick_breaking": StickBreaking,
    "chain": Chain,
}
