"""Cross-entropy from hidden states, without ever holding the logits of all tokens."""

import math
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from torchpipe.constants import IGNORE_INDEX
from torchpipe.errors import ConfigError, DataError
from torchpipe.modules.tied_linear import TiedLinear

MAX_CHUNK_BYTES = 128 * 2**20
"""Bytes of the largest block of logits: 261 tokens at a vocabulary of 128,256, in float32."""


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    loss_weights: torch.Tensor | None = None,
    ignore_index: int = IGNORE_INDEX,
    reduction: Literal["mean", "sum"] = "mean",
    num_chunks: int = 8,
) -> torch.Tensor:
    """Cross-entropy of ``hidden @ weight.T`` against ``targets``, a float32 scalar (float64 for float64 inputs).

    The same value and gradients as ``torch.nn.functional.cross_entropy`` on the full logits. Only one block of logits
    exists at a time: the gradients are computed from it at once, and ``backward`` merely scales them. So memory does
    not grow with the number of tokens, beyond the gradients themselves.

    Logits are computed in the inputs' type (autocast's, when it is on), their softmax in float32. Gradients have their
    inputs' types; the weight's is summed in float32. Ignored positions are left out before the projection.

    Args:
        hidden: [..., d].
        weight: [v, d], the output projection; a tied or frozen one is fine.
        targets: int64 [...], ids below v, or ``ignore_index``.
        loss_weights: float [...], how much each target counts, 0 or above; None: all the same.
        ignore_index: the target of positions that don't count.
        reduction: "sum" is the sum of ``w * l`` over the targets that count, ``l`` being a target's loss and ``w`` its
            weight, or 1; "mean" divides that by the sum of ``w``, which without weights is their number.
        num_chunks: the least number of blocks; there are more when a block would pass ``MAX_CHUNK_BYTES``.

    Returns:
        The loss; 0.0, with gradients of zeros, when no target counts.

    Raises:
        DataError: the shapes don't belong together.
        ConfigError: ``num_chunks`` is below 1, or ``reduction`` another word.

    >>> hidden, weight = torch.zeros(2, 3, 4), torch.zeros(10, 4)
    >>> targets = torch.tensor([[1, 2, -100], [3, -100, -100]])
    >>> round(linear_cross_entropy(hidden, weight, targets).item(), 4)  # log(10)
    2.3026
    """
    if num_chunks < 1:
        raise ConfigError(f"num_chunks is {num_chunks}. Give 1 or more.")
    if reduction not in ("mean", "sum"):
        raise ConfigError(f"reduction is {reduction!r}. It can be 'mean' or 'sum'.")
    if hidden.shape[:-1] != targets.shape or hidden.shape[-1:] != weight.shape[1:]:
        raise DataError(
            f"hidden is {list(hidden.shape)}, weight is {list(weight.shape)} and targets is {list(targets.shape)}. "
            "Give hidden [..., d], weight [v, d] and targets [...]."
        )
    if loss_weights is not None and loss_weights.shape != targets.shape:
        raise DataError(
            f"loss_weights is {list(loss_weights.shape)} and targets is {list(targets.shape)}. Give one for each "
            "target."
        )
    device_type = hidden.device.type
    if torch.is_autocast_enabled(device_type):
        dtype = torch.get_autocast_dtype(device_type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    targets = targets.reshape(-1)
    counts = targets != ignore_index
    if loss_weights is not None:
        loss_weights = loss_weights.reshape(-1)
        counts &= loss_weights != 0
    kept = counts.nonzero().squeeze(1)
    rows_per_chunk = _rows_per_chunk(kept.numel(), weight, num_chunks)
    needs_grad = (
        torch.is_grad_enabled() and hidden.requires_grad,
        torch.is_grad_enabled() and weight.requires_grad,
    )
    loss = _LinearCrossEntropy.apply(
        hidden.reshape(-1, hidden.shape[-1]), weight, targets, loss_weights, kept, rows_per_chunk, needs_grad
    )
    assert isinstance(loss, torch.Tensor)
    if reduction == "sum" or kept.numel() == 0:
        return loss
    return loss / (kept.numel() if loss_weights is None else loss_weights[kept].to(loss.dtype).sum())


class LinearCrossEntropyLoss(nn.Module):
    """The mean cross-entropy of a decoder's hidden states, projected block by block with its output weight.

    Args:
        num_output_chunks: the least number of blocks.
        ignore_index: the target of positions that don't count.

    Call :meth:`set_model_output` once, before the first forward. See :func:`linear_cross_entropy`.
    """

    def __init__(self, num_output_chunks: int = 8, ignore_index: int = IGNORE_INDEX) -> None:
        super().__init__()
        self.num_output_chunks = num_output_chunks
        self.ignore_index = ignore_index
        self._output: tuple[nn.Module] | None = None

    def set_model_output(self, model: nn.Module) -> None:
        """Makes ``model`` return hidden states, and keeps a handle on its output projection's weight.

        Raises:
            ConfigError: ``model.output`` is more than a product with one weight, so the loss can't stand in for it.
        """
        output: Any = getattr(model, "output", None)
        if not plain_projection(output):
            raise ConfigError(
                f"model.output is {output}. The loss multiplies by its weight alone: use nn.Linear without a bias or "
                "TiedLinear there, or torchpipe.modules.loss.CEWithChunkedOutputLoss, which takes any module."
            )
        # A tuple hides the module from nn.Module's registration: the model stays the weight's owner.
        self._output = (output,)
        model.skip_output_layer = True  # pyright: ignore[reportArgumentType]  # a plain attribute, not a module

    def forward(
        self, outputs: torch.Tensor, targets: torch.Tensor, loss_weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The mean loss over the targets that count, a float32 scalar; with weights, ``sum(w * l) / sum(w)``.

        Args:
            outputs: [b, s, d], the model's hidden states.
            targets: int64 [b, s], already shifted: ``targets[:, i]`` is what position i should predict.
            loss_weights: float [b, s], how much each target counts; None: all the same.

        Raises:
            ConfigError: :meth:`set_model_output` has not been called.
        """
        if self._output is None:
            raise ConfigError("The loss has no output weight yet. Call loss.set_model_output(model) first.")
        weight: Any = self._output[0].weight
        return linear_cross_entropy(
            outputs,
            weight,
            targets,
            loss_weights=loss_weights,
            ignore_index=self.ignore_index,
            num_chunks=self.num_output_chunks,
        )


def plain_projection(output: Any) -> bool:
    """Whether a model's output projection is a product with its ``weight`` [v, d], and nothing more."""
    is_linear = isinstance(output, nn.Linear) and type(output).forward is nn.Linear.forward and output.bias is None
    return is_linear or isinstance(output, TiedLinear)


def _rows_per_chunk(num_rows: int, weight: torch.Tensor, num_chunks: int) -> int:
    """Rows of a block: equal blocks, at least ``num_chunks`` of them, none beyond MAX_CHUNK_BYTES."""
    row_bytes = weight.shape[0] * torch.promote_types(weight.dtype, torch.float32).itemsize
    return max(1, min(math.ceil(num_rows / num_chunks), MAX_CHUNK_BYTES // row_bytes))


class _LinearCrossEntropy(torch.autograd.Function):
    """The sum of the losses at the ``kept`` rows; the gradients are made in ``forward`` and scaled in ``backward``."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        loss_weights: torch.Tensor | None,
        kept: torch.Tensor,
        rows_per_chunk: int,
        needs_grad: tuple[bool, bool],
    ) -> torch.Tensor:
        dtype = torch.promote_types(weight.dtype, torch.float32)
        loss = torch.zeros((), dtype=dtype, device=hidden.device)
        grad_hidden = torch.zeros_like(hidden) if needs_grad[0] else None
        grad_weight = torch.zeros_like(weight, dtype=dtype) if needs_grad[1] else None
        with torch.autocast(hidden.device.type, enabled=False):
            for rows in kept.split(rows_per_chunk) if kept.numel() else ():
                chunk = hidden.index_select(0, rows)
                chunk_targets = targets.index_select(0, rows).unsqueeze(1)
                # From here on in place: one block of logits, which becomes exp(logits), then their gradient.
                block = (chunk @ weight.T).to(dtype)
                block -= block.amax(dim=1, keepdim=True)
                weights = None if loss_weights is None else loss_weights[rows].to(dtype).unsqueeze(1)
                of_targets = block.gather(1, chunk_targets)
                loss -= of_targets.sum() if weights is None else (of_targets * weights).sum()
                sums = block.exp_().sum(dim=1, keepdim=True)
                loss += sums.log().sum() if weights is None else (sums.log() * weights).sum()
                if grad_hidden is None and grad_weight is None:
                    continue
                block /= sums
                block.scatter_add_(1, chunk_targets, block.new_full((1, 1), -1.0).expand_as(chunk_targets))
                if weights is not None:
                    block *= weights
                block = block.to(weight.dtype)
                if grad_hidden is not None:
                    grad_hidden.index_copy_(0, rows, block @ weight)
                if grad_weight is not None and grad_weight.dtype == chunk.dtype:
                    grad_weight.addmm_(block.T, chunk)
                elif grad_weight is not None:
                    grad_weight += block.T @ chunk
                del block
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.dtype = weight.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # once_differentiable is not annotated
        ctx: Any, *grad_outputs: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        # Not in place: backward may run again, and hand out the same gradients.
        grads = [
            None if grad is None else torch.mul(grad, grad_outputs[0], out=torch.empty_like(grad, dtype=ctx.dtype))
            for grad in ctx.saved_tensors
        ]
        return *grads, None, None, None, None, None
