"""Rows with one answer and a label to samples."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torchpipe.data.label_lists import as_list, unshifted_label_list
from torchpipe.data.messages import Message
from torchpipe.data.overflow import Fitted, OverflowPolicy
from torchpipe.data.protocols import Transform
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.data.shared_prompt import untrained
from torchpipe.errors import ColumnError, DataError


class KTOTransform:
    """Turns a row into its tokens, its *unshifted* labels, and whether its answer is a desirable one.

    The answer is all that follows the last message of the user; what stands before is the prompt, and never trained.

    Args:
        message_transform: row to ``{"messages": [...], "desirable": bool}``, and ``tools``, if any.
        model_transform: the tokenizer.
        overflow: what becomes of rows that are too long: "error" or "truncate"; None leaves it to the tokenizer.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_sample"})

    def __init__(
        self, message_transform: Transform, model_transform: Transform, *, overflow: OverflowPolicy | None = None
    ) -> None:
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
        row = self.message_transform(sample)
        if not isinstance(row, Mapping) or not isinstance(row.get("desirable"), bool) or "messages" not in row:
            raise ColumnError(
                "The message_transform of a KTO data set returns 'messages' and 'desirable', true or false. "
                "torchpipe.data.LabelledToMessages makes them of such columns."
            )
        rest = {key: value for key, value in row.items() if key not in ("messages", "desirable")}
        [fitted] = self._sample.fitted_rows([{**rest, "messages": _with_untrained_prompt(row["messages"])}])
        made = fitted.samples[0] if self.overflow is None else fitted.only(self.overflow)
        if "encoder_input" in made or "loss_weights" in made:
            raise DataError("A KTO data set is of text alone, and of messages whose weights are 0 or 1.")
        tokens = as_list(made["tokens"])
        labels = unshifted_label_list(tokens, made["mask"])
        return {"input_ids": tokens, "labels": labels, "desirable": row["desirable"]}

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The one sample of a row, as :meth:`__call__` gives it."""
        made = self(sample)
        return Fitted(samples=[made], num_tokens=len(made["input_ids"]))

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What :meth:`fitted` gives each row."""
        return [self.fitted(row) for row in rows]


def _with_untrained_prompt(messages: Sequence[Message]) -> list[Message]:
    asked = max((place for place, message in enumerate(messages) if message.role == "user"), default=-1)
    if asked == len(messages) - 1:
        raise DataError(
            "The conversation ends with the user's message, so there is no answer to judge.", reason="empty"
        )
    return [*map(untrained, messages[: asked + 1]), *messages[asked + 1 :]]
