"""Cutting a pair that is too long: its prompt the same way on both sides, then each response."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from torchpipe.data.cuts import stop_beyond, stop_ids
from torchpipe.data.fewer_messages import without_oldest_turns
from torchpipe.data.overflow import Fitted
from torchpipe.data.pair_policy import PairPolicy
from torchpipe.data.shared_prompt import Conversations
from torchpipe.data.whole_row import Cut
from torchpipe.errors import DataError

Rendered = Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
"""The two conversations to their samples."""


def prompt_len(samples: Sequence[Mapping[str, Any]]) -> int:
    """The tokens that two samples begin with, and neither trains.

    >>> sides = [{"tokens": [1, 2, 3, last], "mask": [True, True, False, False]} for last in (4, 5)]
    >>> prompt_len(sides)
    2
    """
    one, other = (np.asarray(sample["tokens"]) for sample in samples)
    length = min(len(one), len(other))
    untrained = np.logical_and(*(np.asarray(sample["mask"], dtype=np.bool_)[:length] for sample in samples))
    shared = (one[:length] == other[:length]) & untrained
    return length if shared.all() else int(np.argmin(shared))


@dataclass(frozen=True, kw_only=True, eq=False)
class PairCutter:
    """Makes pairs short enough.

    Attributes:
        policy: the limits, and what becomes of pairs that are longer.
        render: two conversations to their samples.
        transform: the tokenizer, asked which tokens stop.
    """

    policy: PairPolicy
    render: Rendered
    transform: Any

    def fitted(self, pair: Conversations, samples: list[dict[str, Any]]) -> Fitted:
        """The pair as it is, or cut, or left out.

        Raises:
            DataError: it is too long, and the policy is "error".
        """
        policy, num_tokens = self.policy, sum(len(sample["tokens"]) for sample in samples)
        if policy.overflow is None or self._fits(samples):
            return Fitted(samples=samples, num_tokens=num_tokens)
        if policy.overflow == "error":
            raise DataError(
                f"{self._lengths(samples)}: more than {self._limits()}. Raise it, set overflow to 'truncate' (cache or "
                "packed: also 'drop'), or drop the row with filter_fn.",
                reason="too_long",
            )
        cut = self._truncated(pair, samples) if policy.overflow == "truncate" else None
        if cut is None:
            return Fitted(samples=[], left_out="too_long", num_tokens=num_tokens)
        for whole, sample in zip(samples, cut, strict=True):
            if num_lost := len(whole["tokens"]) - len(sample["tokens"]):
                sample["num_truncated"] = num_lost
        if any(np.asarray(sample["mask"])[1:].all() for sample in cut):
            return Fitted(samples=[], left_out="nothing_trained", num_tokens=num_tokens)
        return Fitted(samples=cut, num_tokens=num_tokens)

    def _fits(self, samples: Sequence[Mapping[str, Any]]) -> bool:
        prompt, lengths = prompt_len(samples), [len(sample["tokens"]) for sample in samples]
        return (
            max(lengths) <= _limit(self.policy.max_seq_len)
            and prompt <= _limit(self.policy.max_prompt_len)
            and max(lengths) - prompt <= _limit(self.policy.max_response_len)
        )

    def _truncated(self, pair: Conversations, samples: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """The samples, short enough; None where the prompt leaves no token of a response."""
        longest = self.policy.max_prompt_len
        if longest is not None and prompt_len(samples) > longest:
            by_turns = self.policy.prompt_truncation == "turns"
            found = self._with_fewer_turns(pair, longest) if by_turns else _on_the_left(samples, longest)
            if found is None:
                return None
            samples = found
        prompt = prompt_len(samples)
        room = min(_limit(self.policy.max_response_len), _limit(self.policy.max_seq_len) - prompt)
        return None if room < 1 else [self._on_the_right(sample, prompt + room) for sample in samples]

    def _with_fewer_turns(self, pair: Conversations, longest: int) -> list[dict[str, Any]] | None:
        """The samples without the oldest turns of the prompt, as many as have to go; None where none are left to go."""
        last = len(pair.prompt)
        for messages in without_oldest_turns([*pair.prompt, *pair.chosen[:1]]):
            kept = [place for place in messages if place < last]
            samples = self.render(pair.rows(kept))
            if prompt_len(samples) <= longest:
                sides = (pair.chosen, pair.rejected)
                return [
                    {**sample, "cut": _of_turns(sample, [*kept, *range(last, last + len(side))])}
                    for sample, side in zip(samples, sides, strict=True)
                ]
        return None

    def _on_the_right(self, sample: dict[str, Any], stop: int) -> dict[str, Any]:
        tokens, mask = sample["tokens"], sample["mask"]
        if len(tokens) <= stop:
            return dict(sample)
        before: Cut = sample.get("cut") or Cut(start=0, stop=len(tokens), side="right")
        kept = replace(before, stop=before.start + stop, side="both" if "cut" in sample else "right")
        lost = stop_beyond(tokens, mask, stop, stop_ids(self.transform))
        cut = {**sample, "tokens": tokens[:stop], "mask": mask[:stop], "cut": kept}
        if lost is None:
            return cut
        # Without a trained token before it, the stop token would teach to answer nothing.
        if self.policy.stop_token == "cut" or stop < 2 or mask[stop - 2]:
            return {**cut, "lost_stop": True}
        cut["tokens"] = [*map(int, tokens[: stop - 1]), int(tokens[lost])]
        cut["mask"] = [*map(bool, mask[: stop - 1]), False]
        cut["cut"] = replace(kept, stop_from=before.start + lost)
        return cut

    def _lengths(self, samples: Sequence[Mapping[str, Any]]) -> str:
        prompt = prompt_len(samples)
        chosen, rejected = (len(sample["tokens"]) - prompt for sample in samples)
        return f"The prompt has {prompt} tokens, the chosen response {chosen} and the rejected one {rejected}"

    def _limits(self) -> str:
        names = ("max_seq_len", "max_prompt_len", "max_response_len")
        given = ((name, getattr(self.policy, name)) for name in names)
        return ", ".join(f"{name}={limit}" for name, limit in given if limit is not None)


def _limit(given: int | None) -> int:
    return sys.maxsize if given is None else given


def _on_the_left(samples: Sequence[dict[str, Any]], longest: int) -> list[dict[str, Any]]:
    start = prompt_len(samples) - longest
    return [
        {
            **sample,
            "tokens": sample["tokens"][start:],
            "mask": sample["mask"][start:],
            "cut": Cut(start=start, stop=len(sample["tokens"]), side="left"),
        }
        for sample in samples
    ]


def _of_turns(sample: Mapping[str, Any], messages: Sequence[int]) -> Cut:
    return Cut(start=0, stop=len(sample["tokens"]), messages=tuple(messages), side="turns")
