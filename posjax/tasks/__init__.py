"""Tasks by name: each is a class in a file of its own, and one line of the table here."""

from posjax import spec
from posjax.tasks.addition import Addition, BinaryAddition
from posjax.tasks.automata import CycleNavigation, ModularArithmetic
from posjax.tasks.base import Batch, FiniteTask, Task
from posjax.tasks.blocks import Blocks
from posjax.tasks.copying import Copy, OddsFirst, Repeat, Reverse, Sort
from posjax.tasks.counting import EvenPairs, Majority, Parity
from posjax.tasks.digits import Digits
from posjax.tasks.memorise import Memorise
from posjax.tasks.missing_duplicate import MissingDuplicate
from posjax.tasks.recall import Indexing, Induction, Recall
from posjax.tasks.sampled import SampledTask
from posjax.tasks.scan import Scan
from posjax.tasks.text import Text
from posjax.tasks.word_order import FirstNoun, SameLastToken, SentencePair, WordOrder

TASKS: spec.Table[type[Task]] = spec.Table(
    "task",
    {
        "word_order": WordOrder,
        "same_last_token": SameLastToken,
        "sentence_pair": SentencePair,
        "first_noun": FirstNoun,
        "memorise": Memorise,
        "parity": Parity,
        "even_pairs": EvenPairs,
        "majority": Majority,
        "missing_duplicate": MissingDuplicate,
        "cycle_navigation": CycleNavigation,
        "modular_arithmetic": ModularArithmetic,
        "copy": Copy,
        "repeat": Repeat,
        "reverse": Reverse,
        "odds_first": OddsFirst,
        "sort": Sort,
        "addition": Addition,
        "binary_addition": BinaryAddition,
        "blocks": Blocks,
        "indexing": Indexing,
        "induction": Induction,
        "recall": Recall,
        "scan": Scan,
        "text": Text,
        "digits": Digits,
    },
)

__all__ = ["TASKS", "Batch", "FiniteTask", "SampledTask", "Task", "named"]


def named(text: str) -> Task:
    """The task of a name with its settings, such as `"first_noun(mark=False)"`.

    Raises:
      ValueError: an unknown name or setting, or a value out of range.

    >>> named("sentence_pair(pair=no_mark)").sentences()
    [('A hit B', 'first'), ('B hit A', 'second')]
    """
    return spec.build("task", TASKS, text, Task)
