"""Seeds and batches over several devices: what they share, and that the results are those of one."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

CODE = """
import json
import jax, jax.numpy as jnp, numpy as np
from experiments.devices import mesh_for
from experiments.evaluate import Evaluator
from experiments.train import Numbers, Program, told
from tests.experiments.test_train import tiny_cell

def run(seeds, **changes):
    changes |= dict(model__dropout=0.1, positions__name="randomized", train__batch=8, evaluate__lengths=(6,))
    cell, seeds, losses = tiny_cell(**changes, train__max_length=12), jnp.arange(seeds, dtype=jnp.uint32), []
    program = Program(cell)
    state = program.init(seeds, Numbers.of(cell.train, len(seeds)))
    for step in range(0, 30, 3):
        state = program.advance(state, seeds, step, step + 3)
        losses.append((np.asarray(state.total) / 3).tolist())
        state = told(state)
    assert program.advance._cache_size() == 1
    metrics = [np.asarray(some["loss"]).tolist() for *_, some in Evaluator(cell)(state.parameters)]
    return dict(losses=losses, metrics=metrics, devices=len(jax.tree.leaves(state)[0].sharding.device_set))

every, found = jax.devices, {}
for name, case in dict(batch=dict(seeds=2, train__buckets=2), seeds=dict(seeds=8, train__length="per_example")).items():
    for count in (1, 8):
        jax.devices = lambda count=count: every()[:count]
        found[f"{name} {count}"] = run(**case)
found["shapes"] = [
    list(mesh_for(*case).devices.shape) for case in ((8, 4), (16, 4), (3, 8), (1, 32), (5, 6), (11, 1), (2, 6))
]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    """What two small cells come to, each on one device and on eight."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("axis", ["batch", "seeds"])
def test_eight_devices_go_the_way_of_one(axis, found):
    one, eight = found[f"{axis} 1"], found[f"{axis} 8"]
    assert (one["devices"], eight["devices"]) == (1, 8)
    np.testing.assert_allclose(eight["losses"], one["losses"], atol=1e-5)
    np.testing.assert_allclose(eight["metrics"], one["metrics"], rtol=1e-3)
    assert np.ptp(one["losses"], axis=1).min() > 1e-3  # seeds apart


def test_seeds_are_parted_first_and_what_is_left_goes_to_the_batch(found):
    assert found["shapes"] == [[8, 1], [8, 1], [1, 8], [1, 8], [1, 6], [1, 1], [2, 3]]
