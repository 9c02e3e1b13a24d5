"""Numbers of things in messages and reports."""


def counted(number: int, noun: str, plural: str = "s") -> str:
    """So many of something.

    >>> counted(1, "batch", "es"), counted(1200, "batch", "es")
    ('1 batch', '1,200 batches')
    """
    return f"{number:,} {noun}{'' if number == 1 else plural}"
