"""Training steps of other code, in a process of its own: another Python may have what this one has not.

    PYTHON -m experiments.benchmarks.peers x_transformers
    PYTHON -m experiments.benchmarks.peers randomized_positional_encodings

A line of lengths on standard input is answered by the seconds that a step at each of them took, one batch of 128 each;
the word "evaluate" by those that testing lengths 1 to 100 on 512 strings each took, or null where the code cannot.
What each peer is told to be is the model of configs/ruoss2023.py; nothing of ours is imported.
"""

import json
import sys
import time

BATCH, WIDTH, DEPTH, HEADS, DROPOUT, REACH = 128, 64, 5, 8, 0.1, 2048


def x_transformers():
    """PyTorch: x-transformers' encoder with rotary positions and its GELU, norms and dropout where ours are."""
    import torch
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(
        dim=WIDTH, depth=DEPTH, heads=HEADS, attn_dim_head=WIDTH // HEADS, rotary_pos_emb=True, pre_norm=False,
        attn_sublayer_dropout=DROPOUT, ff_sublayer_dropout=DROPOUT,
    )  # fmt: skip
    model = TransformerWrapper(num_tokens=5, max_seq_len=REACH, attn_layers=layers, use_abs_pos_emb=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(length: int) -> None:
        tokens = torch.randint(0, 3, (BATCH, length + 1))
        answer = tokens[:, :-1].sum(1) % 2
        loss = torch.nn.functional.cross_entropy(model(tokens)[:, -1], answer)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return step, lambda: None


def randomized_positional_encodings():
    """JAX and Haiku: the example of google-deepmind/randomized_positional_encodings, as its example.py builds it."""
    import haiku as hk
    import jax
    import jax.numpy as jnp
    import optax
    from randomized_positional_encodings.experiments import constants, range_evaluation, training, utils

    task = constants.TASK_BUILDERS["missing_duplicate_string"]()
    model = constants.MODEL_BUILDERS["transformer_encoder"](
        output_size=task.output_size, return_all_outputs=True, num_layers=DEPTH, embedding_dim=WIDTH,
        dropout_prob=DROPOUT, positional_encodings="NOISY_RELATIVE",
        positional_encodings_params={"noise_max_length": REACH},
    )  # fmt: skip
    model = hk.transform(utils.make_model_with_empty_targets(model, task, 0, True))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    keys = hk.PRNGSequence(0)

    def loss(output, target):
        return jnp.mean(jnp.sum(task.pointwise_loss_fn(output, target), axis=-1)), {}

    def accuracy(output, target):
        mask = task.accuracy_mask(target)
        return jnp.sum(mask * task.accuracy_fn(output, target)) / jnp.sum(mask)

    parameters = model.init(next(keys), task.sample_batch(next(keys), length=10, batch_size=BATCH)["input"])
    state = [parameters, optimizer.init(parameters)]

    def step(length: int) -> None:
        batch = task.sample_batch(next(keys), length=length, batch_size=BATCH)
        *state[:], _ = training._update_parameters(
            params=state[0], rng_key=next(keys), batch=batch, model_apply_fn=model.apply, loss_fn=loss,
            accuracy_fn=accuracy, optimizer=optimizer, opt_state=state[1], is_autoregressive=False,
        )  # fmt: skip
        jax.block_until_ready(state)

    def evaluate() -> bool:
        parts = dict(model=model, params=state[0], accuracy_fn=accuracy, sample_batch=task.sample_batch)
        sizes = dict(max_test_length=100, total_batch_size=512, sub_batch_size=64)
        return bool(range_evaluation.range_evaluation(range_evaluation.EvaluationParams(**parts, **sizes)))

    return step, evaluate


PEERS = {"x_transformers": x_transformers, "randomized_positional_encodings": randomized_positional_encodings}


def main(name: str) -> None:
    """Answers one line after the other."""
    step, evaluate = PEERS[name]()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked == "evaluate":
            began = time.perf_counter()
            seconds = time.perf_counter() - began if evaluate() else None
        else:
            seconds = [timed(step, length) for length in asked]
        print(json.dumps(seconds), flush=True)


def timed(step, length: int) -> float:
    """The seconds that a step took."""
    began = time.perf_counter()
    step(length)
    return time.perf_counter() - began


if __name__ == "__main__":
    main(sys.argv[1])
