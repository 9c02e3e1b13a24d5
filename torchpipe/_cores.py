"""The processors that this process may use."""

import os


def num_cores() -> int:
    """How many there are, 1 or more."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
