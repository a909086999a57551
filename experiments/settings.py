"""The settings of model, training and evaluation: typed, checked, and the same names in a config file."""

import ast
import dataclasses
from typing import Any, Literal

from experiments.tasks.base import Architecture
from posenc.attention import Road
from posenc.blocks import SITES, Activation, Placement, Site
from posenc.norms import Norm

Schedule = Literal["cosine", "linear", "constant", "inverse_sqrt"]
Optimizer = Literal["adamw", "adafactor", "nesterov"]


@dataclasses.dataclass(frozen=True)
class Model:
    """The one transformer. `posenc.Form` says more of each.

    Attributes:
        architecture: "decoder" (causal), "encoder" (bidirectional) or "encoder_decoder".
        width: channels between the layers.
        depth: layers; of an encoder-decoder, of each of the two.
        heads: heads of each layer; they share the width evenly unless `head_width` is set.
        head_width: channels of a query or key of one head; 0 for width / heads.
        value_width: channels of a value of one head; 0 for as many.
        mlp_width: hidden channels of the MLPs; 0 for four times the width.
        activation: of the MLPs, "gelu", "relu" or "silu"; "geglu" or "swiglu", with gates.
        norm: "rms", "layer" or "batch".
        placement: of the norms, "pre" or "post".
        attention: the road it takes, "dense", "blocks" or "fused"; "auto" decides by the number of logits.
        attention_scale: what products of queries and keys are multiplied by; 0 for 1 / sqrt(head_width).
        window: a token sees those less than so many tokens away; 0 for all.
        stride: and those a multiple of so many tokens away; 0 for none beside the window.
        scale_embeddings: they are drawn small and multiplied by sqrt(width).
        tie_embeddings: the head has the parameters of the embeddings.
        dropout: rate, in training only.
        dropout_on: what is dropped of "embeddings", attention "weights", "hidden" channels and residual "branches".
        dtype: of activations, "float32" or "bfloat16"; parameters, angles, logits, loss and optimiser are float32.
    """

    architecture: Architecture = "decoder"
    width: int = 64
    depth: int = 2
    heads: int = 4
    head_width: int = 0
    value_width: int = 0
    mlp_width: int = 0
    activation: Activation = "gelu"
    norm: Norm = "rms"
    placement: Placement = "pre"
    attention: Road = "auto"
    attention_scale: float = 0.0
    window: int = 0
    stride: int = 0
    scale_embeddings: bool = False
    tie_embeddings: bool = False
    dropout: float = 0.0
    dropout_on: tuple[Site, ...] = SITES
    dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self):
        at_least("model", self, 1, "width", "depth", "heads")
        at_least("model", self, 0, "head_width", "value_width", "mlp_width", "attention_scale", "window", "stride")
        if not self.head_width and self.width % self.heads:
            raise ValueError(
                f"model.heads is {self.heads} and model.width {self.width}: heads share the width evenly. "
                f"Change one of them, or set model.head_width."
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"model.dropout is {self.dropout}; expected a rate from 0 to below 1.")


