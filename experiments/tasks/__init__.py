"""The table of tasks."""

from experiments.tasks.arithmetic import Addition
from experiments.tasks.base import Asked, Batch, Example, Layout, Source, Stream, Task, positions
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
from experiments.tasks.copying import (
    CopyOne,
    CopyOneTwice,
    CopyReplaced,
    CopyUnique,
    CopyUniqueTwice,
    ReverseThenCopy,
    ReverseUnique,
    ReverseUniqueTwice,
)
from experiments.tasks.coupling import ShortMultiplication, TripleAddition
from experiments.tasks.operands import AdditionOperands, BitwiseOr, Multiplication
from experiments.tasks.pcfg import Pcfg
from experiments.tasks.reasoning import AdditionAny, Lego, Polynomial, SortNumbers, SortSingle, Summation
from experiments.tasks.recall import Induction, Needle, Passkey
from experiments.tasks.regular import CycleNavigation, EvenPairs, ModularArithmetic, ParityCheck
from experiments.tasks.scan import Scan
from experiments.tasks.streams import MQAR, Dyck, FlipFlop
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
    # Kazemnejad et al. 2023
    "copy_one": CopyOne,
    "copy_one_twice": CopyOneTwice,
    "copy_replaced": CopyReplaced,
    "copy_unique": CopyUnique,
    "copy_unique_twice": CopyUniqueTwice,
    "reverse_unique": ReverseUnique,
    "reverse_unique_twice": ReverseUniqueTwice,
    "reverse_then_copy": ReverseThenCopy,
    "addition_any": AdditionAny,
    "summation": Summation,
    "sort_single": SortSingle,
    "sort_numbers": SortNumbers,
    "polynomial": Polynomial,
    "lego": Lego,
    "scan": Scan,
    "pcfg": Pcfg,
    # McLeish et al. 2024, Cho et al. 2024
    "addition_operands": AdditionOperands,
    "multiplication": Multiplication,
    "bitwise_or": BitwiseOr,
    "short_multiplication": ShortMultiplication,
    "triple_addition": TripleAddition,
    # Recall
    "mqar": MQAR,
    "induction": Induction,
    "flip_flop": FlipFlop,
    "passkey": Passkey,
    "needle": Needle,
    "dyck": Dyck,
    # Real text
    "text": Text,
}

__all__ = ["TASKS", "Asked", "Batch", "Example", "Layout", "Source", "Stream", "Task", "positions"]
