"""What others wrote, as a line for a terminal: there it could change colours and titles, or forge lines of ours."""


def printable(text: str) -> str:
    """The text with all that is not printable escaped as in Python, line feeds and halves of characters as well."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
