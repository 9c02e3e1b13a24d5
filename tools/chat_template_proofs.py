"""Writes the table of public chat templates in docs/chat_templates.md: whose turns are proved, and whose are refused.

    python tools/chat_template_proofs.py ../shared/data

Control tokens are told by their looks in the template's text: the vocabularies of most models aren't at hand.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers import ControlMatcher
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.stop_probes import probed_stops
from torchpipe.tokenizers.jinja.turns import ControlSpan, Turn, TurnProver

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "chat_templates.md"
BEGIN, END = "<!-- table of proofs: begin -->", "<!-- table of proofs: end -->"

CONTROL = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|\[\|[^|\[\]\s]{1,40}\|\]|<｜[^｜]{1,40}｜>|</?s>|\[/?[A-Z_]{3,20}\]|<(?:start|end)_of_[a-z]+>"
    r"|<SPECIAL_\d+>|<sep>|<\|[a-z_]+>|<[a-z_]+\|>|</?tool_call>|\[e~\[|\]~!?b\[?\]?|<extra_id_\d>"
)
# What a refusal says, and the column it is counted in.
REASONS = (
    ("prompt differs", re.compile("^its prompt")),
    (
        "not written",
        re.compile(
            "is not in the template's text|^content lacks|^reasoning_content lacks|more than once|writes none of"
        ),
    ),
    ("no stop token", re.compile("no stop token")),
    ("other", re.compile("")),
)
PROOFS = ("causal", "exact", "split")


class Case(NamedTuple):
    """A conversation as a template renders it, its turns, and those that a sample of their own proves."""

    template: str
    id: str
    messages: Sequence[Mapping[str, Any]]
    tools: Any
    rendering: Rendering
    turns: list[Turn]
    split: list[int]


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
    name: str, template: ProvableTemplate, conversations: Sequence[Any], options: Mapping[str, Any]
) -> Iterator[Case]:
    """The conversations that the template renders and that have an assistant's turn."""
    spans = Spans(template.text)
    stops = probed_stops(template, options, spans) | {"</s>"}
    for conversation in conversations:
        messages, tools = conversation.messages, conversation.tools
        try:
            rendering = template.trace(messages, tools, False, options)
        except TokenizerError:
            continue  # a template that refuses a conversation has no turns to prove
        prover = TurnProver(template, messages, tools, options, controls_in=spans, stop_texts=stops)
        turns = prover.turns_of(rendering)
        split = [turn.message for turn in turns if not turn.proved and prover.split_turn(turn.message) is not None]
        if turns:
            yield Case(name, conversation.id, messages, tools, rendering, turns, split)


def counted(cases: Sequence[Case]) -> Counter[str]:
    """How many turns are proved in which way, or refused for which reason."""
    counts: Counter[str] = Counter()
    for case in cases:
        for turn in case.turns:
            if turn.proved:
                counts[turn.proof] += 1
            elif turn.message in case.split:
                counts["split"] += 1
            else:
                counts[next(name for name, pattern in REASONS if pattern.search(turn.why_not))] += 1
    return counts


def table(cases: Sequence[Case], names: Sequence[str]) -> str:
    """The table in Markdown, a row a template; ``names`` are those of all templates, rendering or not."""
    columns = [*PROOFS, *(name for name, _ in REASONS)]
    lines = [f"| template | turns | {' | '.join(columns)} |", "|---|" + "---|" * (len(columns) + 1)]
    for name in names:
        counts = counted([case for case in cases if case.template == name])
        lines.append(f"| {name} | {counts.total()} | {' | '.join(str(counts[column] or '') for column in columns)} |")
    total = counted(cases)
    lines.append(f"| **all** | {total.total()} | {' | '.join(str(total[column]) for column in columns)} |")
    return "\n".join(lines)


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
    golden = map(json.loads, (shared_data / "golden" / "qwen3.jsonl").read_text(encoding="utf-8").splitlines())
    edge = json.loads((ROOT / "tests/tokenizers/jinja/edge_conversations.json").read_text(encoding="utf-8"))
    rows = {row["id"]: _Conversation(row["id"], row["messages"], row["tools"]) for row in [*golden, *edge]}
    options = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "date_string": "26 Jul 2024",
        "strftime_now": lambda format: "26 Jul 2024",
    }
    cases = [
        case for name, template in templates.items() for case in cases_of(name, template, list(rows.values()), options)
    ]
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{table(cases, list(templates))}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
