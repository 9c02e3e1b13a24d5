"""Rows with two answers to two samples, the preferred one first."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from torchpipe._suggest import listed
from torchpipe.data.messages import Message
from torchpipe.data.overflow import Fitted, without_limit
from torchpipe.data.pair_cuts import fitted_pair
from torchpipe.data.pair_policy import PairPolicy
from torchpipe.data.protocols import Transform
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.data.sequences import unshifted_labels
from torchpipe.data.shared_prompt import check_prompts, equal_answers, num_shared, without_flags
from torchpipe.errors import ColumnError, ConfigError, DataError

SIDES = ("chosen", "rejected")
"""The two conversations of a pair, in the order in which their samples stand everywhere."""


class PairTransform:
    """Turns a row with two answers into a pair of samples.

    The messages that both conversations begin with are their prompt, which is never trained, whatever strategy and
    flags say. What follows is trained as the message transform masked it.

    Args:
        message_transform: row to ``{"chosen": [...], "rejected": [...]}``, lists of messages, and ``tools``, if any.
        model_transform: the tokenizer.
        policy: what becomes of pairs that are too long or compare nothing; None is the default one.

    Raises:
        ConfigError: the tokenizer may make several samples of a conversation.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"whole_transform", "_sides"})

    def __init__(
        self, message_transform: Transform, model_transform: Transform, *, policy: PairPolicy | None = None
    ) -> None:
        if getattr(model_transform, "on_unproved", None) == "split":
            raise ConfigError(
                "on_unproved='split' of the tokenizer makes several samples of a conversation, and a pair has one on "
                "each side. Set it to 'refuse', 'common_prefix' or 'drop'."
            )
        self.message_transform = message_transform
        self.model_transform = model_transform
        self.policy = policy or PairPolicy()
        self.whole_transform = without_limit(model_transform) if self.policy.is_whole else model_transform
        self._sides = SFTTransform(None, self.whole_transform)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, list[int]]:
        """The pair of one row: ``chosen_input_ids``, ``chosen_labels``, ``rejected_input_ids``, ``rejected_labels``.

        Labels are *unshifted*: each stands at the place of its own token
        (:func:`~torchpipe.data.sequences.unshifted_labels`).

        Raises:
            DataError: the row is no pair, or what is left of it is none.
        """
        fitted = self.fitted(sample)
        if fitted.left_out is not None:
            raise DataError(_LEFT_OUT[fitted.left_out], reason=fitted.left_out)
        pair: dict[str, list[int]] = {}
        for side, one in zip(SIDES, fitted.samples, strict=True):
            pair[f"{side}_input_ids"] = list(map(int, one["tokens"]))
            pair[f"{side}_labels"] = unshifted_labels(one["tokens"], one["mask"]).tolist()
        return pair

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The two samples of one row, each with ``tokens`` and ``mask``; or why there are none."""
        return self.fitted_rows([sample])[0]

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What :meth:`fitted` gives each row; the tokenizer is given several conversations at once."""
        read = [self._read(row) for row in rows]
        made = iter(self._sides.fitted_rows([side for pair in read for side in pair]))
        return [self._pair(pair, next(made), next(made)) for pair in read]

    def _read(self, sample: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The two conversations of a row, as the tokenizer is given them."""
        row = self.message_transform(sample)
        if not isinstance(row, Mapping) or any(side not in row for side in SIDES):
            held = listed(row) if isinstance(row, Mapping) else f"a {type(row).__name__}"
            raise ColumnError(
                f"The message_transform of a preference data set returns {listed(SIDES)}, two lists of messages; it "
                f"returned {held}. torchpipe.data.ChosenRejectedToMessages makes them of such columns."
            )
        chosen, rejected = (_messages(row[side], side) for side in SIDES)
        shared = num_shared(chosen, rejected)
        if len(chosen) == len(rejected) == shared:
            if self.policy.on_equal == "refuse":
                raise equal_answers("conversation")
            shared = _last_answer(chosen)
        elif self.policy.on_prompts_differ == "refuse":
            check_prompts(chosen, rejected, shared)
        rest = {key: value for key, value in row.items() if key not in SIDES}
        prompt = [without_flags(message) for message in chosen[:shared]]
        return (
            {**rest, "messages": [*prompt, *chosen[shared:]]},
            {**rest, "messages": [*prompt, *rejected[shared:]]},
        )

    def _pair(self, rows: tuple[dict[str, Any], dict[str, Any]], *sides: Fitted) -> Fitted:
        num_tokens = sum(side.num_tokens for side in sides)
        for side in sides:
            if side.left_out is not None:
                return Fitted(samples=[], left_out=side.left_out, num_tokens=num_tokens)
        samples = [side.samples[0] for side in sides]
        for sample in samples:
            _check_sample(sample)
        fitted = fitted_pair(rows, samples, self.policy, self._sides)
        if self.policy.on_equal == "refuse" and len(fitted.samples) == 2 and _are_equal(*fitted.samples):
            raise equal_answers("tokens" if len(fitted.samples[0]["tokens"]) else "answers")
        return fitted


_LEFT_OUT = {
    "too_long": "The pair is too long, and what its limits leave of it is none. Raise max_seq_len, or leave such pairs "
    "out (cache or packed).",
    "nothing_trained": "What the cut leaves of the pair has a side without a trained token. Raise max_seq_len or "
    "max_response_len, or leave such pairs out (cache or packed).",
    "unproved": "It isn't proved what the model samples in this pair (on_unproved='drop'). Store it (cache=True) or "
    "pack it, which leaves such pairs out.",
}


def _messages(messages: Any, side: str) -> Sequence[Message]:
    if not isinstance(messages, Sequence) or not all(isinstance(message, Message) for message in messages):
        raise DataError(f"{side!r} is no list of Message. The message_transform has to return one.")
    if not messages:
        raise DataError(f"{side!r} has no messages.", reason="empty")
    return messages


def _last_answer(messages: Sequence[Message]) -> int:
    """Where the answer begins that ends a conversation: of two that are equal, all of it is shared."""
    return max((place for place, message in enumerate(messages) if message.role == "assistant"), default=0)


def _check_sample(sample: Mapping[str, Any]) -> None:
    if "encoder_input" in sample:
        raise DataError("A conversation holds images, and preference data sets are of text alone.")
    if "loss_weights" in sample:
        raise DataError(
            "A message has a weight other than 0 and 1, and the losses of preference data sets know none. Leave it out "
            "of the row, or set it to 0 or 1."
        )


def _are_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return np.array_equal(one["tokens"], other["tokens"])
