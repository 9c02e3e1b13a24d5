"""What the model samples in a turn: proved by one render or by comparing, refused where neither shows it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.turns import ControlSpan, Turn, TurnProver

Messages = Sequence[Mapping[str, Any]]

CONTROL = re.compile(r"<\|\w+\|>")


def controls_in(rendering: Rendering) -> list[ControlSpan]:
    return [
        ControlSpan(found.start(), found.end(), found.group())
        for start, stop in rendering.template_ranges
        for found in CONTROL.finditer(rendering.text, start, stop)
    ]


def turns(template: str, messages: Messages, tools: Any = None, **options: Any) -> tuple[Rendering, list[Turn]]:
    """The turns of a conversation; that no proof is false is checked against plain renders of its beginnings."""
    compiled = ProvableTemplate(template)
    rendering = compiled.trace(messages, tools, False, options)
    prover = TurnProver(compiled, messages, tools, options, controls_in=controls_in, stop_texts=frozenset({"<|end|>"}))
    found = prover.turns_of(rendering)
    for turn in found:
        if turn.proved:
            tried = options if turn.option is None else {**options, turn.option[0]: turn.option[1]}
            prompt = compiled.render(messages[: turn.message], tools, True, **tried)
            assert prompt == rendering.text[: turn.start]
            alone = compiled.render(messages[: turn.message + 1], tools, False, **tried)
            stop = min(turn.stop, rendering.end_of_turn(turn.message, turn.start))  # the next header may be the stop
            assert alone.startswith(rendering.text[:stop])
    return rendering, found


def sampled(template: str, messages: Messages, tools: Any = None, **options: Any) -> list[str | None]:
    """What the model samples in each turn; None where it isn't proved."""
    rendering, found = turns(template, messages, tools, **options)
    return [rendering.text[turn.start : turn.stop] if turn.proved else None for turn in found]


def proofs(template: str, messages: Messages, tools: Any = None, **options: Any) -> list[str]:
    return [turn.proof for turn in turns(template, messages, tools, **options)[1]]


def chat(*contents: str) -> list[dict[str, Any]]:
    return [
        {"role": "assistant" if number % 2 else "user", "content": content} for number, content in enumerate(contents)
    ]


BODY = "<|{{ m.role }}|>{{ m.content }}<|end|>\n"
ENDING = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
PLAIN = "{% for m in messages %}" + BODY + "{% endfor %}" + ENDING
FOUR = chat("Hi", "Hello.", "Bye", "See you.")


def test_a_plain_loop_is_proved_by_one_render() -> None:
    assert sampled(PLAIN, FOUR) == ["Hello.<|end|>", "See you.<|end|>"]
    assert proofs(PLAIN, FOUR) == ["causal", "causal"]


@pytest.mark.parametrize(
    "content", ["[[1, 2], [3, 4]]", "", " ", "<|end|>", "<|assistant|>", "Hi", "\n x \n", "<|end|>\n"]
)
def test_spans_do_not_depend_on_what_content_spells(content: str) -> None:
    messages = chat("Hi", content, "Bye", content)
    assert sampled(PLAIN, messages) == [f"{content}<|end|>"] * 2


def test_a_prompt_that_reads_the_users_text_is_compared() -> None:
    ending = (
        "{% if add_generation_prompt %}<|assistant|>{% if '/think' in messages[-1].content %}<think>{% endif %}"
        "{% endif %}"
    )
    template = "{% for m in messages %}" + BODY + "{% endfor %}" + ending
    assert proofs(template, FOUR) == ["exact", "exact"]
    messages = chat("Hi /think", "Hello.", "Bye", "See you.")
    assert sampled(template, messages) == [None, "See you.<|end|>"]


def test_a_prompt_that_reads_what_the_loop_left_behind_is_compared() -> None:
    template = (
        "{% set ns = namespace(last='') %}{% for m in messages %}{% set ns.last = m.content %}" + BODY + "{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{{ 'Re: ' if ns.last == 'Hi' }}{% endif %}"
    )
    assert sampled(template, FOUR) == [None, "See you.<|end|>"]


