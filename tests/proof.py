"""Why believe that an encoding is right: one line for each, computed now.

    python -m tests.proof [names]

lines       of its file, with formula, source and docstrings
formula     largest error of embeddings and attention outputs against loops over float64 numbers written from the paper,
            over all options under test, directions and kinds of positions, in float32 and in float64
outside     other implementations, with version, and the largest error against what they gave (tests/oracles)
at 10^6     the same as formula, in float32, with keys at the positions 1,000,000 to 1,000,005
kind        what it says it is, which the contract (posenc.testing) has checked
verdict     "holds" where the contract holds, causal and bidirectional, and every error is within its bound

Takes about five minutes. The exit status is 1 unless all hold.
"""

import sys
from pathlib import Path

from flax import nnx
from rich.console import Console
from rich.table import Table

import posenc
from posenc.testing import ContractError, check_encoding
from tests.formulas.driver import TOLERANCE, far_out, worst
from tests.oracles import compared
from tests.posenc.test_contract import OTHERS

HEADER = ("encoding", "lines", "formula, 32 bit", "64 bit", "at 10^6", "kind", "outside references", "verdict")
OUTSIDE, FAR = 2e-5, 1e-5
EXCUSED = {
    "index": "the position is a float32 number of that size",
    "fourier": "its frequencies are trained float32 numbers",
}


def line(name: str) -> tuple[str, ...]:
    """The texts of one encoding, in the order of HEADER."""
    cls = posenc.ENCODINGS[name]
    encoding = posenc.make(name, width=12, heads=2, head_dim=8, rngs=nnx.Rngs(0))
    errors = {dtype: worst(name, dtype) for dtype in TOLERANCE}
    wrong = [f"formula in {dtype}" for dtype, error in errors.items() if not error <= TOLERANCE[dtype]]
    outside = compared(name)
    wrong += [source for source, error in outside if not error <= OUTSIDE]
    if encoding.limit is not None:
        far = f"ends at {encoding.limit - 1}"
    else:
        far = f"{far_out(name):.0e}"
        if name in EXCUSED:
            far += f", {EXCUSED[name]}"
        elif not far_out(name) <= FAR:
            wrong.append("at 10^6")
    wrong += broken(name)
    return (
        name,
        str(len(Path(sys.modules[cls.__module__].__file__ or "").read_text().splitlines())),
        *(f"{error:.0e}" for error in errors.values()),
        far,
        encoding.kind,
        "\n".join(f"{source}: {error:.0e}" for source, error in outside) or "none",
        "; ".join(wrong) or "holds",
    )


def broken(name: str) -> list[str]:
    """The rules of the contract that an encoding breaks, in either direction."""
    cls = posenc.ENCODINGS[name]
    messages = []
    for bidirectional in (False,) if cls.causal_only else (False, True):
        try:
            check_encoding(cls, bidirectional=bidirectional, others=OTHERS.get(name))
        except ContractError as error:
            messages.append(f"contract: {error}")
    return messages


def main() -> None:
    names = sys.argv[1:] or list(posenc.ENCODINGS)
    table = Table(*HEADER, show_lines=True)
    verdicts = []
    for name in names:
        texts = line(name)
        verdicts.append(texts[-1] == "holds")
        table.add_row(*texts)
        print(f"{name}: {texts[-1]}", file=sys.stderr, flush=True)
    Console(width=150 if not sys.stdout.isatty() else None).print(table)
    print(f"{sum(verdicts)} of {len(verdicts)} hold.")
    sys.exit(not all(verdicts))


if __name__ == "__main__":
    main()
