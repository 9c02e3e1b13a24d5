"""Cross-entropy of a decoder's logits, a part of the sequence at a time."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812  # as everybody writes it
from torch import nn
from torch.utils.checkpoint import checkpoint

from torchpipe.constants import IGNORE_INDEX
from torchpipe.errors import ConfigError, DataError
from torchpipe.modules.losses import linear_cross_entropy, plain_projection


class CEWithChunkedOutputLoss(nn.Module):
    """The mean cross-entropy over the targets that count, with the logits of one part of the sequence at a time.

    It is called in one of two ways:

    - As torchtune calls it, with a list of logits, one tensor for each part of the sequence.
    - After :meth:`set_model_output`, with the model's hidden states: it then makes the logits itself, and no more than
      one part of them exists at a time. The output projection may be any module, one with LoRA adapters too.

    Either way the value and the gradients are those of ``torch.nn.functional.cross_entropy`` on all logits in float32;
    where no target counts the loss is 0, with gradients of zeros.

    Args:
        num_output_chunks: parts of the sequence.
        ignore_index: the target of positions that don't count.

    >>> loss = CEWithChunkedOutputLoss(num_output_chunks=2)
    >>> labels = torch.tensor([[1, 2, -100, 3]])
    >>> logits = torch.zeros(1, 4, 10)
    >>> round(loss([*logits.chunk(2, dim=1)], labels).item(), 4)  # log(10)
    2.3026
    """

    def __init__(self, num_output_chunks: int = 8, ignore_index: int = IGNORE_INDEX) -> None:
        super().__init__()
        if num_output_chunks < 1:
            raise ConfigError(f"num_output_chunks is {num_output_chunks}. Give 1 or more.")
        self.num_output_chunks = num_output_chunks
        self.ignore_index = ignore_index
        self._output: tuple[nn.Module] | None = None

    def set_model_output(self, model: nn.Module) -> None:
        """Makes ``model`` return hidden states, and keeps a handle on its output projection."""
        # A tuple hides the module from nn.Module's registration: the model stays its owner.
        self._output = (model.output,)  # pyright: ignore[reportAttributeAccessIssue]
        model.skip_output_layer = True  # pyright: ignore[reportArgumentType]  # a plain attribute, not a module

    def forward(
        self,
        logits: Sequence[torch.Tensor] | torch.Tensor,
        labels: torch.Tensor,
        loss_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The mean loss, a float32 scalar; with weights, ``sum(w * l) / sum(w)``.

        Args:
            logits: a list of [b, s / num_output_chunks, v] (the last may be shorter); or the hidden states [b, s, d],
                once :meth:`set_model_output` was called.
            labels: int64 [b, s], already shifted: ``labels[:, i]`` is what position i should predict.
            loss_weights: float [b, s], how much each target counts; None: all the same.

        Raises:
            ConfigError: logits are given as one tensor, and :meth:`set_model_output` has not been called.
            DataError: the parts do not hold as many positions as ``labels``.
        """
        if not isinstance(logits, torch.Tensor):
            parts = list(logits)
            if sum(part.shape[1] for part in parts) != labels.shape[1]:
                raise DataError(
                    f"The parts of the logits have {[part.shape[1] for part in parts]} positions, and labels are "
                    f"{list(labels.shape)}. Give parts that make up the sequence."
                )
            return self._mean([(part, None) for part in parts], labels, loss_weights)
        if self._output is None:
            raise ConfigError(
                "The loss was given one tensor, and has no output projection yet. Call loss.set_model_output(model) "
                "first, or give it a list of logits: [*logits.chunk(num_output_chunks, dim=1)]."
            )
        output = self._output[0]
        if plain_projection(output):
            return linear_cross_entropy(
                logits,
                output.weight,  # pyright: ignore[reportArgumentType]
                labels,
                loss_weights=loss_weights,
                ignore_index=self.ignore_index,
                num_chunks=self.num_output_chunks,
            )
        return self._mean(
            [(part, output) for part in logits.chunk(self.num_output_chunks, dim=1)], labels, loss_weights
        )

    def compute_cross_entropy(
        self, logits: torch.Tensor, labels: torch.Tensor, normalize: bool = True, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The sum of the losses of some positions, a float32 scalar.

        Args:
            logits: [n, v].
            labels: int64 [n].
            normalize: has no effect, as in torchtune: the sum is divided once, by all targets.
            weights: float [n]; None: 1.
        """
        logits = logits.float()
        if weights is None:
            return F.cross_entropy(logits, labels, ignore_index=self.ignore_index, reduction="sum")
        losses = F.cross_entropy(logits, labels, ignore_index=self.ignore_index, reduction="none")
        return (losses * weights.to(losses.dtype)).sum()

    def _mean(
        self,
        parts: Sequence[tuple[torch.Tensor, nn.Module | None]],
        labels: torch.Tensor,
        loss_weights: torch.Tensor | None,
    ) -> torch.Tensor:
        sizes = [part.shape[1] for part, _ in parts]
        weights = [None] * len(parts) if loss_weights is None else loss_weights.split(sizes, dim=1)
        losses: list[torch.Tensor] = []
        for (part, output), targets, weight in zip(parts, labels.split(sizes, dim=1), weights, strict=True):
            if output is not None and torch.is_grad_enabled():
                # The logits are made again for the gradients, so that those of all parts never exist together.
                losses.append(checkpoint(self._sum, part, output, targets, weight, use_reentrant=False))
            else:
                losses.append(self._sum(part, output, targets, weight))
        counts = labels != self.ignore_index
        total = counts.sum() if loss_weights is None else loss_weights[counts].sum(dtype=torch.float32)
        loss = torch.stack(losses).sum()
        return loss / torch.where(total == 0, torch.ones_like(total), total)

    def _sum(
        self, part: torch.Tensor, output: nn.Module | None, targets: torch.Tensor, weights: torch.Tensor | None
    ) -> torch.Tensor:
        logits = part if output is None else output(part)
        return self.compute_cross_entropy(
            logits.flatten(0, 1), targets.reshape(-1), weights=None if weights is None else weights.reshape(-1)
        )
