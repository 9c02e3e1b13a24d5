"""What becomes of a row that has more than ``max_seq_len`` tokens: one policy, applied once to the whole row."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.cuts import cut_on_a_side, split_row
from torchpipe.data.fewer_messages import longest_that_fits, prefixes_around_calls, without_oldest_turns
from torchpipe.data.label_lists import labelled
from torchpipe.data.whole_row import Cut, WholeRow
from torchpipe.errors import ConfigError, DataError

Overflow = Literal["error", "drop", "truncate", "split"]
"""What becomes of a row that is too long: an error that names it; it is left out and counted; it is cut; it becomes
several samples, one after the other, which hold each of its tokens once."""

TruncationType = Literal["right", "left", "turns"]
"""Where ``truncate`` cuts: the end, the beginning, or the oldest turns, so that system, tools and the newest stay."""

StopToken = Literal["cut", "keep"]
"""What becomes of the stop token of a turn that a cut on the right goes through. ``cut``: it goes with the rest, and
the model is not taught to stop there. ``keep``: it takes the last place that is kept, and is trained as it was."""

LeftOut = Literal["too_long", "nothing_trained", "unproved", "filtered", "dropped"]
"""Why a row gives no sample: the policy drops long rows; what the cut leaves has no trained token; the tokenizer can't
prove what the model would sample, and drops such rows; a filter leaves it out; its processor gives none."""


@dataclass(frozen=True, kw_only=True)
class OverflowPolicy:
    """What becomes of rows that are too long.

    Attributes:
        max_seq_len: the most tokens a sample may have.
        overflow: see :data:`Overflow`.
        truncation_type: see :data:`TruncationType`; only for "truncate".
        stop_token: see :data:`StopToken`; only for "truncate".

    Raises:
        ConfigError: a value is not possible.
    """

    max_seq_len: int
    overflow: Overflow = "error"
    truncation_type: TruncationType = "right"
    stop_token: StopToken = "cut"

    def __post_init__(self) -> None:
        if isinstance(self.max_seq_len, bool) or not isinstance(self.max_seq_len, int) or self.max_seq_len < 1:
            raise ConfigError(f"max_seq_len is {self.max_seq_len!r}. Give a whole number of tokens above 0.")
        for name, value, allowed in (
            ("overflow", self.overflow, get_args(Overflow)),
            ("truncation_type", self.truncation_type, get_args(TruncationType)),
            ("stop_token", self.stop_token, get_args(StopToken)),
        ):
            if value not in allowed:
                raise ConfigError(f"{name} is {value!r}. It is one of {listed(allowed)}.{did_you_mean(value, allowed)}")

    @property
    def gives_one(self) -> bool:
        """Whether each row gives one sample, or an error."""
        return self.overflow in ("error", "truncate")


def overflow_policy(
    transform: Any,
    overflow: Overflow | None,
    *,
    max_seq_len: int | None = None,
    truncation_type: TruncationType | None = None,
    stop_token: StopToken | None = None,
) -> OverflowPolicy | None:
    """The policy that these options ask for; None where ``overflow`` is, which leaves it to the tokenizer.

    Args:
        transform: the model transform, whose max_seq_len and truncation_type hold where none is given.
        overflow: see :data:`Overflow`.
        max_seq_len: the most tokens a sample may have.
        truncation_type: see :data:`TruncationType`.
        stop_token: see :data:`StopToken`; "cut" where none is given.

    Raises:
        ConfigError: an option without effect, no max_seq_len anywhere, or a value that is not possible.
    """
    given = {"truncation_type": truncation_type, "stop_token": stop_token}
    if overflow is None:
        without_effect = [name for name, value in {"max_seq_len": max_seq_len, **given}.items() if value is not None]
        if without_effect:
            raise ConfigError(
                f"{listed(without_effect)} of a data set has no effect without overflow. Set overflow to one of "
                f"{listed(get_args(Overflow))}, or set it on the tokenizer."
            )
        return None
    without_effect = [name for name, value in given.items() if value is not None]
    if without_effect and overflow in ("error", "drop", "split"):
        raise ConfigError(f"{listed(without_effect)} has no effect with overflow={overflow!r}, only with 'truncate'.")
    limit = max_seq_len if max_seq_len is not None else getattr(transform, "max_seq_len", None)
    if limit is None:
        raise ConfigError(f"overflow={overflow!r} needs a length: set max_seq_len on the data set or on the tokenizer.")
    return OverflowPolicy(
        max_seq_len=limit,
        overflow=overflow,
        truncation_type=truncation_type or getattr(transform, "truncation_type", "right"),
        stop_token=stop_token or "cut",
    )


def without_limit(transform: Any) -> Any:
    """The model transform, or a copy of it that cuts nothing: its max_seq_len, and its tokenizer's, are None.

    Raises:
        ConfigError: its max_seq_len can't be set.
    """
    inner = getattr(transform, "tokenizer", None)
    changes = {"max_seq_len": None} if getattr(transform, "max_seq_len", None) is not None else {}
    if getattr(inner, "max_seq_len", None) is not None:
        changes["tokenizer"] = without_limit(inner)
    if not changes:
        return transform
    whole = copy(transform)
    try:
        for name, value in changes.items():
            setattr(whole, name, value)
    except AttributeError:
        raise ConfigError(
            f"overflow needs whole rows, and max_seq_len of {type(transform).__name__} can't be set to None. Build it "
            "without one, and give max_seq_len to the data set."
        ) from None
    return whole


class Fitted(NamedTuple):
    """What one row gives: its samples, none longer than max_seq_len.

    Attributes:
        samples: none, one, or (``split``) several. A sample that is not the whole row has a
            :class:`~torchpipe.data.whole_row.Cut` under ``cut``; one that was truncated ``num_truncated``, and
            ``lost_stop`` where the last trained turn lost its stop token.
        left_out: why there is none.
        num_tokens: of the whole row.
    """

    samples: list[dict[str, Any]]
    num_tokens: int
    left_out: LeftOut | None = None

    def only(self, policy: OverflowPolicy) -> dict[str, Any]:
        """The one sample.

        Raises:
            DataError: there is none, or more than one.
        """
        if len(self.samples) == 1:
            return self.samples[0]
        told = f"It has {self.num_tokens} tokens, and max_seq_len is {policy.max_seq_len}"
        if self.left_out == "nothing_trained":
            raise DataError(
                f"{told}; what truncation_type={policy.truncation_type!r} keeps of it has no trained token. Raise "
                "max_seq_len, cut another side, drop the row with filter_fn, or pack, which leaves such rows out."
            )
        if policy.overflow == "truncate":
            raise DataError(
                f"{told}; its calls and their results, which stay together, leave no place for a cut. Raise "
                "max_seq_len, drop the row with filter_fn, or pack, which leaves such rows out."
            )
        became = "several samples" if self.samples else "no sample"
        raise DataError(f"{told}: overflow={policy.overflow!r} makes {became} of it, and one was asked for.")


def fit(
    row: Mapping[str, Any], policy: OverflowPolicy, to_sample: Callable[[Mapping[str, Any]], dict[str, Any]], parts: Any
) -> Fitted:
    """The samples of a row. A row that fits comes back as ``to_sample`` made it; parts of one have their labels.

    Args:
        row: what the model transform is given; ``turns`` and rows with calls need its ``messages``.
        policy: what becomes of it if it is too long.
        to_sample: the row to its whole sample: ``tokens`` and ``mask``, with all that belongs to them.
        parts: the model transform, asked where messages and media stand, and which tokens stop.

    Raises:
        DataError: it is too long, and the policy is "error"; or it can't be told where a call or a picture stands.
        MediaError: a cut would lose a picture, and the transform's ``media_overflow`` is "error".
    """
    sample = to_sample(row)
    num_tokens = len(sample["tokens"])
    if "num_truncated" in sample:
        raise ConfigError(
            f"{type(parts).__name__} cut the row by itself, and the data set has overflow={policy.overflow!r}. Leave "
            "the length to one of them: overflow needs a transform that gives whole rows."
        )
    if num_tokens <= policy.max_seq_len:
        return Fitted(samples=[sample], num_tokens=num_tokens)
    if policy.overflow == "error":
        raise DataError(
            f"{num_tokens} tokens are more than max_seq_len={policy.max_seq_len}. Raise it, set overflow to 'truncate' "
            "(packed: also 'drop' or 'split'), or drop the row with filter_fn.",
            reason="too_long",
        )
    if policy.overflow == "drop":
        return Fitted(samples=[], left_out="too_long", num_tokens=num_tokens)
    whole = WholeRow(row=row, sample=labelled(sample), parts=parts)
    if policy.overflow == "split":
        return Fitted(samples=split_row(whole, policy.max_seq_len), num_tokens=num_tokens)
    kept = _truncated(whole, policy, lambda shorter: labelled(to_sample(shorter)))
    if kept is None:
        return Fitted(samples=[], left_out="too_long", num_tokens=num_tokens)
    kept["num_truncated"] = num_tokens - len(kept["tokens"])
    if all(label == IGNORE_INDEX for label in kept["labels"]):
        return Fitted(samples=[], left_out="nothing_trained", num_tokens=num_tokens)
    return Fitted(samples=[kept], num_tokens=num_tokens)


def _truncated(
    whole: WholeRow, policy: OverflowPolicy, to_sample: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    """The row's sample, cut; None where calls and their results leave no place for a cut."""
    side = policy.truncation_type
    # Where it isn't known which tokens are a call's, no cut goes between tokens: messages are left out as a whole.
    by_messages = bool(whole.calls) and whole.places is None
    if side != "turns" and not by_messages:
        return cut_on_a_side(whole, policy.max_seq_len, side, keep_stop=policy.stop_token == "keep")
    choices = prefixes_around_calls(whole.messages) if side == "right" else without_oldest_turns(whole.messages)
    found = longest_that_fits(whole, choices, policy.max_seq_len, to_sample)
    on_the_right = replace(policy, truncation_type="right")
    if found is None:
        return None if by_messages and side == "right" else _truncated(whole, on_the_right, to_sample)
    indices, sample = found
    fewer = WholeRow(row=whole.with_messages(indices), sample=sample, parts=whole.parts)
    num_images = whole.num_images - fewer.num_images
    if len(sample["tokens"]) <= policy.max_seq_len:
        kept = {**sample, "cut": Cut(start=0, stop=len(sample["tokens"]), messages=indices, side=side)}
    else:
        kept = _truncated(fewer, on_the_right, to_sample)
        if kept is None:
            return None
        kept["cut"] = kept["cut"].of_messages(indices, side)
    return {**kept, "num_images_dropped": num_images + kept.get("num_images_dropped", 0)} if num_images else kept
