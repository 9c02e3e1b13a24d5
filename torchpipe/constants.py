"""Numbers that every part of the package agrees on."""

IGNORE_INDEX: int = -100
"""The label of a position that must not be trained on; the default ``ignore_index`` of torch's cross-entropy."""

CROSS_ENTROPY_IGNORE_IDX: int = IGNORE_INDEX
"""torchtune's name for :data:`IGNORE_INDEX`; the same object."""
