"""One sample of a conversation that a chat template wrote."""

from typing import Any, NamedTuple

from torchpipe.data.trace import TokenTrace


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

    def as_sample(self) -> dict[str, Any]:
        """The sample as a model transform gives it; what there is nothing to say about is left out."""
        told = {
            "num_truncated": self.num_cut,
            "num_unproved_turns": self.num_unproved,
            "token_weights": self.token_weights,
        }
        return {**{key: value for key, value in told.items() if value}, "tokens": self.tokens, "mask": self.mask}
