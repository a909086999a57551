"""The alphabet of axes, and the array types that every signature is written in.

    b  examples of a batch         h  heads              d  channels of a head
    t  tokens                      q  query tokens       m  channels of the model (its width)
    v  vocabulary                  k  key tokens

In a signature ``Float[Array, "b q h d"]`` names the axes in order, and ``#b`` stands for ``b`` or 1: what all examples
share carries a leading axis of 1, so that the work is done once. The einsums use the same letters. Shapes are checked
when the tests run and cost nothing otherwise.
"""

from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key, Num

__all__ = ["Array", "ArrayLike", "Bool", "Float", "Int", "Key", "Num"]
