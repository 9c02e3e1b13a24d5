"""A turn that the whole row doesn't prove, in the conversation that ends with it."""

from dataclasses import dataclass, replace

from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.turns import Turn, TurnProver


@dataclass(frozen=True, kw_only=True)
class SplitTurn:
    """A turn, and the conversation that ends with it and proves it.

    Attributes:
        rendering: the conversation.
        turn: its last.
        prover: of the turns before it.
    """

    rendering: Rendering
    turn: Turn
    prover: TurnProver

    def proved_turns(self) -> list[Turn]:
        """The turns of the conversation that are proved, this one last; text is cut where they start."""
        before = [turn for turn in self.prover.turns_of(self.rendering) if turn.message != self.turn.message]
        return [*(turn for turn in before if turn.proved), self.turn]


def split_turn(prover: TurnProver, message: int) -> SplitTurn | None:
    """The conversation that ends with ``message``, where that proves its turn; None where nothing does.

    It is written as the row is, or else with the thinking option that the reply implies: there are templates that write
    reasoning only with it (DeepSeek V4).
    """
    implied = prover.implied_options(message)
    for option in (None, *implied):
        used = prover if option is None else prover.with_option(option)
        found = used.proved_in(message + 1, message)
        if found is not None:
            rendering, turn = found
            turn = replace(turn, proof="split", option=option or turn.option)
            return SplitTurn(rendering=rendering, turn=turn, prover=used)
    return None


def option_that_proves(prover: TurnProver, message: int, num_messages: int) -> tuple[str, bool] | None:
    """The thinking option, and its value, with which the first messages would be proved at ``message``."""
    implied = prover.implied_options(message)
    for option in (*implied, *((name, not value) for name, value in implied)):
        if prover.with_option(option).proved_in(num_messages, message) is not None:
            return option
    return None