def test_text_that_depends_on_what_comes_next_is_compared() -> None:
    looks_ahead = (
        "{% for m in messages %}{% if not loop.last and loop.nextitem.content == 'Bye' %}<|last|>{% endif %}"
        + BODY
        + "{% endfor %}"
        + ENDING
    )
    assert sampled(looks_ahead, FOUR) == [None, "See you.<|end|>"]
    last = (
        "{% for m in messages %}"
        + BODY
        + "{% if loop.last and m.role == 'assistant' %}<|eos|>{% endif %}{% endfor %}"
        + ENDING
    )
    assert sampled(last, FOUR) == ["Hello.<|end|>", "See you.<|end|>"]


def test_a_reply_that_later_messages_rewrite_is_not_proved() -> None:
    rewrites = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content if loop.last or m.role == 'user' else m.content | upper }}"
        "<|end|>\n{% endfor %}" + ENDING
    )
    _, found = turns(rewrites, FOUR)
    assert [turn.proof for turn in found] == ["none", "exact"]


def test_a_loop_that_runs_backwards_is_compared() -> None:
    backwards = "{% for m in messages | reverse %}" + BODY + "{% endfor %}" + ENDING
    assert sampled(backwards, FOUR) == [None, None]
    counted = "{% for m in messages[::-1] %}{% endfor %}" + PLAIN
    assert sampled(counted, FOUR) == ["Hello.<|end|>", "See you.<|end|>"]
    assert proofs(counted, FOUR) == ["exact", "exact"]


def test_tests_on_content_change_nothing() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.content.startswith('H') %}!{% endif %}{{ m.content }}<|end|>\n"
        "{% endfor %}" + ENDING
    )
    assert sampled(template, FOUR) == ["!Hello.<|end|>", "See you.<|end|>"]


def test_content_that_a_macro_wraps_is_followed() -> None:
    template = (
        "{% macro wrap(m) %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>\n{% endmacro %}"
        "{% for m in messages %}{{ wrap(m) }}{% endfor %}" + ENDING
    )
    assert sampled(template, chat("Hi", "  Hello. ")) == ["Hello.<|end|>"]
    whole = "{% macro all(ms) %}{% for m in ms %}" + BODY + "{% endfor %}{% endmacro %}{{ all(messages) }}" + ENDING
    assert sampled(whole, FOUR) == ["Hello.<|end|>", "See you.<|end|>"]


def test_a_loop_over_positions_is_followed() -> None:
    template = "{% for i in range(messages | length) %}{% set m = messages[i] %}" + BODY + "{% endfor %}" + ENDING
    assert sampled(template, chat("Hi", "", "Bye", "See you.")) == ["<|end|>", "See you.<|end|>"]


def test_system_text_that_is_kept_outside_the_loop_is_read_first() -> None:
    template = (
        "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}"
        "{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}{{ system }}{% for m in rest %}"
        + BODY
        + "{% endfor %}"
        + ENDING
    )
    messages = [{"role": "system", "content": "Be brief."}, *FOUR]
    assert sampled(template, messages) == ["Hello.<|end|>", "See you.<|end|>"]
    assert proofs(template, messages) == ["causal", "causal"]


def test_a_filtered_loop_is_followed() -> None:
    template = "{% for m in messages if m.role != 'system' %}" + BODY + "{% endfor %}" + ENDING
    assert proofs(template, [{"role": "system", "content": "x"}, *FOUR]) == ["causal", "causal"]


@pytest.mark.parametrize(
    "look", ["{{ '' if loop.last }}", "{{ loop.length and '' }}", "{% set l = loop %}{{ '' if l.last }}"]
)
def test_a_filtered_loop_that_looks_ahead_is_compared(look: str) -> None:
    template = "{% for m in messages if m.role != 'system' %}" + look + BODY + "{% endfor %}" + ENDING
    assert proofs(template, FOUR) == ["exact", "exact"]
    assert sampled(template, chat("", "b", "", "")) == ["b<|end|>", "<|end|>"]


