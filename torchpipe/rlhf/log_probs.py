"""How likely a model writes the trained tokens of a row."""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  # as everybody writes it
from torch.utils.checkpoint import checkpoint

from torchpipe.constants import IGNORE_INDEX
from torchpipe.errors import DataError

MAX_CHUNK_BYTES = 128 * 2**20
"""Bytes of the largest block of logits that :func:`hidden_log_probs` makes: 261 tokens at a vocabulary of 128,256."""


def logits_to_logprobs(logits: torch.Tensor, sequences: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """The log-probability of each token of ``sequences``, [b, s] float32 (float64 for float64 logits).

    Args:
        logits: [b, s, v], of the position that is to predict the token.
        sequences: int64 [b, s].
        temperature: what logits are divided by.

    >>> logits_to_logprobs(torch.zeros(1, 2, 4), torch.tensor([[0, 3]])).exp()
    tensor([[0.2500, 0.2500]])
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    return -F.cross_entropy(logits.flatten(0, -2), sequences.flatten(), reduction="none").view(sequences.shape)


def get_batch_log_probs(
    logits: torch.Tensor,
    labels: torch.Tensor,
    label_pad_token_id: int = IGNORE_INDEX,
    return_average_logprobs: bool = False,
) -> torch.Tensor:
    """The log-probability of each row's trained tokens together, [b] float32 (float64 for float64 logits).

    Args:
        logits: [b, s, v].
        labels: int64 [b, s], *unshifted*: ``labels[:, i]`` is the token at position i, which the logits of position
            i - 1 predict.
        label_pad_token_id: the label of positions that don't count.
        return_average_logprobs: True: the mean over a row's trained tokens, 0 where it has none; False: their sum.

    Raises:
        DataError: the shapes don't belong together.

    >>> labels = torch.tensor([[-100, 1, 2], [-100, 1, -100]])
    >>> get_batch_log_probs(torch.zeros(2, 3, 4), labels).exp()  # 1/4 a token
    tensor([0.0625, 0.2500])
    """
    if logits.shape[:-1] != labels.shape:
        raise DataError(
            f"logits are {list(logits.shape)} and labels are {list(labels.shape)}. Give logits [b, s, v] and labels "
            "[b, s]."
        )
    targets = labels[:, 1:]
    counts = targets != label_pad_token_id
    sums = _sums_of_rows(logits_to_logprobs(logits[:, :-1][counts], targets[counts]), counts)
    return sums / counts.sum(1).clamp(min=1) if return_average_logprobs else sums


def hidden_log_probs(
    hidden: torch.Tensor,
    output: Callable[[torch.Tensor], torch.Tensor],
    labels: torch.Tensor,
    *,
    label_pad_token_id: int = IGNORE_INDEX,
) -> torch.Tensor:
    """What :func:`get_batch_log_probs` gives for ``output(hidden)``, without ever holding the logits of a batch.

    Only positions whose next token counts are projected to the vocabulary, a block of them at a time; for gradients a
    block's logits are made again. So prompts and padding cost no logits, and memory does not grow with the answers.

    Args:
        hidden: [b, s, d], what the output projection is given.
        output: the projection, to logits of the vocabulary.
        labels: int64 [b, s], unshifted.
        label_pad_token_id: the label of positions that don't count.

    Raises:
        DataError: the shapes don't belong together.
    """
    if hidden.shape[:-1] != labels.shape:
        raise DataError(
            f"hidden is {list(hidden.shape)} and labels are {list(labels.shape)}. Give hidden [b, s, d] and labels "
            "[b, s]."
        )
    targets = labels[:, 1:]
    counts = targets != label_pad_token_id
    kept, wanted = hidden[:, :-1][counts], targets[counts]

    def block_log_probs(block: torch.Tensor, of_block: torch.Tensor) -> torch.Tensor:
        return logits_to_logprobs(output(block), of_block)

    blocks: list[torch.Tensor] = []
    for block, of_block in zip(*(whole.split(_rows_per_block(output)) for whole in (kept, wanted)), strict=True):
        if torch.is_grad_enabled():
            found = checkpoint(block_log_probs, block, of_block, use_reentrant=False)
            assert isinstance(found, torch.Tensor)
            blocks.append(found)
        else:
            blocks.append(block_log_probs(block, of_block))
    return _sums_of_rows(torch.cat(blocks), counts)


def _rows_per_block(output: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """Positions whose float32 logits take ``MAX_CHUNK_BYTES``, by the rows of the projection's weight."""
    weight = getattr(output, "weight", None)
    return 256 if weight is None else max(1, MAX_CHUNK_BYTES // (4 * weight.shape[0]))


def _sums_of_rows(values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Sum of each row's values, [b], of those where ``counts`` is True in order: the same bits on every run."""
    return torch.stack([part.sum() for part in values.split(counts.sum(1).tolist())])
