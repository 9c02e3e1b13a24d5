"""Grain, imported so that the program's own logging stays as it is.

Without jax Grain logs a warning while it is imported, and the library that it logs with then gives the root logger a
handler for stderr, after which ``logging.basicConfig`` of the program changes nothing. Every module that needs Grain
imports it from here.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from absl import logging as absl_logging

__all__ = ["grain"]


def _is_of_interest(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Failed to load jax profiler")


@contextmanager
def _own_logging() -> Iterator[None]:
    """While it lasts, nothing adds a handler to the root logger for want of one, and jax is not missed."""
    stand_in = logging.NullHandler()
    logger = absl_logging.get_absl_logger()
    logging.root.addHandler(stand_in)
    logger.addFilter(_is_of_interest)
    try:
        yield
    finally:
        logger.removeFilter(_is_of_interest)
        logging.root.removeHandler(stand_in)


with _own_logging():
    import grain