def test_a_filtered_loop_may_count_its_steps() -> None:
    template = "{% for m in messages if m.role != 'system' %}{{ '!' if loop.first }}" + BODY + "{% endfor %}" + ENDING
    assert proofs(template, FOUR) == ["causal", "causal"]


def test_what_a_loop_prints_for_no_message_is_part_of_the_prompt() -> None:
    template = "{% for m in messages if m.role != 'system' %}" + BODY + "{% else %}Nothing.{% endfor %}" + ENDING
    greeting = [{"role": "system", "content": "x"}, {"role": "assistant", "content": "Hello."}]
    assert sampled(template, greeting) == [None]
    assert sampled(template, FOUR) == ["Hello.<|end|>", "See you.<|end|>"]


def test_a_recursive_loop_is_compared() -> None:
    template = "{% for m in messages recursive %}" + BODY + "{% endfor %}" + ENDING
    assert proofs(template, FOUR) == ["exact", "exact"]


@pytest.mark.parametrize(
    "hidden",
    [
        "{% for m in messages %}{% set add_generation_prompt = 1 %}",
        "{% macro f(add_generation_prompt) %}{% endmacro %}{% for m in messages %}",
    ],
)
def test_a_flag_whose_name_the_template_uses_again_still_counts(hidden: str) -> None:
    template = "{% if add_generation_prompt %}Reply!{% endif %}" + hidden + BODY + "{% endfor %}"
    assert sampled(template, FOUR) == [None, None]


def test_an_option_that_the_template_sets_itself_is_compared() -> None:
    template = "{% set enable_thinking = enable_thinking | default(true) %}" + PLAIN.replace(
        "{{ m.content }}", "{% if enable_thinking %}!{% endif %}{{ m.content }}"
    ).replace("<|assistant|>{% endif %}", "<|assistant|>!{% endif %}")
    _, found = turns(template, FOUR)
    assert [(turn.proof, turn.option) for turn in found] == [("causal", None), ("causal", None)]


def test_an_end_of_the_document_after_the_stop_is_not_sampled() -> None:
    template = (
        "{% for m in messages %}"
        + BODY
        + "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% else %}<|eos|>{% endif %}"
    )
    assert sampled(template, FOUR) == ["Hello.<|end|>", "See you.<|end|>"]


def test_the_last_control_token_stops_where_none_is_known_to() -> None:
    template = PLAIN.replace("<|end|>", "<|close|><|eot|>")
    assert sampled(template, FOUR) == ["Hello.<|close|><|eot|>", "See you.<|close|><|eot|>"]


def test_the_next_header_stops_where_a_turn_has_no_end() -> None:
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}" + ENDING
    rendering, found = turns(template, [*FOUR, {"role": "user", "content": "x"}])
    assert [rendering.text[turn.start : turn.stop] for turn in found] == ["Hello.<|user|>", "See you.<|user|>"]
    assert all(turn.proved for turn in found)
    assert turns(template, FOUR)[1][-1].why_not == "the template writes no stop token after it"


def test_what_later_messages_put_before_the_next_header_is_not_proved() -> None:
    follows = "{{ '!' if m.role == 'assistant' and not loop.last }}"
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}" + follows + "{% endfor %}" + ENDING
    (turn,) = turns(template, [*FOUR[:2], {"role": "user", "content": "x"}])[1]
    assert turn.why_not == "later messages change how the template writes it"


def test_a_prefill_that_the_conversation_lacks_is_refused() -> None:
    template = PLAIN.replace("<|assistant|>{% endif %}", "<|assistant|><think>\n{% endif %}")
    assert sampled(template, FOUR) == [None, None]
    assert "'<think>\\n'" in turns(template, FOUR)[1][0].why_not


