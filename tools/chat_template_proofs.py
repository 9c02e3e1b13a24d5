"""Writes the table of public chat templates in docs/chat_templates.md: whose turns are proved, and whose are refused.

    python tools/chat_template_proofs.py ../shared/data

Control tokens are told by their looks in the template's text: the vocabularies of most models aren't at hand.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers import ControlMatcher
from torchpipe.tokenizers.jinja.coverage import lost_number, what_is_lost
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.row import Row
from torchpipe.tokenizers.jinja.split_turn import SplitTurn, option_that_proves, split_turn
from torchpipe.tokenizers.jinja.stop_probes import endings_of, probed_stops
from torchpipe.tokenizers.jinja.turns import NO_STOP, ControlSpan, Turn, TurnProver

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "chat_templates.md"
BEGIN, END = "<!-- table of proofs: begin -->", "<!-- table of proofs: end -->"

CONTROL = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|\[\|[^|\[\]\s]{1,40}\|\]|<｜[^｜]{1,40}｜>|</?s>|\[/?[A-Z_]{3,20}\]|<(?:start|end)_of_[a-z]+>"
    r"|<SPECIAL_\d+>|<sep>|<\|[a-z_]+>|<[a-z_]+\|>|</?tool_call>|\[e~\[|\]~!?b\[?\]?|<extra_id_\d>"
)
# What a refusal says, and the column it is counted in. A turn of which the template loses something is "not written",
# whatever else speaks against it.
REASONS = (
    ("prompt differs", re.compile("^its prompt")),
    ("no stop token", re.compile("no stop token")),
    ("other", re.compile("")),
)
PROOFS = ("causal", "exact", "split")
COLUMNS = (*PROOFS, "prompt differs", "not written", "no stop token", "other")


class Case(NamedTuple):
    """A conversation as a template renders it, its turns, and those that a sample of their own proves.

    ``written``: the refused turns of which the template writes all. ``by_caller``: the refused turns that would be
    proved if the caller set the thinking option for the whole row, or append_stop.
    """

    template: str
    id: str
    messages: Sequence[Mapping[str, Any]]
    tools: Any
    rendering: Rendering
    turns: list[Turn]
    split: dict[int, SplitTurn]
    written: frozenset[int]
    by_caller: dict[int, tuple[Rendering, Turn]]

    def outcome(self, turn: Turn) -> str:
        """The column that the turn is counted in."""
        if turn.proved:
            return turn.proof
        if turn.message in self.split:
            return "split"
        if turn.message not in self.written:
            return "not written"
        return next(name for name, pattern in REASONS if pattern.search(turn.why_not))


class Spans:
    """Finds the control tokens of a template by their looks."""

    def __init__(self, text: str) -> None:
        tokens = sorted({*CONTROL.findall(text), "<s>", "</s>"})
        self.texts = dict(enumerate(tokens))
        self.matcher = ControlMatcher({token: number for number, token in self.texts.items()})

    def __call__(self, rendering: Rendering) -> list[ControlSpan]:
        """Those in the template's own text of a rendering."""
        found = self.matcher.find(rendering.text, rendering.template_ranges)
        return [ControlSpan(start, stop, self.texts[number]) for start, stop, number in found]


def cases_of(
    name: str,
    template: ProvableTemplate,
    conversations: Sequence[Any],
    options: Mapping[str, Any],
    *,
    follows_row: bool = True,
) -> Iterator[Case]:
    """The conversations that the template renders and that have an assistant's turn.

    Args:
        name: the template's.
        template: the template.
        conversations: with ``id``, ``messages`` and ``tools``.
        options: what the template may ask for.
        follows_row: whether the thinking option that a reply implies is tried.
    """
    spans = Spans(template.text)
    stops = probed_stops(template, options, spans) | {"</s>"}
    endings = endings_of(template, options, spans, stops)
    for conversation in conversations:
        messages, tools = Row.of(conversation.messages).messages, conversation.tools
        try:
            rendering = template.trace(messages, tools, False, options)
        except TokenizerError:
            continue  # a template that refuses a conversation has no turns to prove
        prover_with = partial(
            TurnProver, template, messages, tools, options, controls_in=spans, stop_texts=stops, follows_row=follows_row
        )
        prover = prover_with()
        turns = prover.turns_of(rendering)
        refused = [turn for turn in turns if not turn.proved]
        split = {turn.message: own for turn in refused if (own := split_turn(prover, turn.message)) is not None}
        refused = [turn for turn in refused if turn.message not in split]
        written = {turn.message for turn in refused if is_written(rendering, messages, tools, turn.message)}
        asked = prover_with(endings=endings)
        by_caller = {
            turn.message: found
            for turn in refused
            if (template.thinking_options or turn.why_not == NO_STOP)
            and (found := proved_by_caller(asked, turn.message, len(messages))) is not None
        }
        if turns:
            yield Case(
                name,
                conversation.id,
                messages,
                tools,
                rendering,
                turns,
                split,
                frozenset(written),
                by_caller,
            )


