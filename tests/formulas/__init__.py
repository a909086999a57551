"""Each encoding's formula, written again from its paper as slow loops over float64 numbers: a file for each name.

Nothing of a formula is shared with `posenc`, nor between two files here: a mistake would have to be made twice. Every
file has a class `Formula`, whose defaults are the paper's, and `CASES`, the options under test, of which the first
meet all position sets both ways. `worst` says how far our encodings are from their references.
"""

from tests.formulas.driver import worst

__all__ = ["worst"]
