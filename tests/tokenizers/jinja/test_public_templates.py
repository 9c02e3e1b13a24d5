"""106 public templates and 64 conversations: what is proved, what is refused and why, and that no proof is false."""

import re
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.turns import Turn

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "chat_template_proofs.py"))


@pytest.fixture(scope="module")
def compiled(chat_templates: dict[str, str]) -> dict[str, ProvableTemplate]:
    return {name: ProvableTemplate(text) for name, text in chat_templates.items()}


@pytest.fixture(scope="module")
def cases(
    compiled: dict[str, ProvableTemplate], conversations: list[Any], template_options: dict[str, Any]
) -> list[Any]:
    """All that render and have an assistant's turn."""
    return [
        case
        for name, template in compiled.items()
        for case in SCRIPT["cases_of"](name, template, conversations, template_options)
    ]


def test_the_documented_table_is_what_is_found(
    cases: list[Any], chat_templates: dict[str, str], repository: Path
) -> None:
    page = (repository / "docs" / "chat_templates.md").read_text(encoding="utf-8")
    documented = page.split(SCRIPT["BEGIN"])[1].split(SCRIPT["END"])[0].strip()
    assert documented == SCRIPT["table"](cases, list(chat_templates))


def test_no_proof_is_false(
    cases: list[Any], compiled: dict[str, ProvableTemplate], template_options: dict[str, Any]
) -> None:
    checked = Counter()
    for name, id_, messages, tools, rendering, turns, _ in cases:
        for turn in turns:
            if not turn.proved:
                continue
            options = template_options if turn.option is None else template_options | dict([turn.option])
            render: Callable[..., str] = compiled[name].render
            prompt = render(messages[: turn.message], tools, True, **options)
            assert prompt == rendering.text[: turn.start], (name, id_, turn)
            alone = render(messages[: turn.message + 1], tools, False, **options)
            # Where the next header is the stop, the conversation that ends with the reply has none.
            stop = min(turn.stop, rendering.end_of_turn(turn.message, turn.start))
            assert alone.startswith(rendering.text[:stop]), (name, id_, turn)
            checked[turn.proof] += 1
    assert checked["causal"] > 2_500
    assert checked["exact"] > 4_000


LOST = re.compile("is not in the template's text|writes none of them")


def test_most_turns_are_proved(cases: list[Any]) -> None:
    """Of the turns that a template writes whole: those whose calls, reasoning or tools it drops can't be."""
    turns = [(turn, turn.message in case.split) for case in cases for turn in case.turns]
    lost = [turn for turn, split in turns if not split and LOST.search(turn.why_not)]
    proved = [turn for turn, split in turns if turn.proved or split]
    assert len(proved) / len(turns) > 0.79
    assert len(proved) / (len(turns) - len(lost)) > 0.86


def test_spans_agree_with_marked_templates(
    cases: list[Any], chat_templates: dict[str, str], template_options: dict[str, Any]
) -> None:
    """18 templates mark what the assistant says; both ends of a marked turn differ from ours by counted rules."""
    marked = {
        name: ProvableTemplate(
            re.sub(
                r"\{%(-?)\s*generation\s*(-?)%\}",
                r"{{\1 '\\x02' \2}}",
                re.sub(r"\{%(-?)\s*endgeneration\s*(-?)%\}", r"{{\1 '\\x03' \2}}", text),
            )
        )
        for name, text in chat_templates.items()
        if re.search(r"\{%-?\s*generation", text)
    }
    assert len(marked) == 18
    rules = Counter()
    for case in cases:
        if case.template not in marked:
            continue
        text = marked[case.template].render(case.messages, case.tools, **template_options)
        theirs = list(_marked_spans(text, case.rendering.text))
        for turn in case.turns:
            if turn.proved:
                rules[_rule(case, turn, theirs)] += 1
    assert rules == MARKED


AFTER = "marks what follows the stop token: '\\n'"
MARKED = Counter(
    {
        ("marks the end of the prompt", AFTER): 548,
        ("marks the end of the prompt", "same stop"): 57,
        ("same start", AFTER): 542,
        ("same start", "same stop"): 125,
    }
)


def _marked_spans(text: str, plain: str) -> Iterator[tuple[int, int]]:
    """[start, stop) of what lies between marks, in the text without marks."""
    shift = start = 0
    for place, character in enumerate(text):
        if character == "\x02":
            start = place - shift
        if character == "\x03":
            yield start, place - shift
        shift += character in "\x02\x03"
    assert text.replace("\x02", "").replace("\x03", "") == plain


def _rule(case: Any, turn: Turn, theirs: list[tuple[int, int]]) -> tuple[str, str]:
    text = case.rendering.text
    found = [
        (start, stop) for start, stop in theirs if (start < turn.stop and turn.start < stop) or start == turn.start
    ]
    if not found:
        return "not marked", ""
    start, stop = min(start for start, _ in found), max(stop for _, stop in found)
    if start < turn.start:
        first = "marks the end of the prompt"
    elif start > turn.start:
        first = f"starts after {text[turn.start : start]!r}"
    else:
        first = "same start"
    if stop > turn.stop:
        last = f"marks what follows the stop token: {text[turn.stop : stop]!r}"
    elif stop < turn.stop:
        last = f"ends before {text[stop : turn.stop]!r}"
    else:
        last = "same stop"
    return first, last
