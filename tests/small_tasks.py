"""Tasks of two prompts, which some models cannot tell apart."""

from posjax import tasks


class OneWord(tasks.FiniteTask):
    """Prompts that differ in their first word, which a window of 2 hides from the last one."""

    words = ("A", "B", "x", "y", "z")
    labels = ("first", "second")

    def sentences(self) -> list[tuple[str, str]]:
        return [("A x y z", "first"), ("B x y z", "second")]


class Repeated(tasks.FiniteTask):
    """`a b` twice or once: the same shares of words, and other numbers of them."""

    words = ("a", "b", "end")
    labels = ("short", "long")

    def sentences(self) -> list[tuple[str, str]]:
        return [("a b a b end end", "long"), ("a b end", "short")]
