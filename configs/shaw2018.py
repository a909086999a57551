"""Relative positions in the original transformer, clipped at few and at many. Shaw et al. 2018 (arXiv:1803.02155).

    python -m experiments.ablate --config=configs/shaw2018.py:small --results=results/shaw2018

The encoder-decoder of configs/vaswani2017.py, with rows for distances added to keys and values within each of the two
texts, in place of sinusoids. Distances beyond k are clipped.

The paper finds relative rows better than sinusoids (by 0.3 BLEU with the smaller model, 1.3 with the larger), and 2 as
good a clip as any larger one: translating seldom asks how far exactly. TODO
"""

from configs import vaswani2017

CLIPS = (1, 2, 4, 16, 64)


def get_config(size="full"):
    config = vaswani2017.get_config(size)
    config.sweep.encoding = None
    config.sweep["encoding, encoding.shaw.r_min, encoding.shaw.r_max"] = (
        ("sinusoidal", -1, 1),
        *(("shaw", -k, k) for k in CLIPS),
    )
    config.seeds = 1
    return config
