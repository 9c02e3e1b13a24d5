"""Rows with one answer and a label to samples."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torchpipe.data.label_lists import as_list
from torchpipe.data.messages import Message
from torchpipe.data.overflow import Fitted, OverflowPolicy
from torchpipe.data.protocols import Transform
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.data.sequences import unshifted_labels
from torchpipe.data.shared_prompt import untrained
from torchpipe.errors import ColumnError, ConfigError, DataError


class KTOTransform:
    """Turns a row into its tokens, its *unshifted* labels, and whether its answer is a desirable one.

    The answer is all that follows the last message of the user; what stands before is the prompt, and never trained.

    Args:
        message_transform: row to ``{"messages": [...], "desirable": bool}``, and ``tools``, if any.
        model_transform: the tokenizer.
        overflow: what becomes of rows that are too long: "error", "truncate" or "drop"; None leaves it to the
            tokenizer.

    Raises:
        ConfigError: ``overflow`` or the tokenizer may make several samples of a row.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_sample"})

    def __init__(
        self, message_transform: Transform, model_transform: Transform, *, overflow: OverflowPolicy | None = None
    ) -> None:
        several = {
            "overflow='split'": overflow is not None and overflow.overflow == "split",
            "on_unproved='split' of the tokenizer": getattr(model_transform, "on_unproved", None) == "split",
        }
        for option, is_set in several.items():
            if is_set:
                raise ConfigError(
                    f"{option} makes several samples of a row, and a label judges one whole answer. Leave such rows "
                    "out ('drop'), or set another value."
                )
        self.message_transform = message_transform
        self.model_transform = model_transform
        self.overflow = overflow
        self._sample = SFTTransform(None, model_transform, overflow=overflow)

    @property
    def whole_transform(self) -> Any:
        """The tokenizer, without a length of its own where ``overflow`` is given."""
        return self._sample.whole_transform

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"input_ids": [...], "labels": [...], "desirable": bool}``.

        Raises:
            DataError: the row is no conversation with an answer, or it is too long.
        """
        fitted = self.fitted(sample)
        made = fitted.samples[0] if self.overflow is None else fitted.only(self.overflow)
        labels = unshifted_labels(made["tokens"], made["mask"]).tolist()
        return {"input_ids": as_list(made["tokens"]), "labels": labels, "desirable": made["desirable"]}

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The sample of one row, ``tokens``, ``mask`` and ``desirable``; or why there is none."""
        row = self.conversation(sample)
        return _judged(self._sample.fitted(row, labels=False), row)

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What :meth:`fitted` gives each row; the tokenizer is given several conversations at once."""
        read = [self.conversation(row) for row in rows]
        return [_judged(fitted, row) for fitted, row in zip(self._sample.fitted_rows(read), read, strict=True)]

    def conversation(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """What the tokenizer is given: the row's ``messages``, none of the prompt's trained; beside its ``desirable``.

        Raises:
            DataError: the row is no conversation with an answer.
        """
        row = self.message_transform(sample)
        if not isinstance(row, Mapping) or not isinstance(row.get("desirable"), bool) or "messages" not in row:
            raise ColumnError(
                "The message_transform of a KTO data set returns 'messages' and 'desirable', true or false. "
                "torchpipe.data.LabelledToMessages makes them of such columns."
            )
        return {**row, "messages": _with_untrained_prompt(row["messages"])}


def _judged(fitted: Fitted, row: Mapping[str, Any]) -> Fitted:
    for made in fitted.samples:
        if "encoder_input" in made or "loss_weights" in made:
            raise DataError("A KTO data set is of text alone, and of messages whose weights are 0 or 1.")
    # A sample that was cut has labels of its own, the last one of a token that is gone. Those of a mask have none.
    judged = [{**made, "desirable": row["desirable"]} for made in fitted.samples]
    for made in judged:
        made.pop("labels", None)
    return fitted._replace(samples=judged)


def num_asked(messages: Sequence[Message]) -> int:
    """How many messages are the prompt: all up to the last one of the user.

    >>> num_asked([Message("user", "1 + 1?"), Message("assistant", "2")])
    1
    """
    return max((place for place, message in enumerate(messages) if message.role == "user"), default=-1) + 1


def _with_untrained_prompt(messages: Sequence[Message]) -> list[Message]:
    asked = num_asked(messages)
    if asked == len(messages):
        raise DataError(
            "The conversation ends with the user's message, so there is no answer to judge.", reason="empty"
        )
    return [*map(untrained, messages[:asked]), *messages[asked:]]