def all_cases(
    templates: Mapping[str, ProvableTemplate], conversations: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Case], list[Case]]:
    """:func:`cases_of` all templates, with the thinking option tried and without it.

    The cases of a template that has no such option are the same ones in both.
    """
    both: tuple[list[Case], list[Case]] = ([], [])
    for name, template in templates.items():
        tried = list(cases_of(name, template, conversations, options))
        both[0].extend(tried)
        if template.thinking_options:
            tried = cases_of(name, template, conversations, options, follows_row=False)
        both[1].extend(tried)
    return both


def proved_by_caller(asked: TurnProver, message: int, num_messages: int) -> tuple[Rendering, Turn] | None:
    """The conversation that proves a turn if the caller asks for it: the whole, or the one up to it."""
    for end in (num_messages, message + 1):
        if (found := asked.proved_in(end, message)) is not None:
            return found
        option = option_that_proves(asked, message, end)
        if option is not None and (found := asked.with_option(option).proved_in(end, message)) is not None:
            return found[0], replace(found[1], option=option)
    return None


def is_written(rendering: Rendering, messages: Sequence[Mapping[str, Any]], tools: Any, message: int) -> bool:
    """Whether the template writes all of a turn, and the tools, wherever its reply starts and stops."""
    start = rendering.start_of(message)
    stop = rendering.end_of_turn(message, start)
    lost = what_is_lost(rendering, message, start, stop) or lost_number(messages[message], rendering.text[start:stop])
    return lost is None and (not tools or rendering.writes_tools)


def table(cases: Sequence[Case], names: Sequence[str]) -> str:
    """The table in Markdown, a row a template; ``names`` are those of all templates, rendering or not."""
    lines = [f"| template | turns | {' | '.join(COLUMNS)} |", "|---|" + "---|" * (len(COLUMNS) + 1)]
    for name in names:
        counts = _counts([case for case in cases if case.template == name])
        lines.append(f"| {name} | {counts.total()} | {' | '.join(str(counts[column] or '') for column in COLUMNS)} |")
    total = _counts(cases)
    lines.append(f"| **all** | {total.total()} | {' | '.join(str(total[column]) for column in COLUMNS)} |")
    return "\n".join(lines)


def rates(cases: Sequence[Case], without: Sequence[Case], golden: Collection[str]) -> str:
    """The line below the table: the share of turns proved.

    Args:
        cases: all, with the thinking option tried.
        without: the same without it.
        golden: ids of the plain conversations.
    """
    of_golden, without_golden = ([case for case in some if case.id in golden] for some in (cases, without))
    return (
        f"Proved, with the thinking option tried and without it: {_shares(cases, without)}. Of the turns of the "
        f"{len(golden)} plain conversations alone: {_shares(of_golden, without_golden)}."
    )


def proved_share(cases: Sequence[Case], *, written: bool = False, by_caller: bool = False) -> float:
    """The share of turns proved.

    Args:
        cases: whose turns.
        written: whether only turns count of which the template writes all.
        by_caller: whether a turn counts as proved that would be, if the caller set the thinking option, or append_stop.
    """
    counts = _counts(cases)
    proved = sum(counts[proof] for proof in PROOFS)
    total = counts.total() - (counts["not written"] if written else 0)
    if by_caller:
        set_by_caller = [(case, message) for case in cases for message in case.by_caller]
        proved += len(set_by_caller)
        total += sum(message not in case.written for case, message in set_by_caller) if written else 0
    return proved / total


def _shares(cases: Sequence[Case], without: Sequence[Case]) -> str:
    def percent(written: bool, by_caller: bool = False) -> str:
        return f"{proved_share(cases, written=written, by_caller=by_caller):.1%}".replace("%", " %")

    def percent_without(written: bool) -> str:
        return f"{proved_share(without, written=written):.1%}".replace("%", " %")

    return (
        f"{percent(False)} and {percent_without(False)} of all turns, {percent(True)} and {percent_without(True)} of "
        "those whose text, calls, reasoning and tools the template writes "
        f"({percent(True, by_caller=True)} where the caller sets the option, and append_stop)"
    )


def _counts(cases: Sequence[Case]) -> Counter[str]:
    """How many turns are proved in which way, or refused for which reason."""
    return Counter(case.outcome(turn) for case in cases for turn in case.turns)


class _Conversation(NamedTuple):
    id: str
    messages: list[dict[str, Any]]
    tools: Any


def main(shared_data: Path) -> None:
    """Writes the table into the page."""
    files = sorted(file for file in (shared_data / "templates").glob("*/*") if file.is_file())
    templates = {
        f"{file.parent.name}/{file.name}": ProvableTemplate(file.read_text(encoding="utf-8")) for file in files
    }
    lines = (shared_data / "golden" / "qwen3.jsonl").read_text(encoding="utf-8").splitlines()
    golden = [json.loads(line) for line in lines]
    edge = json.loads((ROOT / "tests/tokenizers/jinja/edge_conversations.json").read_text(encoding="utf-8"))
    rows = {row["id"]: _Conversation(row["id"], row["messages"], row["tools"]) for row in [*golden, *edge]}
    options = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "date_string": "26 Jul 2024",
        "strftime_now": lambda format: "26 Jul 2024",
    }
    cases, without = all_cases(templates, list(rows.values()), options)
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    plain = {row["id"] for row in golden}
    made = f"{table(cases, list(templates))}\n\n{rates(cases, without, plain)}"
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
