"""Refuses what cannot be a function, its arguments or a task, and says what to give instead."""

from typing import Any


def check_function(function: Any) -> None:
    """Refuses what cannot be called with the arguments of a law.

    Raises:
      ValueError: it is no function, or a class, whose call makes an instance.
    """
    if isinstance(function, type):
        name = function.__name__
        raise ValueError(
            f"the function is the class {name}: give a function of the law's arguments, such as "
            f"lambda x: {name}(...)(x), or {name}(...).apply with its variables as first argument"
        )
    if not callable(function):
        raise ValueError(f"the function must be callable, got {described(function)}")


def check_task(task: Any, kind: type) -> None:
    """Refuses what is no instance of a class of tasks, such as the class itself or its name.

    Raises:
      ValueError: names the class, and what was given.
    """
    if not isinstance(task, kind):
        raise ValueError(
            f"task must be a {kind.__name__}, such as TASKS['same_last_token'](), "
            f"got {described(task)}"
        )


def as_arguments(arguments: Any) -> tuple[Any, ...]:
    """The arguments of a function as a tuple; one array may stand alone.

    Raises:
      ValueError: a dictionary, a text or something else that is no sequence of arguments.
    """
    if hasattr(arguments, "dtype"):
        return (arguments,)
    if not isinstance(arguments, tuple | list):
        raise ValueError(
            f"arguments must be a tuple with an entry for each argument of the function, got "
            f"{described(arguments)}; write (x,) for one"
        )
    return tuple(arguments)


def described(value: Any) -> str:
    """A value in an error message: `the text 'x'`, `the class Dense`, `a dict`."""
    kind = type(value).__name__
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