@dataclasses.dataclass(frozen=True)
class Train:
    """Training of one cell.

    Attributes:
        steps: number of updates.
        batch: examples in each.
        min_length, max_length: lengths are drawn between the two, both included.
        curriculum: of the lengths: "uniform" over all of them; "fixed", the longest alone; "growing", uniform from the
            shortest to one that grows evenly with the steps, to the longest at the end.
        length: one length "per_batch", drawn from the step alone and so the same for all seeds, or "per_example".
        buckets: where a batch has one length, the number of array sizes: a short batch does not pay for a long one.
        optimizer: "adamw" (Loshchilov and Hutter 2019, arXiv:1711.05101); "adafactor" (Shazeer and Stern 2018,
            arXiv:1804.04235), whose steps are as large as the parameters times the learning rate; or "nesterov",
            gradients with momentum.
        beta1: how much of the past the momentum keeps; Adafactor has none.
        beta2: how much of it the mean square of the gradients keeps, with AdamW.
        epsilon: beside the root of that.
        learning_rate: at its peak.
        warmup: steps until then.
        schedule: of the learning rate after that, "cosine" or "linear" down to nothing, "constant" or "inverse_sqrt".
        weight_decay: of the parameters.
        decay_encodings: whether those of the encodings decay too.
        clip: the largest global norm of a gradient.
        label_smoothing: the share of a target's probability that all tokens get evenly, in training only.
    """

    steps: int = 1000
    batch: int = 32
    min_length: int = 1
    max_length: int = 10
    curriculum: Literal["uniform", "fixed", "growing"] = "uniform"
    length: Literal["per_batch", "per_example"] = "per_batch"
    buckets: int = 4
    optimizer: Optimizer = "adamw"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    learning_rate: float = 1e-3
    warmup: int = 100
    schedule: Schedule = "cosine"
    weight_decay: float = 0.01
    decay_encodings: bool = True
    clip: float = 1.0
    label_smoothing: float = 0.0

    def __post_init__(self):
        at_least("train", self, 1, "steps", "batch", "min_length", "buckets")
        at_least("train", self, 0, "warmup", "weight_decay")
        for name in ("learning_rate", "clip", "epsilon"):
            if getattr(self, name) <= 0:
                raise ValueError(f"train.{name} is {getattr(self, name)}; expected a number above 0.")
        for name in ("beta1", "beta2", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"train.{name} is {getattr(self, name)}; expected a share from 0 to below 1.")
        if self.max_length < self.min_length:
            raise ValueError(
                f"train.max_length is {self.max_length}, below train.min_length, {self.min_length}. Change one of them."
            )
        if self.warmup >= self.steps:
            raise ValueError(
                f"train.warmup is {self.warmup} of {self.steps} steps (train.steps); expected fewer. Shorten it."
            )


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Evaluation of one cell.

    Attributes:
        lengths: to test at, ascending; those from min_length to max_length of training count as trained.
        second_lengths: of the second operand, each with each of `lengths`, for tasks that have two; empty, as drawn in
            training.
        examples: at each length; the same ones for every encoding and every seed.
        batch: examples at a time, a divisor of `examples`.
        seed: from which the examples are drawn.
        generated: whether answers are also written token by token, the likeliest each time, from what the model has
            written itself.
        stride: of text, the last bytes of each window that count with a sliding window.
        encoding: options of the encoding that are other in testing than in training, with the same parameters:
            "rope.scaling=yarn rope.factor=8", separated by spaces.
    """

    lengths: tuple[int, ...] = (5, 10, 15, 20)
    second_lengths: tuple[int, ...] = ()
    examples: int = 256
    batch: int = 64
    seed: int = 0
    generated: bool = False
    stride: int = 16
    encoding: str = ""

    def __post_init__(self):
        at_least("evaluate", self, 1, "examples", "batch", "stride")
        at_least("evaluate", self, 0, "seed")
        if not self.lengths or min(self.lengths) < 1 or list(self.lengths) != sorted(set(self.lengths)):
            raise ValueError(f"evaluate.lengths is {self.lengths}; expected ascending lengths from 1 on, each once.")
        if self.second_lengths and (
            min(self.second_lengths) < 1 or list(self.second_lengths) != sorted(set(self.second_lengths))
        ):
            raise ValueError(
                f"evaluate.second_lengths is {self.second_lengths}; expected ascending lengths from 1 on, each once, "
                "or nothing."
            )
        if self.examples % self.batch:
            raise ValueError(
                f"evaluate.batch is {self.batch} and does not divide evaluate.examples, {self.examples}. Change one."
            )


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Jobs of a cluster, for `--launcher=slurm`. They decide where cells run, not what comes of them.

    Attributes:
        jobs: how many at most; each takes one cell after the other, until there is none left to take.
        minutes: that a job may run; then it saves what it has, and is queued again.
        partition: of the cluster; empty for its default.
        gpus: of each job.
        cores: of each job; 0 for the cluster's default.
        memory: of each job, in GB; 0 for the cluster's default.
        options: more of sbatch, as "account=mine qos=high", separated by spaces.
    """

    jobs: int = 4
    minutes: int = 240
    partition: str = ""
    gpus: int = 0
    cores: int = 0
    memory: int = 0
    options: str = ""

    def __post_init__(self):
        at_least("cluster", self, 1, "jobs", "minutes")
        at_least("cluster", self, 0, "gpus", "cores", "memory")
        for word in self.options.split():
            if not word.partition("=")[0]:
                raise ValueError(
                    f"cluster.options holds {word!r}; expected options of sbatch, as 'account=mine requeue'."
                )

    @property
    def more(self) -> dict[str, str | bool]:
        """`options` by name; True for one without a value."""
        parts = [word.partition("=") for word in self.options.split()]
        return {name.lstrip("-").replace("-", "_"): value if equals else True for name, equals, value in parts}


def at_least(section: str, settings: object, least: int, *names: str) -> None:
    """Raises ValueError unless each of these settings is `least` or more."""
    for name in names:
        if getattr(settings, name) < least:
            raise ValueError(f"{section}.{name} is {getattr(settings, name)}; expected {least} or more.")


def assigned(text: str) -> dict[str, dict[str, Any]]:
    """ "rope.scaling=yarn rope.factor=8" as {"rope": {"scaling": "yarn", "factor": 8}}.

    Raises:
        ValueError: a word is not of this form, or an option is there twice.
    """
    found: dict[str, dict[str, Any]] = {}
    for word in text.split():
        path, equals, value = word.partition("=")
        name, dot, option = path.partition(".")
        if not (name and dot and option and equals and value):
            raise ValueError(
                f"evaluate.encoding holds {word!r}; expected name.option=value, as in 'rope.scaling=yarn "
                "rope.factor=8', separated by spaces and without any within."
            )
        if option in found.setdefault(name, {}):
            raise ValueError(f"evaluate.encoding sets {path} twice. Keep one of them.")
        found[name][option] = literal(value)
    return found


def literal(word: str):
    """A number where it is one, and the word itself otherwise."""
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word