def test_the_thinking_option_follows_the_row() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}<think>{{ m.reasoning_content }}</think>"
        "{% endif %}{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% if not enable_thinking %}<think></think>{% endif %}{% endif %}"
    )
    silent = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    aloud = [silent[0], {**silent[1], "reasoning_content": "c"}]
    assert sampled(template, silent) == ["b<|end|>"]
    assert sampled(template, aloud) == ["<think>c</think>b<|end|>"]
    assert sampled(template, aloud, enable_thinking=False) == [None]


@pytest.mark.parametrize(
    ("template", "lost"),
    [
        (PLAIN, "tool_calls[0].function.name is not in the template's text"),
        (
            PLAIN.replace("{{ m.content }}", "{{ m.content }}{{ m.content }}"),
            "content is written more than once, or out of order",
        ),
        (PLAIN.replace("{{ m.content }}", "{{ m.content[1:] }}"), "content lacks 'H'"),
        (PLAIN.replace("{{ m.content }}", "{{ m.content | reverse }}"), None),
    ],
)
def test_what_is_lost_is_named(template: str, lost: str | None) -> None:
    calls = [{"type": "function", "function": {"name": "f", "arguments": {"x": "y"}}}]
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "Hello", "tool_calls": calls}]
    if template is not PLAIN:
        del messages[1]["tool_calls"]
    (turn,) = turns(template, messages)[1]
    assert not turn.proved
    if lost is not None:
        assert turn.why_not == lost


def test_what_a_template_says_is_passed_on() -> None:
    template = "{% if messages | length % 2 %}{{ raise_exception('Odd numbers are not nice') }}{% endif %}" + PLAIN
    (turn,) = turns(template, FOUR[:2])[1]
    assert "Odd numbers are not nice" in turn.why_not
    with pytest.raises(TokenizerError, match="Odd numbers are not nice"):
        ProvableTemplate(template).render(FOUR[:3])


def test_the_number_of_prompts_that_are_rendered_is_bounded() -> None:
    template = "{% set n = messages | length %}" + PLAIN
    compiled = ProvableTemplate(template)
    rendering = compiled.trace(FOUR, None, False, {})
    prover = TurnProver(
        compiled, FOUR, None, {}, controls_in=controls_in, stop_texts=frozenset({"<|end|>"}), max_exact_turns=1
    )
    first, second = prover.turns_of(rendering)
    assert first.proof == "exact"
    assert "max_exact_turns" in second.why_not


def test_errors_speak_of_plain_messages() -> None:
    template = ProvableTemplate("{% for m in messages %}{{ m.content + m.nothing }}{% endfor %}")
    with pytest.raises(TokenizerError, match="it fails in line 1: 'dict object' has no attribute 'nothing'"):
        template.trace(FOUR)


def test_a_long_conversation_is_proved_turn_by_turn() -> None:
    messages = chat(*(f"text {number}" for number in range(2000)))
    compiled = ProvableTemplate(PLAIN)
    rendering = compiled.trace(messages)
    prover = TurnProver(compiled, messages, None, {}, controls_in=controls_in, stop_texts=frozenset({"<|end|>"}))
    found = prover.turns_of(rendering)
    assert [turn.proof for turn in found] == ["causal"] * 1000
    assert [rendering.text[turn.start : turn.stop] for turn in found] == [
        f"text {number}<|end|>" for number in range(1, 2000, 2)
    ]


def test_a_refusal_has_the_words_of_the_plain_render() -> None:
    compiled = ProvableTemplate("{{ 'a' + none + raise_exception('No.') }}")
    with pytest.raises(TokenizerError) as plain:
        compiled.render(FOUR)
    with pytest.raises(TokenizerError) as traced:
        compiled.trace(FOUR)
    assert str(traced.value) == str(plain.value)


def test_tools_that_are_one_text_are_not_the_templates() -> None:
    rendering = ProvableTemplate("{{ tools }}" + PLAIN).trace(FOUR, "<|end|>")
    assert all(start >= len("<|end|>") for start, _ in rendering.template_ranges)
