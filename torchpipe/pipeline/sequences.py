"""What processors make of a row of text: tokens, and what each of them is to predict."""

from dataclasses import dataclass

import numpy as np

from torchpipe.errors import DataError


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSequence:
    """A document, or several packed into one row. Labels are shifted already: ``labels[i]`` is what follows
    ``input_ids[i]``, or -100 where it is not trained.

    Attributes:
        input_ids, labels: integers [n].
        positions: integers [n]; a document begins wherever one is 0. None: one document, from 0 on.
        padding_mask: bool [n], True where a token only fills the row; None: nowhere.

    Raises:
        DataError: the arrays are not of one length and one dimension.
    """

    input_ids: np.ndarray
    labels: np.ndarray
    positions: np.ndarray | None = None
    padding_mask: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.input_ids)
        for name in ("labels", "positions", "padding_mask"):
            values = getattr(self, name)
            if values is not None and np.shape(values) != shape:
                raise DataError(
                    f"A TextSequence has input_ids {list(shape)} and {name} {list(np.shape(values))}. Give one entry "
                    "for each token."
                )
        if len(shape) != 1:
            raise DataError(f"A TextSequence has input_ids {list(shape)}. Give one dimension: a row has no batch.")
