"""Batches on their way out of a worker process, each in one piece of shared memory.

torch hands every tensor over by a file descriptor of its own, which costs both processes about a millisecond of
messages and the training process a mapping of memory to make and to undo. Here that happens once a batch.
"""

import io
import pickle
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.utils.data import get_worker_info

_ALIGNMENT = 64
_MOST_BYTES = 1 << 23
"""Larger batches go by torch's way, which copies them once less."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Parcel:
    """A batch without its tensors, and these.

    Attributes:
        rest: the batch, pickled, without the tensors' contents.
        data: these, one after another: uint8 [bytes].
        pieces: where each begins, and its bytes.
    """

    rest: bytes
    data: torch.Tensor
    pieces: tuple[tuple[int, int], ...]

    def pin_memory(self) -> "Parcel":
        """The same in page-locked memory, as a ``DataLoader`` with ``pin_memory`` asks for."""
        return Parcel(rest=self.rest, data=self.data.pin_memory(), pieces=self.pieces)


def in_a_parcel(batch: Any) -> Any:
    """In a worker process the batch as a :class:`Parcel`, if it is not too large; everywhere else the batch.

    Raises:
        Exception: it can't be pickled.
    """
    if get_worker_info() is None:
        return batch
    rest = io.BytesIO()
    packer = _Packer(rest)
    packer.dump(batch)
    if not packer.contents or packer.size > _MOST_BYTES:
        return batch
    data = torch.empty(packer.size, dtype=torch.uint8)
    for (begin, size), content in zip(packer.pieces, packer.contents, strict=True):
        data[begin : begin + size] = content
    return Parcel(rest=rest.getvalue(), data=data, pieces=tuple(packer.pieces))


def out_of_parcel(batch: Any) -> Any:
    """The batch of a :class:`Parcel`, in memory of this process alone; anything else as it is.

    Its tensors are parts of one piece of memory.
    """
    if not isinstance(batch, Parcel):
        return batch
    data = batch.data.clone() if batch.data.is_shared() else batch.data
    return pickle.loads(batch.rest, buffers=(data[begin : begin + size] for begin, size in batch.pieces))


class _Packer(ForkingPickler):
    """Pickles as torch's queues do, but for the contents of plain tensors, which it lists.

    Attributes:
        contents: uint8 [bytes] of each tensor.
        pieces: where each has its place in one array, and its bytes.
        size: bytes of that array.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5, True, self._is_written_here)  # protocol 5: buffers may stand elsewhere
        self.contents: list[torch.Tensor] = []
        self.pieces: list[tuple[int, int]] = []
        self.size = 0
        self._own: pickle.PickleBuffer | None = None

    def reducer_override(self, obj: Any) -> Any:
        """How a plain tensor is pickled; everything else as it is elsewhere."""
        if type(obj) is not torch.Tensor or not _is_plain(obj):
            return NotImplemented
        content = obj.reshape(-1).view(torch.uint8)
        self.contents.append(content)
        self.pieces.append((self.size, len(content)))
        self.size += -(-len(content) // _ALIGNMENT) * _ALIGNMENT
        self._own = pickle.PickleBuffer(content.numpy().data)
        return _tensor, (self._own, obj.dtype, tuple(obj.shape))

    def _is_written_here(self, buffer: pickle.PickleBuffer) -> bool:
        return buffer is not self._own  # such as that of a numpy array


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its bytes, dtype and shape are all that there is to a tensor."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.is_contiguous()
        and tensor.numel() > 0
        and not vars(tensor)
    )


def _tensor(content: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return content.view(dtype).view(shape)
