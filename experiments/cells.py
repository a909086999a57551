"""Cells: one model trained on one task and tested, with all its seeds.

What identifies a cell is its resolved configuration (only the options of the encoding, scheme and task that it uses,
and the task's version), without the seeds.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import nnx

import posenc
from experiments.settings import Evaluate, Model, Train, assigned
from experiments.tasks import TASKS, Layout
from posenc.building import names_within
from posenc.options import options_of

Transformer = posenc.Transformer | posenc.EncoderDecoder
TABLES = {"encoding": posenc.ENCODINGS, "positions": posenc.SCHEMES, "task": TASKS}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One point of a sweep.

    Attributes:
        config: the resolved configuration, plain data; it alone decides what the cell is.
    """

    config: Mapping[str, Any]

    @functools.cached_property
    def digest(self) -> str:
        """A hash over the whole resolved configuration."""
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the cell's folder: what it is for the eye, and the hash for the rest."""
        return f"{self.config['encoding']['name']}-{self.config['task']['name']}-{self.digest[:10]}"

    def label(self, axis: str) -> str:
        """The name on an axis ("encoding", "positions", "task") with the options that are not the default."""
        chosen = self.config[axis]
        if axis == "encoding":
            return encoding_label(chosen) + tested_label(self.evaluate.encoding, chosen["options"])
        text = label(axis, chosen["name"], chosen["options"])
        if axis == "positions" and chosen["test"] != habit(chosen):
            text += "->" + label(axis, chosen["test"]["name"], chosen["test"]["options"])
        text += f"#{chosen['data'][:6]}" if chosen.get("data") else ""
        return text if chosen.get("end", True) else f"{text} without end"

    @functools.cached_property
    def model(self) -> Model:
        return Model(**tuples(self.config["model"]))

    @functools.cached_property
    def train(self) -> Train:
        return Train(**self.config["train"])

    @functools.cached_property
    def evaluate(self) -> Evaluate:
        return Evaluate(**tuples(self.config["evaluate"]))

    @functools.cached_property
    def layout(self) -> Layout:
        """The task, in the form that the architecture reads."""
        task = TASKS[self.config["task"]["name"]](**self.config["task"]["options"])
        return Layout(task, self.model.architecture, self.config["task"]["end"])

    @functools.cached_property
    def tested_layout(self) -> Layout:
        """The same for testing: with room for the longest second operand."""
        seconds, task = self.evaluate.second_lengths, self.layout.task
        if not seconds:
            return self.layout
        return dataclasses.replace(self.layout, task=dataclasses.replace(task, second=max(seconds)))

    @functools.cached_property
    def schemes(self) -> tuple[Any, Any]:
        """The position schemes of training and of testing."""
        train, test = self.config["positions"], self.config["positions"]["test"]
        return tuple(posenc.SCHEMES[one["name"]](**one["options"]) for one in (train, test))

    def without_encoding(self) -> "Cell":
        """The same cell with no encoding at all."""
        none = {"name": "none", "pattern": ["none"], "share": None, "cross": "none", "options": {"none": {}}}
        return Cell({**self.config, "encoding": none, "evaluate": {**self.config["evaluate"], "encoding": ""}})

    @property
    def training(self) -> dict[str, Any]:
        """What of the configuration decides the trained parameters: all but how they are tested."""
        positions = {key: value for key, value in self.config["positions"].items() if key != "test"}
        rest = {key: value for key, value in self.config.items() if key != "evaluate"}
        return rest | {"positions": positions}

    def transformer(self, rngs: nnx.Rngs) -> Transformer:
        """The model, with initial parameters drawn from `rngs`."""
        return self.transformer_with({}, rngs)

    def tested_transformer(self, rngs: nnx.Rngs) -> Transformer:
        """The model as it is tested: the same parameters, and perhaps other options of its encodings."""
        return self.transformer_with(assigned(self.evaluate.encoding), rngs)

    def transformer_with(self, changed: Mapping[str, Mapping[str, Any]], rngs: nnx.Rngs) -> Transformer:
        """The model with these options of its encodings in place of those in the configuration."""
        model, encoding = self.model, self.config["encoding"]
        options = {name: tuples(values) | dict(changed.get(name, {})) for name, values in encoding["options"].items()}
        head_dim = model.head_width or model.width // model.heads
        sizes = dict(width=model.width, heads=model.heads, head_dim=head_dim, value_dim=model.value_width or None)

        def layers(bidirectional: bool) -> list[posenc.Encoding]:
            pattern, share = encoding["pattern"], encoding["share"]
            return posenc.make_layers(
                pattern, model.depth, share=share, options=options, bidirectional=bidirectional, rngs=rngs, **sizes
            )

        common = (self.layout.vocabulary, model.width, model.depth, model.heads)
        if model.architecture != "encoder_decoder":
            causal = model.architecture == "decoder"
            return posenc.Transformer(*common, layers(not causal), causal=causal, rngs=rngs, **self.form)
        name = encoding["cross"]
        cross = posenc.make(name, parts=options, bidirectional=True, rngs=rngs, **sizes, **options[name])
        return posenc.EncoderDecoder(*common, layers(True), layers(False), cross=cross, rngs=rngs, **self.form)

    @property
    def form(self) -> dict[str, Any]:
        """What the model says of all layers, as `posenc.Form` takes it: 0 is None there."""
        model = self.model
        unset = ("mlp_width", "attention_scale", "window", "stride")
        same = ("activation", "norm", "placement", "attention", "scale_embeddings", "tie_embeddings", "dropout")
        form = {name: getattr(model, name) or None for name in unset} | {name: getattr(model, name) for name in same}
        dims = dict(head_dim=model.head_width or None, value_dim=model.value_width or None)
        return form | dims | {"dropout_on": model.dropout_on, "dtype": jnp.dtype(model.dtype)}


