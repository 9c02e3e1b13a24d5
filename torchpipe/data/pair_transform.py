"""Rows with two answers to two samples, the preferred one first."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from torchpipe._suggest import listed
from torchpipe.data.label_lists import as_list, unshifted_label_list
from torchpipe.data.messages import Message
from torchpipe.data.messages_tokenizer import as_model_transform
from torchpipe.data.overflow import Fitted, without_limit
from torchpipe.data.pair_cuts import PairCutter
from torchpipe.data.pair_policy import PairPolicy
from torchpipe.data.protocols import Transform
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.data.shared_prompt import Conversations
from torchpipe.errors import ColumnError, ConfigError, DataError

SIDES = ("chosen", "rejected")
"""The two conversations of a pair, in the order in which their samples stand everywhere."""


class PairTransform:
    """Turns a row with two answers into a pair of samples.

    The messages that both conversations begin with are their prompt, which is never trained, whatever strategy and
    flags say. What follows is trained as the message transform masked it.

    Args:
        message_transform: row to ``{"chosen": [...], "rejected": [...]}``, lists of messages, and ``tools``, if any.
        model_transform: the tokenizer; one that has ``tokenize_messages`` alone will do.
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
        self.model_transform = as_model_transform(model_transform)
        self.policy = policy or PairPolicy()
        self.whole_transform = without_limit(self.model_transform) if self.policy.is_whole else self.model_transform
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
            tokens = pair[f"{side}_input_ids"] = as_list(one["tokens"])
            pair[f"{side}_labels"] = unshifted_label_list(tokens, one["mask"])
        return pair

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The two samples of one row, each with ``tokens`` and ``mask``; or why there are none."""
        return self.fitted_rows([sample])[0]

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What :meth:`fitted` gives each row; the tokenizer is given several conversations at once."""
        read = [self._read(row) for row in rows]
        made = iter(self._sides.fitted_rows([side for pair in read for side in pair.rows()]))
        return [self._pair(pair, [next(made), next(made)]) for pair in read]

    def conversations(self, sample: Mapping[str, Any]) -> Conversations:
        """The two conversations of a row, before anything is asked of them.

        Raises:
            DataError: there are no two.
        """
        row = self.message_transform(sample)
        if not isinstance(row, Mapping) or any(side not in row for side in SIDES):
            held = listed(row) if isinstance(row, Mapping) else f"a {type(row).__name__}"
            raise ColumnError(
                f"The message_transform of a preference data set returns {listed(SIDES)}, two lists of messages; it "
                f"returned {held}. torchpipe.data.ChosenRejectedToMessages makes them of such columns."
            )
        rest = {key: value for key, value in row.items() if key not in SIDES}
        chosen, rejected = (_messages(row[side], side) for side in SIDES)
        return Conversations.of(chosen, rejected, rest)

    def _read(self, sample: Mapping[str, Any]) -> Conversations:
        """The two conversations of a row that is a pair by the policy."""
        pair = self.conversations(sample)
        if pair.are_equal:
            if self.policy.on_equal == "refuse":
                raise _equal("conversations")
        elif self.policy.on_prompts_differ == "refuse":
            pair.check_prompts()
        return pair

    def _pair(self, pair: Conversations, sides: Sequence[Fitted]) -> Fitted:
        for side in sides:
            if side.left_out is not None:
                return side
        cutter = PairCutter(policy=self.policy, render=self._rendered, transform=self.whole_transform)
        fitted = cutter.fitted(pair, [_text_alone(side.samples[0]) for side in sides])
        if self.policy.on_equal == "refuse" and fitted.samples and _are_equal(*fitted.samples):
            was_cut = any("num_truncated" in sample for sample in fitted.samples)
            raise _equal("tokens that the cut leaves" if was_cut else "tokens")
        return fitted

    def _rendered(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [_text_alone(self._sides.fitted(row, labels=False).samples[0]) for row in rows]


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


def _equal(what: str) -> DataError:
    return DataError(
        f"The chosen and the rejected {what} are equal, so that nothing is preferred. Leave such rows out (on_error, "
        "cache or packed; or a filter_fn), or set on_equal to 'keep'.",
        reason="chosen_equals_rejected",
    )


def _text_alone(sample: dict[str, Any]) -> dict[str, Any]:
    if "encoder_input" in sample:
        raise DataError("A conversation holds images, and preference data sets are of text alone.")
    if "loss_weights" in sample:
        raise DataError(
            "A message has a weight other than 0 and 1, and the losses of preference data sets know none. Leave it out "
            "of the row, or set it to 0 or 1."
        )
    return sample


def _are_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two samples train the same tokens; those that train nothing are another matter."""
    return (
        len(one["tokens"]) == len(other["tokens"])
        and np.array_equal(one["tokens"], other["tokens"])
        and not all(one["mask"][1:])
    )
