"""An item of a data set as its documents: tokens, labels and positions, whatever kind of item it is."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.pair_transform import SIDES
from torchpipe.datasets.item_samples import is_pair, samples_in
from torchpipe.errors import DataError
from torchpipe.store.rows import KIND_OF_PROMPTS, kind_of


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item, read.

    Attributes:
        tokens, labels, positions: of all its documents, one after the other; labels are shifted.
        lengths: tokens of each document.
        packed: whether it may hold several samples.
        sides: what each document of a pair is; empty elsewhere.
        num_unproved: trained turns that are not proved to be what the model would sample.
        desirable: whether the answer is a desirable one; None where the item has no such label.
    """

    tokens: list[int]
    labels: list[int]
    positions: list[int]
    lengths: list[int]
    packed: bool
    sides: tuple[str, ...] = ()
    num_unproved: int = 0
    desirable: bool | None = None

    @cached_property
    def trained(self) -> list[bool]:
        """Whether each token is trained: the label of the position before it says so."""
        return [at > 0 and self.labels[at - 1] != IGNORE_INDEX for at in range(len(self.tokens))]

    @property
    def num_trained(self) -> int:
        """Labels that are not -100."""
        return len(self.labels) - self.labels.count(IGNORE_INDEX)


def item_of(sample: Any, index: int, dataset: Any) -> Item:
    """What a data set gave for one of its rows.

    Args:
        sample: ``tokens`` and ``labels``, packed or not; or an item of a data set of pairs, of labelled answers or of
            prompts.
        index: its number, for errors.
        dataset: that gave it.

    Raises:
        DataError: it is no such item, or what it holds does not belong together.
    """
    if not _is_known(sample, dataset):
        held = f"the keys {sorted(map(str, sample))}" if isinstance(sample, Mapping) else f"a {type(sample).__name__}"
        raise DataError(
            f"Row {index} of {type(dataset).__name__} gave {held}. explain shows samples that hold `tokens` and "
            "`labels`, pairs, labelled answers, and prompts."
        )
    tokens: list[int] = []
    labels: list[int] = []
    lengths: list[int] = []
    for one in samples_in(sample):
        own_tokens, own_labels = (_integers(one[key], key, index) for key in ("tokens", "labels"))
        if len(own_tokens) != len(own_labels):
            raise DataError(
                f"Row {index} has {len(own_tokens)} tokens and {len(own_labels)} labels; they have to be as many."
            )
        tokens += own_tokens
        labels += own_labels
        lengths.append(len(own_tokens))
    positions = [place for length in lengths for place in range(length)]
    if "input_pos" in sample:
        positions = _integers(sample["input_pos"], "input_pos", index)
    if "seq_lens" in sample:
        lengths = _integers(sample["seq_lens"], "seq_lens", index)
    if sum(lengths) != len(tokens) or len(positions) != len(tokens) or min(lengths, default=0) < 0:
        raise DataError(
            f"Row {index} has {len(tokens)} tokens, {len(positions)} positions, and seq_lens that add up to "
            f"{sum(lengths)}. They have to be the same, and no length below 0."
        )
    desirable = sample.get("desirable")
    return Item(
        tokens=tokens,
        labels=labels,
        positions=positions,
        lengths=lengths,
        packed="seq_lens" in sample,
        sides=SIDES if is_pair(sample) else (),
        num_unproved=_integers([sample.get("num_unproved_turns", 0)], "num_unproved_turns", index)[0],
        desirable=None if desirable is None else bool(desirable),
    )


def num_cut_of(sample: Mapping[str, Any], index: int) -> int:
    """The tokens that were cut from a sample."""
    return _integers([sample.get("num_truncated", 0)], "num_truncated", index)[0]


def _is_known(sample: Any, dataset: Any) -> bool:
    if not isinstance(sample, Mapping):
        return False
    if is_pair(sample) or all(key in sample for key in ("tokens", "labels")):
        return True
    if "tokens" in sample:
        return kind_of(dataset) == KIND_OF_PROMPTS
    return all(key in sample for key in ("input_ids", "labels", "desirable"))


def _integers(values: Any, key: str, index: int) -> list[int]:
    held = values.tolist() if hasattr(values, "tolist") else values
    try:
        return [operator.index(value) for value in held]
    except TypeError:
        raise DataError(f"Row {index}: its {key} are no integers in one axis, but {repr(values)[:60]}.") from None
