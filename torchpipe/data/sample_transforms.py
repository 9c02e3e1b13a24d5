"""Rows to samples: the two transforms of a data set, one after the other, and the labels."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from torchpipe.data.conversations import validate_messages
from torchpipe.data.label_lists import labelled
from torchpipe.data.loss_weights import loss_weights
from torchpipe.data.messages import Message
from torchpipe.data.overflow import Fitted, OverflowPolicy, fit, without_limit
from torchpipe.data.protocols import Transform
from torchpipe.errors import ConfigError, DataError

_ROWS_AT_ONCE = 8
"""Rows that a tokenizer is given at once. More of them don't stay in a processor's cache while they are worked on."""


class SFTTransform:
    """Turns a row into a sample for supervised fine-tuning: ``tokens``, ``mask`` and ``labels``, lists of equal length.

    Labels are shifted here and nowhere else: ``labels[i]`` is ``tokens[i + 1]``, and -100 where that target is masked
    and at the last position. True in ``mask`` = not trained.

    Where the model transform gives ``token_weights``, a float for each token, and they are not all 0 or 1, the sample
    has ``loss_weights`` in their place: shifted as the labels are, so ``loss_weights[i]`` is the weight of
    ``labels[i]``, and 0 where that is -100. A token of weight 0 is masked.

    Args:
        message_transform: row to ``{"messages": [...]}``; None where rows hold messages already.
        model_transform: the tokenizer or multimodal transform; None leaves the message transform's result as it is.
        overflow: what becomes of rows that are too long; None leaves it to the model transform.

    Attributes:
        whole_transform: the model transform, without a length of its own where ``overflow`` is given.

    Raises:
        ConfigError: both are None, or there is no model transform whose rows ``overflow`` could shorten.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"whole_transform"})

    def __init__(
        self,
        message_transform: Transform | None = None,
        model_transform: Transform | None = None,
        *,
        overflow: OverflowPolicy | None = None,
    ) -> None:
        if message_transform is None and model_transform is None:
            raise ConfigError(
                "SFTTransform was given neither a message_transform nor a model_transform: give at least one."
            )
        self.message_transform = message_transform
        self.model_transform = model_transform
        self.overflow = overflow
        if overflow is not None and model_transform is None:
            raise ConfigError("overflow was given without a model_transform, so there are no tokens to count.")
        self.whole_transform = model_transform if overflow is None else without_limit(model_transform)
        self._makes_one = getattr(model_transform, "one_sample_a_row", True)
        if not self._makes_one and overflow is not None and overflow.overflow not in ("error", "drop"):
            raise ConfigError(
                f"overflow={overflow.overflow!r} cuts a row, and on_unproved={model_transform.on_unproved!r} of the "  # pyright: ignore
                "tokenizer makes several samples of it. Set overflow to 'error' or 'drop', or on_unproved to 'refuse'."
            )

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The sample of one row.

        Raises:
            DataError: the messages are not a valid conversation, or the model transform's result has no ``tokens`` and
                ``mask`` of equal length above 0; or ``overflow`` makes no sample of the row, or several.
        """
        fitted = self.fitted(sample)
        return fitted.samples[0] if self.overflow is None else fitted.only(self.overflow)

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The samples of one row, and why there is none; one where ``overflow`` is None.

        Args:
            labels: False leaves out those that follow from tokens and mask, for a caller that derives them for many
                samples at once (:func:`~torchpipe.data.sequences.trained_positions`). A sample that is a part of a row
                has them in any case, for its last one is a token of the next part.
        """
        fitted = self._fitted(sample)
        if not labels or self.model_transform is None:
            return fitted
        return fitted._replace(samples=[labelled(one) for one in fitted.samples])

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What :meth:`fitted` gives each row without labels, faster: a tokenizer is given several rows at once.

        Tokens and mask may be arrays then, uint32 and bool.

        Raises:
            TorchpipeError: a row's own error, which doesn't say of which row; :meth:`fitted` of each row tells.
        """
        if not hasattr(self.whole_transform, "as_arrays") or not self._makes_one:
            return [self._fitted(row) for row in rows]
        return [
            fitted
            for start in range(0, len(rows), _ROWS_AT_ONCE)
            for fitted in self._fitted_at_once(rows[start : start + _ROWS_AT_ONCE])
        ]

    def _fitted_at_once(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        transform: Any = self.whole_transform
        read = [self._read(row) for row in rows]
        samples = [self._finished(given) for given in transform.as_arrays(read)]
        policy = self.overflow
        if policy is None:
            return [Fitted(samples=[sample], num_tokens=len(sample["tokens"])) for sample in samples]
        return [
            fit(row, policy, partial(self._made_already, row, sample), transform)
            for row, sample in zip(read, samples, strict=True)
        ]

    def _made_already(self, row: Mapping[str, Any], sample: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
        """The sample of the row that is asked for."""
        return sample if asked is row else self._sample(asked)

    def _read(self, sample: Mapping[str, Any]) -> Mapping[str, Any]:
        row = sample if self.message_transform is None else _as_mapping(self.message_transform(sample), "message")
        if "messages" in row:
            _check_messages(row["messages"])
        return row

    def _fitted(self, sample: Mapping[str, Any]) -> Fitted:
        row = self._read(sample)
        if self.model_transform is None:
            return Fitted(samples=[dict(row)], num_tokens=0)
        if not self._makes_one:
            return self._several(row)
        if self.overflow is not None:
            return fit(row, self.overflow, self._sample, self.whole_transform)
        whole = self._sample(row)
        return Fitted(samples=[whole], num_tokens=len(whole["tokens"]))

    def _several(self, row: Mapping[str, Any]) -> Fitted:
        """The samples that a transform makes of a row which may become none or several."""
        transform: Any = self.whole_transform
        made = [self._finished(result) for result in transform.samples_of(row)]
        num_tokens = sum(len(sample["tokens"]) for sample in made)
        if not made:
            return Fitted(samples=[], left_out="unproved", num_tokens=0)
        if self.overflow is None:
            return Fitted(samples=made, num_tokens=num_tokens)
        fitted = [fit(row, self.overflow, lambda _, sample=sample: sample, transform) for sample in made]
        kept = [sample for part in fitted for sample in part.samples]
        return Fitted(samples=kept, left_out=None if kept else "too_long", num_tokens=num_tokens)

    def _sample(self, row: Mapping[str, Any]) -> dict[str, Any]:
        assert self.whole_transform is not None
        return self._finished(self.whole_transform(row))

    def _finished(self, given: Any) -> dict[str, Any]:
        """What the model transform gave, with weights in label space; labels of its own are no part of it."""
        result = dict(_as_mapping(given, "model"))
        if not ("tokens" in result and "mask" in result):
            raise DataError(
                f"The model_transform ({_name(self.model_transform)}) returned the keys {sorted(result)}. "
                "It has to return `tokens` and `mask`."
            )
        tokens, mask = result["tokens"], result["mask"]
        if len(tokens) == 0 or len(tokens) != len(mask):
            raise DataError(
                f"The model_transform ({_name(self.model_transform)}) returned {len(tokens)} tokens and {len(mask)} "
                "mask values. They have to be of equal length, above 0."
            )
        weights = result.pop("token_weights", None)
        if weights is not None:
            wanted = loss_weights(mask, weights)
            mask = result["mask"] = [bool(masked) or not weight for masked, weight in zip(mask, weights, strict=True)]
            if not set(wanted) <= {0, 1}:
                result["loss_weights"] = wanted
        result.pop("labels", None)
        return result


def _as_mapping(result: Any, kind: str) -> Mapping[str, Any]:
    if type(result) is not dict and not isinstance(result, Mapping):
        raise DataError(f"The {kind}_transform returned a {type(result).__name__}. It has to return a dict.")
    return result


def _check_messages(messages: Sequence[Message]) -> None:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise DataError(f"`messages` is a {type(messages).__name__}. It has to be a list of Message.")
    for index, message in enumerate(() if set(map(type, messages)) == {Message} else messages):
        if not isinstance(message, Message):
            raise DataError(
                f"Message {index} is a {type(message).__name__}, not a Message. Build messages with Message(role=..., "
                "content=...) or Message.from_dict, or use OpenAIToMessages as message_transform."
            )
    validate_messages(messages)


def _name(transform: object) -> str:
    return getattr(transform, "__name__", type(transform).__name__)
