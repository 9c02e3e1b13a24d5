"""Samples of a conversation that a chat template rendered: which turns are trained, and what stands in the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from torchpipe.errors import DataError
from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.split_turn import SplitTurn, option_that_proves, split_turn
from torchpipe.tokenizers.jinja.turns import NO_STOP, Turn, TurnProver

OnUnproved = Literal["refuse", "split", "drop", "common_prefix"]
"""What becomes of a turn of which it can't be proved what the model would sample.

``refuse``: an error that names the turn and what is in the way. ``split``: a turn whose context the template rewrites
later on becomes a sample of its own, that ends with it; others are refused. ``drop``: the row is left out.
``common_prefix``: the turn starts where the rendered text first differs from the prompt, and is labelled unproved.
"""
ON_UNPROVED: tuple[str, ...] = get_args(OnUnproved)


@dataclass(frozen=True, kw_only=True)
class RenderedSample:
    """A rendering with the turns that are trained in it.

    Attributes:
        rendering: the text.
        turns: all assistant turns of which it is known where they start, in order; text is cut there.
        trained: messages whose turns are trained.
        num_unproved: trained turns that are not proved.
    """

    rendering: Rendering
    turns: Sequence[Turn]
    trained: frozenset[int]
    num_unproved: int = 0


def samples_of(
    rendering: Rendering, prover: TurnProver, trained: frozenset[int], on_unproved: OnUnproved
) -> list[RenderedSample]:
    """The samples of one conversation: none where it is dropped, several where turns are split off.

    Args:
        rendering: the whole conversation.
        prover: of the same conversation.
        trained: the assistant messages that are trained.
        on_unproved: see :data:`OnUnproved`.

    Raises:
        DataError: a trained turn is not proved and ``on_unproved`` refuses it.
    """
    turns: list[Turn] = []
    for turn in prover.iter_turns(rendering):
        if on_unproved == "refuse" and not turn.proved and turn.message in trained:
            raise _refusal(turn, prover, rendering, split_turn(prover, turn.message))
        turns.append(turn)
    unproved = [turn for turn in turns if not turn.proved and turn.message in trained]
    if not unproved:
        return [RenderedSample(rendering=rendering, turns=_proved(turns), trained=trained)]
    if on_unproved == "drop":
        return []
    if on_unproved == "common_prefix":
        known = [turn for turn in turns if turn.proved or turn.message in trained]
        return [RenderedSample(rendering=rendering, turns=known, trained=trained, num_unproved=len(unproved))]
    split: list[SplitTurn] = []
    for turn in unproved:
        own = split_turn(prover, turn.message)
        if own is None:
            raise _refusal(turn, prover, rendering, None)
        split.append(own)
    whole = trained - {turn.message for turn in unproved}
    samples = [RenderedSample(rendering=rendering, turns=_proved(turns), trained=whole)] if whole else []
    for own in split:
        only = frozenset([own.turn.message])
        samples.append(RenderedSample(rendering=own.rendering, turns=own.proved_turns(), trained=only))
    return samples


def _proved(turns: Sequence[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.proved]


def _refusal(turn: Turn, prover: TurnProver, rendering: Rendering, split: SplitTurn | None) -> DataError:
    ways = "'drop' leaves such rows out, 'common_prefix' trains from where the texts part, unproved"
    if split is not None:
        ways = f"'split' trains it in a sample that ends with it (packed data sets), {ways}"
    option = option_that_proves(prover, turn.message, len(rendering.rows))
    if option is not None:
        name, value = option
        ways = f"{ways}; or set template_kwargs: {{{name}: {str(value).lower()}}}, with which it is proved"
    if turn.why_not == NO_STOP and turn.message == len(rendering.rows) - 1:
        ways = f"{ways}; or set append_stop: true, which ends the row with the token that the template writes next"
    return DataError(
        f"Message {turn.message} (assistant) is not proved to be what the model would sample: {turn.why_not}. "
        f"Set on_unproved: {ways}; or don't train it (masking_strategy: train_on_last).",
        reason="unproved",
    )
