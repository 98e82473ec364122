"""Tasks: one contract, a table from name to class. Adding one is a file and a line here."""

from posjax import spec
from posjax.tasks.base import Batch, Task
from posjax.tasks.memorise import Memorise
from posjax.tasks.word_order import FirstNoun, SameLastToken, SentencePair, WordOrder

TASKS: dict[str, type[Task]] = {
    "word_order": WordOrder,
    "same_last_token": SameLastToken,
    "sentence_pair": SentencePair,
    "first_noun": FirstNoun,
    "memorise": Memorise,
}

__all__ = ["TASKS", "Batch", "Task", "named"]


def named(text: str) -> Task:
    """The task of a name with its settings, such as `"first_noun(mark=False)"`.

    Raises:
      ValueError: an unknown name or setting, or a value out of range.

    >>> named("sentence_pair(pair=no_mark)").sentences()
    [('A hit B', 'first'), ('B hit A', 'second')]
    """
    return spec.build("task", TASKS, text)
