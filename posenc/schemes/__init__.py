"""The table of position schemes."""

from posenc.schemes.augmented import Augmented
from posenc.schemes.base import Scheme
from posenc.schemes.coupled import Coupled
from posenc.schemes.digits import Digits
from posenc.schemes.grid import Grid
from posenc.schemes.in_order import InOrder
from posenc.schemes.offset import Offset
from posenc.schemes.randomized import Randomized
from posenc.schemes.skipped import Skipped

SCHEMES: dict[str, type[Scheme]] = {
    "in_order": InOrder,
    "offset": Offset,
    "augmented": Augmented,
    "randomized": Randomized,
    "skipped": Skipped,
    "digits": Digits,
    "coupled": Coupled,
    "grid": Grid,
}

__all__ = ["SCHEMES", "Scheme"]
