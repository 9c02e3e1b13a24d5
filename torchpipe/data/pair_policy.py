"""What becomes of a pair of answers that compares nothing, or is too long."""

from dataclasses import dataclass
from typing import Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.overflow import StopToken
from torchpipe.errors import ConfigError

OnFault = Literal["refuse", "keep"]
"""Of a pair whose answers are equal, or whose prompts differ: it is an error, which the row policy handles; or it is
used as it is."""

PairOverflow = Literal["error", "drop", "truncate"]
"""What becomes of a pair that is too long: an error that names it; it is left out; it is cut."""

PromptTruncation = Literal["left", "turns"]
"""What a prompt that is cut loses: its first tokens, wherever that cut falls; or its oldest turns, so that what the
system says and the newest turns stay as the chat format writes them. Its end, with the question, always stays."""


@dataclass(frozen=True, kw_only=True)
class PairPolicy:
    """What becomes of pairs that can't be used as they are.

    The prompt of a pair is what both conversations begin with; each response is all that follows. With "truncate" the
    prompt is cut to ``max_prompt_len``, the same way in both, then each response on the right to ``max_response_len``
    and to what the prompt leaves of ``max_seq_len``. A pair whose prompt leaves no token of a response, or has no turn
    left to lose, is left out as too long.

    Attributes:
        on_equal: of answers that are equal, so that nothing is preferred.
        on_prompts_differ: of conversations that differ before an answer.
        overflow: see :data:`PairOverflow`; None leaves the length to the tokenizer, which cuts each side by itself.
        max_seq_len: the most tokens of a side.
        max_prompt_len: the most tokens of the prompt.
        max_response_len: the most tokens of a response.
        prompt_truncation: see :data:`PromptTruncation`.
        stop_token: whether a response that is cut keeps its stop token; see :data:`~torchpipe.data.overflow.StopToken`.

    Raises:
        ConfigError: a value is not possible, or has no effect.

    >>> PairPolicy(overflow="truncate", max_seq_len=1024, max_prompt_len=512).prompt_truncation
    'left'
    """

    on_equal: OnFault = "refuse"
    on_prompts_differ: OnFault = "refuse"
    overflow: PairOverflow | None = None
    max_seq_len: int | None = None
    max_prompt_len: int | None = None
    max_response_len: int | None = None
    prompt_truncation: PromptTruncation = "left"
    stop_token: StopToken = "cut"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("on_equal", get_args(OnFault)),
            ("on_prompts_differ", get_args(OnFault)),
            ("overflow", (None, *get_args(PairOverflow))),
            ("prompt_truncation", get_args(PromptTruncation)),
            ("stop_token", get_args(StopToken)),
        ):
            if (value := getattr(self, name)) not in allowed:
                words = [word for word in allowed if word is not None]
                raise ConfigError(
                    f"{name} of a preference data set is {value!r}. It is one of {listed(words)}."
                    f"{did_you_mean(value, words)}"
                )
        limits = {name: getattr(self, name) for name in ("max_seq_len", "max_prompt_len", "max_response_len")}
        for name, limit in limits.items():
            if limit is not None and (type(limit) is not int or limit < 1):
                raise ConfigError(f"{name} is {limit!r}. Give a whole number of tokens above 0.")
        given = [name for name, limit in limits.items() if limit is not None]
        if self.overflow is None and given:
            raise ConfigError(
                f"{listed(given)} of a data set has no effect without overflow. Set overflow to one of "
                f"{listed(get_args(PairOverflow))}."
            )
        if self.overflow is not None and not given:
            raise ConfigError(
                f"overflow={self.overflow!r} needs a length: set max_seq_len, max_prompt_len or max_response_len."
            )
        if self.overflow != "truncate" and (self.prompt_truncation != "left" or self.stop_token != "cut"):
            raise ConfigError("prompt_truncation and stop_token have no effect without overflow='truncate'.")

    @property
    def is_whole(self) -> bool:
        """Whether the tokenizer is to give whole rows, which are cut afterwards."""
        return self.overflow is not None
