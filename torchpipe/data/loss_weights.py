"""How much each token counts in the loss, where messages weigh differently."""

from collections.abc import Iterable, Sequence
from math import isfinite

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.messages import Message
from torchpipe.errors import DataError


def are_weighted(messages: Iterable[Message]) -> bool:
    """True when a trained message has a weight that a mask can't say: neither 0 nor 1."""
    return any(message.weight not in (None, 0, 1) and not message.masked for message in messages)


def token_weights(messages: Sequence[Message], message_of_token: Iterable[int]) -> list[float]:
    """The weight of each token's message; 1.0 where a message has none, or the token belongs to none.

    Args:
        messages: the conversation.
        message_of_token: for each token the index of its message, -1 for the document's own (as in
            :attr:`~torchpipe.data.trace.TokenTrace.message`).

    >>> token_weights([Message("user", "Hi"), Message("assistant", "Hello", weight=0.5)], [-1, 0, 1, 1])
    [1.0, 1.0, 0.5, 0.5]
    """
    weights = [1.0 if message.weight is None else float(message.weight) for message in messages]
    weights.append(1.0)  # of the document's own, at -1
    return [weights[index] for index in message_of_token]


def loss_weights(mask: Sequence[bool], weights: Sequence[float]) -> list[float]:
    """The weights of the labels: at each position the weight of the token that it is to predict. ::

        weights    1   1   .5   .5
        mask       T   T   F    F       True: not trained
        result     0  .5  .5    0

    Args:
        mask: of n tokens, True where the token must not be trained on.
        weights: of the same tokens.

    Returns:
        n floats, shifted as :func:`~torchpipe.data.next_token_labels` shifts: 0 where the label is not trained, and at
        the last position.

    Raises:
        DataError: the lengths differ, or a weight is no number of 0 or above.

    >>> loss_weights([True, True, False, False], [1.0, 1.0, 0.5, 0.5])
    [0.0, 0.5, 0.5, 0.0]
    """
    if len(mask) != len(weights):
        raise DataError(f"A sample has {len(weights)} token weights and {len(mask)} mask values; it needs as many.")
    wrong = next((weight for weight in weights if not isinstance(weight, int | float) or not isfinite(weight)), None)
    if wrong is not None or min(weights, default=0) < 0:
        raise DataError(f"A token weight is {min(weights) if wrong is None else wrong!r}. It must be 0 or above.")
    shifted = [0.0 if masked else float(weight) for masked, weight in zip(mask[1:], weights[1:], strict=True)]
    return [*shifted, 0.0] if len(mask) else []


def weights_or_ones(labels: Sequence[int], weights: Sequence[float] | None) -> Sequence[float]:
    """A sample's own loss weights, or those that its labels stand for: 1.0 where they are trained, 0.0 elsewhere."""
    return [float(label != IGNORE_INDEX) for label in labels] if weights is None else weights
