"""torchtune's masks of packed rows: a flex attention block mask where the device has kernels for it, else dense."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Union

import torch

from torchpipe.data.packing.masks import dense_block_causal_mask, document_ids
from torchpipe.modules.block_masks import block_mask

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["create_block_causal_mask", "flex_is_supported", "packed_block_causal_mask"]

create_block_causal_mask = dense_block_causal_mask

_FIRST_TORCH = (2, 5)
_FIRST_CAPABILITY = (7, 5)


def flex_is_supported() -> bool:
    """Whether flex attention can be used here: torch 2.5 or newer, and a CUDA device of capability 7.5 or more.

    The device is asked at each call, so importing this module touches no device.
    """
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    return (
        version >= _FIRST_TORCH
        and torch.cuda.is_available()
        and torch.cuda.get_device_capability() >= _FIRST_CAPABILITY
    )


def packed_block_causal_mask(seq_lens: Sequence[torch.Tensor]) -> Union[torch.Tensor, "BlockMask"]:
    """The mask of packed rows, in which a token attends to its own document, up to itself.

    Where :func:`flex_is_supported`, a ``BlockMask`` on the current CUDA device, whose memory grows with the blocks that
    hold something; elsewhere bool [b, s, s], True where the query may attend to the key.

    Args:
        seq_lens: one integer tensor [d] a row; every row sums to the same s.

    Raises:
        DataError: there are no rows, a length is negative, or the rows sum differently.

    >>> create_block_causal_mask([torch.tensor([1, 2])]).int().tolist()
    [[[1, 0, 0], [0, 1, 0], [0, 1, 1]]]
    """
    if flex_is_supported():
        return flex_block_causal_mask(seq_lens, torch.device("cuda", torch.cuda.current_device()))
    return create_block_causal_mask(seq_lens)


def flex_block_causal_mask(seq_lens: Sequence[torch.Tensor], device: torch.device | str) -> "BlockMask":
    """The same as a flex attention block mask [b, 1, s, s] on ``device``, which may be any.

    Raises:
        DataError: there are no rows, a length is negative, or the rows sum differently.
    """
    return block_mask(document_ids(seq_lens).to(device))
