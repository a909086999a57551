"""What holds for every test: no silent broadcasting between ranks."""

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
