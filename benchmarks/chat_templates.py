"""Time of a traced render over a plain one, for every chat template of a folder and every conversation of a file.

python chat_templates.py TEMPLATES_FOLDER CONVERSATIONS.jsonl

The plain render is jinja2's immutable sandbox with the settings of transformers' apply_chat_template. The traced one
includes the wrapping of the messages.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node, Scope
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.jinja.template import ChatTemplate

ROUNDS = 5
OPTIONS = {"bos_token": "<s>", "eos_token": "</s>", "date_string": "26 Jul 2024", "strftime_now": lambda _: "2024"}


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


def seconds(render: Callable[[], Any]) -> float:
    """The fastest of a few calls."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        render()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(text: str, conversations: list[dict[str, Any]]) -> tuple[float, float] | None:
    """Seconds of a plain and of a traced render of all conversations that the template renders; None: of none."""
    template, plain = ChatTemplate(text), plain_render(text)
    plain_seconds = traced_seconds = 0.0
    for conversation in conversations:
        try:
            template.render(**conversation, **OPTIONS)
        except TokenizerError:
            continue
        plain_seconds += seconds(lambda given=conversation: plain(**given, **OPTIONS))
        traced_seconds += seconds(lambda given=conversation: template.render_traced(**given, options=OPTIONS))
    return (plain_seconds, traced_seconds) if plain_seconds else None


if __name__ == "__main__":
    lines = Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}.values()
    given = [{name: row[name] for name in ("messages", "tools", "add_generation_prompt")} for row in rows]
    files = sorted(file for file in Path(sys.argv[1]).rglob("*") if file.is_file())
    measured = [result for file in files if (result := measure(file.read_text(encoding="utf-8"), given))]
    ratios = sorted(traced / plain for plain, traced in measured)
    print(
        json.dumps(
            {
                "templates": len(ratios),
                "median": statistics.median(ratios),
                "lowest": ratios[0],
                "highest": ratios[-1],
                "plain_seconds": sum(plain for plain, _ in measured),
                "traced_seconds": sum(traced for _, traced in measured),
            }
        )
    )
