"""One sample of a conversation that may give none or several."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from torchpipe.data.sequences import truncate
from torchpipe.data.trace import TokenTrace
from torchpipe.errors import DataError


class TokenizedConversation(NamedTuple):
    """One sample of a conversation.

    ``tokens`` and ``mask`` are of equal length, True in the mask = not trained. ``num_unproved`` counts the trained
    turns of which it isn't proved what the model would sample, ``num_cut`` the tokens that truncation left out.
    ``trace`` is None unless it was asked for; ``token_weights``, one for each token, unless messages weigh differently.
    """

    tokens: list[int]
    mask: list[bool]
    num_unproved: int = 0
    trace: TokenTrace | None = None
    num_cut: int = 0
    token_weights: list[float] | None = None

    def cut(self, max_seq_len: int | None, truncation_type: Literal["left", "right"]) -> "TokenizedConversation":
        """The first (``right``) or last (``left``) ``max_seq_len`` tokens of it; None keeps all."""
        if max_seq_len is None or len(self.tokens) <= max_seq_len:
            return self
        tokens, weights = truncate(self.tokens, max_seq_len, None, truncation_type), self.token_weights
        return self._replace(
            tokens=tokens,
            mask=truncate(self.mask, max_seq_len, None, truncation_type),
            trace=self.trace and self.trace.truncate(max_seq_len, truncation_type),
            num_cut=len(self.tokens) - len(tokens),
            token_weights=weights and truncate(weights, max_seq_len, None, truncation_type),
        )

    def as_sample(self) -> dict[str, Any]:
        """The sample as a model transform gives it; what there is nothing to say about is left out."""
        told = {
            "num_truncated": self.num_cut,
            "num_unproved_turns": self.num_unproved,
            "token_weights": self.token_weights,
        }
        return {**{key: value for key, value in told.items() if value}, "tokens": self.tokens, "mask": self.mask}


def the_only_one(samples: Sequence[TokenizedConversation], on_unproved: str) -> TokenizedConversation:
    """The sample of a conversation that gave one.

    Raises:
        DataError: it gave none, or several, by ``on_unproved``.
    """
    if len(samples) != 1:
        became = f"becomes {len(samples)} samples" if samples else "is left out"
        raise DataError(
            f"The conversation {became} by on_unproved={on_unproved!r}, where one sample is wanted. Use "
            "tokenize_conversation, or on_unproved 'refuse' or 'common_prefix'."
        )
    return samples[0]