def label(axis: str, name: str, options: Mapping[str, Any]) -> str:
    """A name, with those options that differ from the default."""
    different = ", ".join(changed(axis, name, options))
    return f"{name}({different})" if different else name


def changed(axis: str, name: str, options: Mapping[str, Any]) -> list[str]:
    """The options that are not the default, with their values."""
    default = options_of(TABLES[axis][name])
    different = {key: value for key, value in tuples(options).items() if value != default[key]}
    return [f"{key}={'+'.join(map(str, v)) if isinstance(v, tuple) else v}" for key, v in different.items()]


def tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they were before JSON made lists of their tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}


def encoding_label(chosen: Mapping[str, Any]) -> str:
    """The names of a pattern of encodings, each with its changed options and those of the encodings it is made of."""
    texts, options = [], {name: tuples(values) for name, values in chosen["options"].items()}
    for name in chosen["pattern"]:
        inner = [
            f"{part}.{one}" for part in names_within(name, options) for one in changed("encoding", part, options[part])
        ]
        different = ", ".join([*changed("encoding", name, options[name]), *inner])
        texts.append(f"{name}({different})" if different else name)
    cross = chosen.get("cross", "none")
    between = "" if cross == "none" else f", cross={label('encoding', cross, chosen['options'][cross])}"
    return "+".join(texts) + between + ("" if chosen["share"] is None else f", share={chosen['share']}")


def tested_label(text: str, options: Mapping[str, Any]) -> str:
    """The options that are other in testing; with their encoding's name only where there are several encodings."""
    words = text.split() if len(options) > 1 else [word.partition(".")[2] for word in text.split()]
    return f"->{', '.join(words)}" if words else ""


def habit(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What the paper of a position scheme tests with, by name and options."""
    scheme = posenc.SCHEMES[chosen["name"]](**chosen["options"]).tested()
    name = next(name for name, cls in posenc.SCHEMES.items() if cls is type(scheme))
    return {"name": name, "options": {option: getattr(scheme, option) for option in options_of(type(scheme))}}
