"""Each file in configs/ makes cells that can do what they are asked, in each of its forms, and tells its command."""

import importlib

import pytest

from experiments.config import expand
from experiments.tasks import TASKS
from tests.test_readme import ROOT

FORMS = {
    "abacus2024": [("small",), ("full",)],
    "context_extension": [()],
    "easy_tasks": [()],
    "every_encoding": [()],
    "every_task": [("decoder",), ("encoder",), ("encoder_decoder",)],
    "kazemnejad2023": [("small",), ("copying",), ("arithmetic",), ("scan",), ("pcfg",)],
    "press2021": [("small",), ("full",)],
    "quickstart": [()],
    "ruoss2023": [("small",), ("full",), ("cell",)],
    "shaw2018": [("small",), ("full",)],
    "t5_2019": [("small",), ("full",)],
    "vaswani2017": [("small",), ("full",)],
    "xiong2020": [("small",), ("full",)],
}


def test_every_file_is_tried():
    assert set(FORMS) == {path.stem for path in (ROOT / "configs").glob("[!_]*.py")}


@pytest.mark.parametrize(("name", "form"), [(name, form) for name, forms in FORMS.items() for form in forms])
def test_a_config_makes_cells_and_tells_its_command(name, form):
    module = importlib.import_module(f"configs.{name}")
    assert expand(module.get_config(*form))
    file = f"--config=configs/{name}.py"
    assert (f"{file}:{form[0]} " if form and form != ("full",) else f"{file} " if not form else file) in module.__doc__


def test_the_config_of_every_task_has_every_task_in_every_architecture_that_it_is_for():
    from configs import every_task

    for architecture in ("decoder", "encoder", "encoder_decoder"):
        swept = every_task.get_config(architecture).sweep.task
        assert set(swept) == {name for name, task in TASKS.items() if architecture in task.architectures}
