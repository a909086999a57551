"""The table of tasks."""

from experiments.tasks.arithmetic import Addition
from experiments.tasks.base import Asked, Batch, Example, Layout, Stream, Task, positions
from experiments.tasks.context_free import (
    ModularArithmeticBrackets,
    ReverseString,
    SolveEquation,
    StackManipulation,
)
from experiments.tasks.context_sensitive import (
    BinaryAddition,
    BinaryMultiplication,
    BucketSort,
    ComputeSqrt,
    DuplicateString,
    MissingDuplicateString,
    OddsFirst,
)
from experiments.tasks.regular import CycleNavigation, EvenPairs, ModularArithmetic, ParityCheck
from experiments.tasks.strings import Copy, Parity, Reverse, Sort
from experiments.tasks.text import Text

TASKS: dict[str, type[Task]] = {
    "copy": Copy,
    "reverse": Reverse,
    "sort": Sort,
    "parity": Parity,
    "addition": Addition,
    # Delétang et al. 2022, Ruoss et al. 2023
    "even_pairs": EvenPairs,
    "modular_arithmetic": ModularArithmetic,
    "parity_check": ParityCheck,
    "cycle_navigation": CycleNavigation,
    "stack_manipulation": StackManipulation,
    "reverse_string": ReverseString,
    "modular_arithmetic_brackets": ModularArithmeticBrackets,
    "solve_equation": SolveEquation,
    "duplicate_string": DuplicateString,
    "missing_duplicate_string": MissingDuplicateString,
    "odds_first": OddsFirst,
    "binary_addition": BinaryAddition,
    "binary_multiplication": BinaryMultiplication,
    "compute_sqrt": ComputeSqrt,
    "bucket_sort": BucketSort,
    # Real text
    "text": Text,
}

__all__ = ["TASKS", "Asked", "Batch", "Example", "Layout", "Stream", "Task", "positions"]
