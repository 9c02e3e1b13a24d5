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
def both_cases(
    compiled: dict[str, ProvableTemplate], conversations: list[Any], template_options: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """All that render and have an assistant's turn: the thinking option that a reply implies is tried, and is not."""
    return SCRIPT["all_cases"](compiled, conversations, template_options)


@pytest.fixture(scope="module")
def cases(both_cases: tuple[list[Any], list[Any]]) -> list[Any]:
    """Those of the tokenizers' way: the option is tried."""
    return both_cases[0]


def test_the_documented_table_is_what_is_found(
    both_cases: tuple[list[Any], list[Any]],
    chat_templates: dict[str, str],
    golden_conversations: list[Any],
    repository: Path,
) -> None:
    page = (repository / "docs" / "chat_templates.md").read_text(encoding="utf-8")
    table, rates = page.split(SCRIPT["BEGIN"])[1].split(SCRIPT["END"])[0].strip().split("\n\n")
    assert table == SCRIPT["table"](both_cases[0], list(chat_templates))
    assert rates == SCRIPT["rates"](*both_cases, {conversation.id for conversation in golden_conversations})


def test_no_proof_is_false(
    cases: list[Any], compiled: dict[str, ProvableTemplate], template_options: dict[str, Any]
) -> None:
    checked = Counter()
    for case in cases:
        proved = [(case.rendering, turn) for turn in case.turns if turn.proved]
        own = [(own.rendering, own.turn) for own in case.split.values()]
        for rendering, turn in (*proved, *own, *case.by_caller.values()):
            options = template_options if turn.option is None else template_options | dict([turn.option])
            render: Callable[..., str] = compiled[case.template].render
            prompt = render(case.messages[: turn.message], case.tools, True, **options)
            assert prompt == rendering.text[: turn.start], (case.template, case.id, turn)
            alone = render(case.messages[: turn.message + 1], case.tools, False, **options)
            # A conversation that ends with the reply lacks a stop that is the next header, or appended.
            stop = min(turn.stop, rendering.end_of_turn(turn.message, turn.start), rendering.num_written)
            assert alone.startswith(rendering.text[:stop]), (case.template, case.id, turn)
            checked[turn.proof] += 1
    assert checked["causal"] > 2_500
    assert checked["exact"] > 4_000
    assert checked["split"] > 400


def test_what_a_caller_may_set_proves_more(cases: list[Any]) -> None:
    """``append_stop`` where a last turn is left open, ``enable_thinking`` where the system text depends on it."""
    proved = Counter(
        (case.template.split("/")[1], rendering.num_written < len(rendering.text))
        for case in cases
        for rendering, _ in case.by_caller.values()
    )
    assert {name for name, appended in proved if appended} == {
        *("Apertus-8B-Instruct.jinja", "GLM-4.7-Flash.jinja", "r1_distilled_llama.txt")
    }
    assert proved["google-gemma-4-31B-it-interleaved.jinja", False] > 80


def test_most_turns_are_proved(cases: list[Any]) -> None:
    share = SCRIPT["proved_share"]
    assert share(cases) > 0.79
    assert share(cases, written=True) > 0.89
    assert share(cases, written=True, by_caller=True) > 0.92


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
        ("marks the end of the prompt", "same stop"): 63,
        ("same start", AFTER): 556,
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
