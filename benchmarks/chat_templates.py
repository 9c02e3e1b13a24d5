"""Time of a traced render, and of the proof of its turns, over a plain render: for every chat template of a folder.

    python chat_templates.py TEMPLATES_FOLDER CONVERSATIONS.jsonl

The plain render is jinja2's immutable sandbox with the settings of transformers' apply_chat_template. The traced one
includes the wrapping of the messages and the index of the text. The proof is all that a row needs before it is encoded:
the traced render, its comparison with a plain one, the control tokens and the turns; it is measured on the rows without
tools whose turns are all proved by one render. What is compared takes turns on each row, and the fastest of a few
rounds counts.
"""

import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node, Scope
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.control_matcher import ControlMatcher
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import ControlSpan, Rendering, control_span
from torchpipe.tokenizers.jinja.turns import Turn, TurnProver

ROUNDS = 7
STOPS = ("</s>", "<|im_end|>", "<|eot_id|>")
OPTIONS = {"bos_token": "<s>", "eos_token": "</s>", "date_string": "26 Jul 2024", "strftime_now": lambda _: "2024"}
CONTROL_TOKEN = re.compile(r"<[|｜][^|｜<>\s]{1,40}[|｜]>|<(?:start|end)_of_[a-z]+>|\[/?[A-Z_]{3,20}\]|</?s>")

Conversation = dict[str, Any]


class Generation(Extension):
    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> Node:
        scope = Scope(lineno=next(parser.stream).lineno)
        scope.body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return scope


def plain_render(text: str) -> Callable[..., str]:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = lambda value, indent=None, ensure_ascii=False, **options: json.dumps(
        value, indent=indent, ensure_ascii=ensure_ascii, **options
    )
    environment.globals["raise_exception"] = lambda message: 1 / 0
    return environment.from_string(text).render


def proof(template: ProvableTemplate, control_tokens: Sequence[str]) -> Callable[[Conversation], list[Turn]]:
    """Function from a conversation to its turns."""
    matcher = ControlMatcher({text: number for number, text in enumerate(control_tokens)})

    def controls_in(rendering: Rendering) -> list[ControlSpan]:
        return list(map(control_span, matcher.spans(rendering.text, rendering.template_ranges)))

    def turns_of(given: Conversation) -> list[Turn]:
        messages, tools = given["messages"], given["tools"]
        rendering = template.trace(messages, tools, False, OPTIONS)
        prover = TurnProver(template, messages, tools, OPTIONS, controls_in=controls_in, stop_texts=frozenset(STOPS))
        return prover.turns_of(rendering)

    return turns_of


def seconds(functions: Sequence[Callable[[Conversation], Any]], rows: Sequence[Conversation]) -> list[float]:
    """The time that each function needs for all rows."""
    fastest = [[float("inf")] * len(rows) for _ in functions]
    for _ in range(ROUNDS):
        for place, row in enumerate(rows):
            for function, times in zip(functions, fastest, strict=True):
                start = time.perf_counter()
                function(row)
                times[place] = min(times[place], time.perf_counter() - start)
    return [sum(times) for times in fastest]


def measure(text: str, conversations: Sequence[Conversation]) -> tuple[float, float | None] | None:
    """The ratios of the traced render and of the proof; None where no row is rendered, or proved by one render."""
    template, render = ProvableTemplate(text), plain_render(text)
    turns_of = proof(template, sorted({*CONTROL_TOKEN.findall(text), *STOPS}))
    rendered, causal = [], []
    for conversation in conversations:
        try:
            template.trace(**conversation, options=OPTIONS)
        except TokenizerError:
            continue
        rendered.append(conversation)
        if not conversation["tools"] and not conversation["add_generation_prompt"]:
            turns = turns_of(conversation)
            if turns and all(turn.proof == "causal" for turn in turns):
                causal.append(conversation)
    if not rendered:
        return None

    def plain(given: Conversation) -> str:
        return render(**given, **OPTIONS)

    plain_seconds, traced_seconds = seconds([plain, lambda given: template.traced(**given, options=OPTIONS)], rendered)
    if not causal:
        return traced_seconds / plain_seconds, None
    short_seconds, proof_seconds = seconds([plain, turns_of], causal)
    return traced_seconds / plain_seconds, proof_seconds / short_seconds


def summary(ratios: Sequence[float]) -> dict[str, float]:
    """The median of the templates' ratios, and their ends."""
    return {
        "templates": len(ratios),
        "median": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


if __name__ == "__main__":
    lines = Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}.values()
    given = [{name: row[name] for name in ("messages", "tools", "add_generation_prompt")} for row in rows]
    files = sorted(file for file in Path(sys.argv[1]).rglob("*") if file.is_file())
    measured = [result for file in files if (result := measure(file.read_text(encoding="utf-8"), given))]
    causal = [ratio for _, ratio in measured if ratio is not None]
    print(json.dumps({"traced": summary([ratio for ratio, _ in measured]), "proof": summary(causal)}))
