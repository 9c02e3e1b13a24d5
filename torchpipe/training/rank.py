"""Which of the processes that train together this one is."""

import os


def get_world_size_and_rank() -> tuple[int, int]:
    """How many processes train together, and the number of this one: what torchrun sets, or 1 and 0.

    >>> get_world_size_and_rank()
    (1, 0)
    """
    return int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
