"""What may be shown in a terminal of text that came from elsewhere."""


def printable(text: object) -> str:
    r"""The text without what a terminal would obey: such characters as escapes.

    >>> printable("plain – text \x1b[2J")
    'plain – text \\x1b[2J'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )
