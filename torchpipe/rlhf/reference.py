"""What a policy is compared with: the model that training began with, in little memory."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from torchpipe.modules.peft import disable_adapter
from torchpipe.rlhf.pairs import Batch, PairLogProbs, pair_log_probs


class AdaptersOff:
    """A :data:`~torchpipe.rlhf.pairs.Reference`: the model with its adapters switched off, asked at every step.

    No second model and nothing kept; one more forward pass over each batch.

    Args:
        model: with adapters over frozen weights.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    @torch.no_grad()
    def __call__(self, batch: Batch, pairs: Sequence[int]) -> PairLogProbs:
        """The log-probabilities under the base."""
        with disable_adapter(self._model):
            return pair_log_probs(self._model, batch)


class KeptLogProbs:
    """A :data:`~torchpipe.rlhf.pairs.Reference`: log-probabilities that a model gave before it was trained.

    Eight bytes a pair, where a frozen copy of the model would take all of its memory again; and one forward pass over
    the pairs, where a copy takes one an epoch.

    Args:
        values: float32 [pairs, 2], of the chosen and the rejected answer; NaN where they are not known.
    """

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @classmethod
    @torch.no_grad()
    def computed(
        cls,
        model: nn.Module,
        dataset: Any,
        *,
        collate_fn: Callable[[list[Any]], Batch],
        batch_size: int,
        device: torch.device,
        needed: Iterable[int] | None = None,
        rank: int = 0,
        world_size: int = 1,
        sum_over_ranks: Callable[..., Iterable[float]] | None = None,
        **loader_options: Any,
    ) -> "KeptLogProbs":
        """Those of a data set's pairs under ``model`` as it is now.

        A pair is computed beside the same others whatever is needed of them, so that what is found for it is the same
        to the bit: pair k in a batch of pairs ``k // batch_size * batch_size`` and following.

        Args:
            dataset: of pairs; collate_fn: a list of them to a batch.
            batch_size: pairs of a batch.
            needed: numbers of the pairs that will be asked for; None: all.
            rank, world_size, sum_over_ranks: each rank computes some of the batches, and all know all in the end.
            loader_options: of torch's ``DataLoader``: ``num_workers``, ``pin_memory``, ``prefetch_factor``.
        """
        wanted = np.arange(len(dataset)) if needed is None else np.fromiter(needed, dtype=np.int64)
        blocks = [
            list(range(first, min(first + batch_size, len(dataset))))
            for first in (np.unique(wanted // batch_size) * batch_size).tolist()
        ]
        own = blocks[rank::world_size]
        generator = torch.Generator()  # the loader draws a seed, and must not move the global stream
        loader = DataLoader(dataset, batch_sampler=own, collate_fn=collate_fn, generator=generator, **loader_options)
        training = model.training
        model.eval()
        found = torch.zeros(len(dataset), 2)
        for block, (tokens, labels) in zip(own, loader, strict=True):
            log_probs = pair_log_probs(model, (tokens.to(device), labels.to(device)))
            found[block] = torch.stack([log_probs.chosen, log_probs.rejected], dim=1).float().cpu()
        model.train(training)
        if sum_over_ranks is not None:
            found = torch.tensor(list(sum_over_ranks(*found.flatten().tolist()))).view(-1, 2)
        known = torch.zeros(len(dataset), dtype=torch.bool)
        known[[pair for block in blocks for pair in block]] = True
        return cls(found.where(known[:, None], torch.tensor(float("nan"))))

    def __call__(self, batch: Batch, pairs: Sequence[int]) -> PairLogProbs:
        """The log-probabilities kept for pairs of these numbers; 0 for padding."""
        is_padding = torch.tensor([pair < 0 for pair in pairs])
        kept = self.values[list(pairs)].masked_fill(is_padding[:, None], 0.0).to(batch[0].device)
        return PairLogProbs(chosen=kept[:, 0], rejected=kept[:, 1])
