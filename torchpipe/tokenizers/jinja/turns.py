"""What the model samples in each assistant turn of a rendered conversation, proved or refused.

The reply to ``messages[:k]`` starts where ``render(messages[:k], add_generation_prompt=True)`` ends: that is the text a
server feeds to the model. Where the template's syntax and its reading of the conversation show what that text is
(``causal``), the one render is enough; otherwise the prompt is rendered and compared (``exact``). A template that
rewrites history gives a reply another context later on; the reply can then be trained in a conversation that ends with
it (``split``).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torchpipe.data.openai_dicts import REASONING_KEYS
from torchpipe.errors import TorchpipeError
from torchpipe.tokenizers.jinja.coverage import lost_number, shown, what_is_lost
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import ControlSpan, Rendering
from torchpipe.tokenizers.jinja.stop_token import Ending, kind_of_turn, stop_token
from torchpipe.tokenizers.jinja.syntax import PROMPT_FLAG

_TOO_MANY = "the row has more turns than max_exact_turns whose prompts have to be rendered one by one"

NO_STOP = "the template writes no stop token after it"
"""Why a turn is refused that has no end."""

_TOOLS_LOST = "the row offers tools, and the template writes none of them"

Proof = Literal["causal", "exact", "split", "none"]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """An assistant turn of a rendered conversation.

    Attributes:
        message: its index.
        start, stop: characters [start, stop) of the text are what the model samples. Not proved: from where the
            rendered turn first differs from the prompt; where an earlier message already does, from the end of what
            the turn's own text shares with the end of the prompt.
        stop_start: where the stop token at the end of them starts; ``stop`` where there is none.
        proof: how it is known; "none" where it isn't.
        why_not: what the proof failed on, as words; empty for proved turns.
        option: the template option that follows the row, and its value, with which the prompt was rendered; a split
            turn's whole conversation, where that is what proves it.
    """

    message: int
    start: int
    stop: int
    stop_start: int
    proof: Proof
    why_not: str = ""
    option: tuple[str, bool] | None = None

    @property
    def proved(self) -> bool:
        """Whether it is known what the model samples."""
        return self.proof != "none"


class TurnProver:
    """Finds the turns of one conversation.

    Args:
        template: the chat template.
        messages: the conversation as dicts.
        tools: the tool schemas, as the template takes them.
        options: further names that the template reads.
        controls_in: finds the control tokens in the template's own text of a rendering.
        stop_texts: control tokens at which sampling stops.
        max_exact_turns: the most turns whose prompts are rendered to be compared; None is no limit.
        follows_row: whether prompts are also tried with the thinking option that the row implies.
        endings: what a last turn without a stop token gets, by
            :func:`~torchpipe.tokenizers.jinja.stop_token.kind_of_turn`; nothing by default.
    """

    def __init__(
        self,
        template: ProvableTemplate,
        messages: Sequence[Mapping[str, Any]],
        tools: Any,
        options: Mapping[str, Any],
        *,
        controls_in: Callable[[Rendering], Sequence[ControlSpan]],
        stop_texts: frozenset[str],
        max_exact_turns: int | None = None,
        follows_row: bool = True,
        endings: Mapping[str, Ending] | None = None,
    ) -> None:
        self._template = template
        self._messages = messages
        self._tools = tools
        self._options = options
        self._controls_in = controls_in
        self._stop_texts = stop_texts
        self._max_exact_turns = max_exact_turns
        self._endings = endings or {}
        self._exact_turns: set[int] = set()
        self._rendered: dict[tuple[int, bool, tuple[str, bool] | None], str] = {}
        thinking = template.thinking_options
        self._option_names = sorted(thinking - options.keys()) if thinking and follows_row else []

    def rendering_of(self, num_messages: int) -> Rendering:
        """The conversation of the first messages; its last turn gets the ending that it lacks, where that is asked for.

        It does where what the template wrote after its last string begins as in the middle of a conversation.

        Raises:
            TokenizerError: the template refuses them, or fails.
        """
        rendering = self._template.trace(self._messages[:num_messages], self._tools, False, self._options)
        last = self._messages[num_messages - 1]
        ending = self._endings.get(kind_of_turn(last))
        if ending is not None and last["role"] == "assistant":
            turn = self.turns_of(rendering, only=num_messages - 1)[0]
            written = rendering.text[turn.stop :]
            if turn.stop == turn.stop_start and ending.before.startswith(written):
                rendering.append(ending.before[len(written) :], ending.control, num_messages - 1)
        return rendering

    def turns_of(self, rendering: Rendering, *, only: int | None = None) -> list[Turn]:
        """The assistant turns of a rendering of all messages up to some message, in order.

        Args:
            rendering: the conversation, or its beginning.
            only: the message whose turn alone is wanted.
        """
        return list(self.iter_turns(rendering, only=only))

    def iter_turns(self, rendering: Rendering, *, only: int | None = None) -> Iterator[Turn]:
        """The same, one after the other: a reader who stops spares the proofs of the others."""
        controls = rendering.controls
        if controls is None:
            controls = rendering.controls = self._controls_in(rendering)
        lost_tools = bool(self._tools) and not rendering.writes_tools
        for index in range(len(rendering.rows)):
            if self._messages[index]["role"] == "assistant" and only in (None, index):
                turn = self._turn(rendering, controls, index)
                yield replace(turn, proof="none", why_not=_TOOLS_LOST) if lost_tools and turn.proved else turn

    def proved_in(self, num_messages: int, message: int) -> tuple[Rendering, Turn] | None:
        """The conversation of the first messages, and its turn ``message``; None where it isn't proved there."""
        try:
            rendering = self.rendering_of(num_messages)
        except TorchpipeError:
            return None  # the template wants other messages than these: they prove nothing
        turn = self.turns_of(rendering, only=message)[0]
        return (rendering, turn) if turn.proved else None

    def implied_options(self, message: int) -> list[tuple[str, bool]]:
        """The thinking options that the caller hasn't set, with the value that the reply implies."""
        implied = has_reasoning(self._messages[message])
        return [(name, implied) for name in self._option_names]

    def with_option(self, option: tuple[str, bool]) -> "TurnProver":
        """The prover of the same conversation, written with ``option`` throughout."""
        prover = TurnProver(
            self._template,
            self._messages,
            self._tools,
            self._with(option),
            controls_in=self._controls_in,
            stop_texts=self._stop_texts,
            max_exact_turns=self._max_exact_turns,
            follows_row=False,
            endings=self._endings,
        )
        prover._exact_turns = self._exact_turns
        return prover

    def _options_to_try(self, index: int) -> list[tuple[str, bool] | None]:
        """What the row implies comes first, then the template's default, then the other mode of thinking."""
        implied = self.implied_options(index)
        return [*implied, None, *((name, not value) for name, value in implied)]

    def _turn(self, rendering: Rendering, controls: Sequence[ControlSpan], index: int) -> Turn:
        """The turn by the first option that proves it; where none does, by the one that gets furthest.

        That is the first whose prompt the conversation holds, or else the template's default.
        """
        furthest: Turn | None = None
        starts_known = False
        for option in self._options_to_try(index):
            turn, starts = self._turn_with(rendering, controls, index, option)
            if turn.proved:
                return turn
            if furthest is None or (option is None and not starts_known) or (starts and not starts_known):
                furthest, starts_known = turn, starts
        assert furthest is not None
        return furthest

    def _turn_with(
        self, rendering: Rendering, controls: Sequence[ControlSpan], index: int, option: tuple[str, bool] | None
    ) -> tuple[Turn, bool]:
        """The turn, its prompt rendered with the option, and whether it is known where it starts."""
        start, proof, fault = self._start(rendering, index, option)
        starts = not fault
        if not starts:
            start = _before_control(controls, start)
        end = rendering.end_of_turn(index, start)
        content_end = rendering.content_end(index, start, end)
        stop = stop_token(rendering, controls, content_end, end, self._stop_texts)
        if not fault and rendering.has_unknown:
            fault = "the template changes text in a way that can't be followed"
        if not fault and stop is None:
            fault = NO_STOP
        if not fault and stop is not None:
            lost = what_is_lost(rendering, index, start, stop.start)
            message = self._messages[index]
            if not lost and message.get("tool_calls"):
                lost = lost_number(message, rendering.text[start : stop.start])
            fault = lost or ""
        if not fault and stop is not None:
            fault = self._what_changes(rendering, index, min(stop.stop, end, rendering.num_written), option)
        turn = Turn(
            message=index,
            start=start,
            stop=max(start, content_end if stop is None else stop.stop),
            stop_start=max(start, content_end if stop is None else stop.start),
            proof="none" if fault else proof,
            why_not=fault,
            option=option,
        )
        return turn, starts

    def _start(self, rendering: Rendering, index: int, option: tuple[str, bool] | None) -> tuple[int, Proof, str]:
        """Where the reply starts, how that is known, and what speaks against it."""
        text, reading, shape = rendering.text, rendering.reading, self._template.shape
        causal = (
            index > 0
            and reading.by_step[index]
            and shape.ends_by(PROMPT_FLAG)
            and (option is None or shape.ends_by(option[0]))
        )
        try:
            if causal:
                known_at = reading.known_at[index]
                ending = self._template.prompt_ending(self._messages, index, self._tools, self._with(option))
                if text.startswith(ending, known_at):
                    return known_at + len(ending), "causal", ""
                prompt = text[:known_at] + ending
            else:
                if not self._may_render(index):
                    return rendering.start_of(index), "none", _TOO_MANY
                prompt = self._render(index, True, option)
                if text.startswith(prompt):
                    return len(prompt), "exact", ""
        except TorchpipeError as error:
            return rendering.start_of(index), "none", f"its prompt can't be rendered: {error}"
        shared = _shared_length(prompt, text)
        fault = f"its prompt goes on with {shown(prompt[shared:])}, which the rendered conversation lacks there"
        own = rendering.start_of(index)
        if shared < own:  # the texts part in an earlier message, which the model doesn't sample
            shared = own + _overlap(prompt, text[own:])
        return shared, "none", fault

    def _what_changes(self, rendering: Rendering, index: int, stop: int, option: tuple[str, bool] | None) -> str:
        """What speaks against the reply being the same, up to ``stop``, in a conversation that ends with it."""
        reading = rendering.reading
        known = reading.known_at[index + 1]
        by_option = option is None or self._template.shape.ends_by(option[0])
        if by_option and (known < 0 or stop <= known):
            return ""
        if option is None and index + 1 == len(rendering.rows):
            return ""
        if not self._may_render(index):
            return _TOO_MANY
        try:
            alone = self._render(index + 1, False, option)
        except TorchpipeError as error:
            return f"the conversation up to it can't be rendered: {error}"
        return "" if alone.startswith(rendering.text[:stop]) else "later messages change how the template writes it"

    def _render(self, num_messages: int, prompt: bool, option: tuple[str, bool] | None) -> str:
        """The first messages as a plain render."""
        key = (num_messages, prompt, option)
        if key not in self._rendered:
            options = self._with(option)
            self._rendered[key] = self._template.render(self._messages[:num_messages], self._tools, prompt, **options)
        return self._rendered[key]

    def _with(self, option: tuple[str, bool] | None) -> Mapping[str, Any]:
        return self._options if option is None else {**self._options, option[0]: option[1]}

    def _may_render(self, index: int) -> bool:
        """Whether the turn's prompt may be rendered, by ``max_exact_turns``."""
        limit = self._max_exact_turns
        if limit is None or index in self._exact_turns or len(self._exact_turns) < limit:
            self._exact_turns.add(index)
            return True
        return False


def has_reasoning(message: Mapping[str, Any]) -> bool:
    """Whether a message of the assistant holds reasoning, in a field of its own or in think tags."""
    if any(message.get(key) for key in REASONING_KEYS):
        return True
    content = message.get("content")
    return isinstance(content, str) and "<think>" in content and "</think>" in content


def _before_control(controls: Sequence[ControlSpan], place: int) -> int:
    """The place, or the start of the control token that it is in the middle of."""
    number = bisect_left(controls, (place,)) - 1
    return controls[number].start if number >= 0 and controls[number].stop > place else place


def _overlap(one: str, other: str) -> int:
    """The length of the longest ending of one text with which the other begins."""
    return next((size for size in range(min(len(one), len(other)), 0, -1) if one.endswith(other[:size])), 0)


def _shared_length(one: str, other: str) -> int:
    """The length of the longest common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
