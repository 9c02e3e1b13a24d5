"""An item of any data set as one row of tokens: a sample, a pack, a pair, a labelled answer or a prompt."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.pair_transform import SIDES
from torchpipe.datasets import side_of
from torchpipe.errors import DataError


@dataclass(frozen=True, kw_only=True)
class ItemRow:
    """The tokens of an item.

    Attributes:
        tokens, labels, positions: as many each; labels are shifted, -100 where nothing is predicted.
        lengths: tokens of each document; they add up to all.
        sides: which side of a pair each document is; None for each where the item is none.
        packed: whether the item is a pack.
        notes: what the item says beside its tokens.
    """

    tokens: list[int]
    labels: list[int]
    positions: list[int]
    lengths: list[int]
    sides: tuple[str | None, ...]
    packed: bool
    notes: tuple[str, ...] = ()


def row_of_item(item: Any, index: int, dataset: Any) -> ItemRow:
    """An item's tokens, with labels that are shifted in any case.

    Args:
        item: of a data set for fine-tuning (``tokens`` and ``labels``, packed or not), of pairs
            (``chosen_input_ids``, ...), of labelled answers (``input_ids``, ``labels``, ``desirable``) or of prompts
            (``tokens``, and ``columns`` where some are kept).
        index: its number, and ``dataset``, whose it is, for errors.

    Raises:
        DataError: it is none of these; its numbers are no integers in one axis, or not as many as they have to be.
    """
    if isinstance(item, Mapping) and f"{SIDES[0]}_input_ids" in item:
        return _pair(item, index)
    if isinstance(item, Mapping) and "input_ids" in item and "desirable" in item:
        tokens, labels = _as_many(item, ("input_ids", "labels"), index)
        note = f"the answer is labelled as a {'good' if item['desirable'] else 'bad'} one (desirable)"
        return _one(tokens, [*labels[1:], IGNORE_INDEX][: len(tokens)], notes=(note,))
    if isinstance(item, Mapping) and "tokens" in item and {"tokens", "columns"}.issuperset(item):
        tokens = integers(item["tokens"], "tokens", index)
        return _one(
            tokens, [IGNORE_INDEX] * len(tokens), notes=("a prompt: it is fed to a model, and nothing is trained",)
        )
    if not isinstance(item, Mapping) or "tokens" not in item or "labels" not in item:
        held = f"the keys {sorted(map(str, item))}" if isinstance(item, Mapping) else f"a {type(item).__name__}"
        raise DataError(
            f"Row {index} of {type(dataset).__name__} gave {held}. explain shows samples that hold `tokens` and "
            "`labels`, pairs, labelled answers and prompts."
        )
    tokens, labels = _as_many(item, ("tokens", "labels"), index)
    positions = integers(item.get("input_pos", range(len(tokens))), "input_pos", index)
    packed = "seq_lens" in item
    lengths = integers(item["seq_lens"], "seq_lens", index) if packed else [len(tokens)]
    if sum(lengths) != len(tokens) or len(positions) != len(tokens) or min(lengths, default=0) < 0:
        raise DataError(
            f"Row {index} has {len(tokens)} tokens, {len(positions)} positions, and seq_lens that add up to "
            f"{sum(lengths)}. They have to be the same, and no length below 0."
        )
    sides = (None,) * len(lengths)
    return ItemRow(tokens=tokens, labels=labels, positions=positions, lengths=lengths, sides=sides, packed=packed)


def integers(values: Any, key: str, index: int) -> list[int]:
    """The numbers that row ``index`` holds under ``key``.

    Raises:
        DataError: they are no integers in one axis.
    """
    held = values.tolist() if hasattr(values, "tolist") else values
    try:
        return [operator.index(value) for value in held]
    except TypeError:
        raise DataError(f"Row {index}: its {key} are no integers in one axis, but {repr(values)[:60]}.") from None


def _one(tokens: list[int], labels: list[int], *, notes: tuple[str, ...]) -> ItemRow:
    positions = list(range(len(tokens)))
    return ItemRow(
        tokens=tokens,
        labels=labels,
        positions=positions,
        lengths=[len(tokens)],
        sides=(None,),
        packed=False,
        notes=notes,
    )


def _pair(pair: Mapping[str, Any], index: int) -> ItemRow:
    for side in SIDES:
        _as_many(pair, (f"{side}_input_ids", f"{side}_labels"), index)
    samples = [side_of(pair, side) for side in SIDES]
    lengths = [len(sample["tokens"]) for sample in samples]
    return ItemRow(
        tokens=[token for sample in samples for token in sample["tokens"].tolist()],
        labels=[label for sample in samples for label in sample["labels"].tolist()],
        positions=[position for length in lengths for position in range(length)],
        lengths=lengths,
        sides=SIDES,
        packed=False,
    )


def _as_many(item: Mapping[str, Any], keys: Sequence[str], index: int) -> tuple[list[int], list[int]]:
    missing = [key for key in keys if key not in item]
    if missing:
        raise DataError(f"Row {index} has no {missing[0]!r} beside {keys[0]!r}. Both are needed.")
    tokens, labels = (integers(item[key], key, index) for key in keys)
    if len(tokens) != len(labels):
        raise DataError(
            f"Row {index} has {len(tokens)} {keys[0]} and {len(labels)} {keys[1]}; they have to be as many."
        )
    return tokens, labels
