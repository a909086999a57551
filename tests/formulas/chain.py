"""Two or more encodings at once; embeddings and FIRE together as in McLeish et al. 2024, arXiv:2405.17399."""

from tests.formulas.driver import Paper, module

DEFAULT = ("learned", "fire")
CASES = [
    {},
    {
        "of": ("sinusoidal", "rope", "alibi"),
        "parts": {"rope": {"layout": "interleaved"}, "alibi": {"slopes": "learned"}},
    },
    {"of": ("index", "learned"), "parts": {"index": {"scale": 0.1}, "learned": {"max_position": 9}}},
    {"of": ("fox", "t5", "cable")},
    {"of": ("rope", "shaw", "irpe"), "parts": {"shaw": {"r_min": -2, "r_max": 3}, "irpe": {"on": ("v",)}}},
    {"of": ("fire", "stick_breaking")},
    {"of": ("scalar_bias", "tupe", "rope"), "bidirectional": True},
    {"of": ("music_transformer", "kerple", "sandwich"), "heads": 3},
    {"of": ("rope", "dape"), "parts": {"dape": {"hidden": 5}}},
]


def inside(number):
    """How the parameters of a part are called."""
    return f"parts.{number}."


class Formula(Paper):
    def __init__(self, numbers, sizes, of=DEFAULT, parts=None):
        super().__init__(numbers, sizes)
        self.parts = [
            module(name).Formula(
                {key.removeprefix(inside(i)): value for key, value in numbers.items() if key.startswith(inside(i))},
                sizes,
                **(parts or {}).get(name, {}),
            )
            for i, name in enumerate(of)
        ]
        for part in self.parts:
            self.shrink *= part.shrink

    @classmethod
    def one_way(cls, options):
        return any(module(name).Formula.causal_only for name in options.get("of", DEFAULT))

    @classmethod
    def draw(cls, name, normal, options):
        _, number, rest = name.split(".", 2)
        part = options.get("of", DEFAULT)[int(number)]
        return module(part).Formula.draw(rest, normal, options.get("parts", {}).get(part, {}))

    def embed(self, x, position):
        for part in self.parts:
            x = part.embed(x, position)
        return x

    def turn_query(self, q, position):
        for part in self.parts:
            q = part.turn_query(q, position)
        return q

    def turn_key(self, k, position):
        for part in self.parts:
            k = part.turn_key(k, position)
        return k

    def added(self, scene, head, m, n):
        return sum(part.added(scene, head, m, n) for part in self.parts)

    def weights(self, logits):
        for part in self.parts:
            if type(part).weights is not Paper.weights:
                return part.weights(logits)
        return super().weights(logits)

    def value_row(self, m, n):
        return sum(part.value_row(m, n) for part in self.parts)
