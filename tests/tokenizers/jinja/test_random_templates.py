"""Templates put together at random: none of them gets a false proof."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.split_turn import split_turn
from torchpipe.tokenizers.jinja.stop_probes import endings_of
from torchpipe.tokenizers.jinja.turns import ControlSpan, TurnProver

CONTROL = re.compile(r"<\|\w+\|>")
BEFORE = [
    "",
    "{% if add_generation_prompt %}P{% endif %}",
    "{% set enable_thinking = enable_thinking | default(true) %}",
    "{% if messages | length > 2 %}M{% endif %}",
    "{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}{% set ns.last = m.content %}{% endfor %}",
    "{% macro f(add_generation_prompt, enable_thinking) %}{% endmacro %}",
]
STEPPED = ["messages", "messages[1:]", "messages | reverse", "messages | list", "messages[0:2] + messages[2:]"]
CONDITION = ["", " if m.role != 'system'", " if m.content", " recursive"]
NOISE = [
    "",
    "{% if m.role == 'user' %}{% set ns.n = ns.n + 1 %}{% endif %}",
    "{% set ns.last = m.content %}",
    "{% if loop.last %}!{% endif %}",
    "{{ loop.nextitem.role if loop.nextitem }}",
    "{% if loop.length > 3 %}L{% endif %}",
    "{% if enable_thinking %}T{% endif %}",
    "{% if 'x' in m.content %}{% continue %}{% endif %}",
    "{% if 'z' in m.content %}{% break %}{% endif %}",
    "{% set add_generation_prompt = false %}",
    "{% if messages[loop.index] is defined %}N{% endif %}",
    "{{ ns.n }}",
]
HEADER = ["<|{{ m.role }}|>", "{{ '<|' ~ m.role ~ '|>' }}", ""]
CONTENT = ["{{ m.content }}", "{{ m.content | trim }}", "{% filter trim %}{{ m.content }}{% endfilter %}"]
FOOTER = ["<|end|>", "<|end|>{{ '!' if not loop.last }}", "{{ '<|en' }}{{ 'd|>' }}", "<|end|><|eos|>", ""]
ELSE = ["", "{% else %}none"]
AFTER = [
    "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{% if add_generation_prompt %}<|assistant|>{% if not enable_thinking %}T{% endif %}{% endif %}",
    "{% if add_generation_prompt %}<|assistant|>{{ ns.n }}{% endif %}",
    "{% if add_generation_prompt and messages[-1].role == 'user' %}<|assistant|>{% endif %}",
    "",
]
WORDS = ["", "a", "x", "z", " a ", "<|end|>", "<|assistant|>", "a<|end|>b", "T", "!", "none", "1", "\N{GRINNING FACE}"]


def often_first(values: list[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just(values[0]), st.just(values[0]), st.sampled_from(values))


templates = st.builds(
    lambda *parts: "{% set ns = namespace(n=0, last='') %}" + "".join(parts),
    often_first(BEFORE),
    st.builds("{{% for m in {}{} %}}".format, often_first(STEPPED), often_first(CONDITION)),
    *map(often_first, (NOISE, HEADER, NOISE, CONTENT, FOOTER, NOISE, ELSE)),
    st.just("{% endfor %}"),
    often_first(AFTER),
)
roles = st.one_of(
    st.just(["user", "assistant"]),
    st.just(["system", "user", "assistant", "user", "assistant"]),
    st.lists(st.sampled_from(["system", "user", "assistant"]), min_size=1, max_size=5),
)
conversations = roles.flatmap(
    lambda names: st.tuples(*(st.builds(dict, role=st.just(name), content=st.sampled_from(WORDS)) for name in names))
)


def controls_in(rendering: Rendering) -> list[ControlSpan]:
    return [
        ControlSpan(found.start(), found.end(), found.group())
        for start, stop in rendering.template_ranges
        for found in CONTROL.finditer(rendering.text, start, stop)
    ]


def false_proofs(text: str, conversations: Sequence[Sequence[dict[str, Any]]], *, append: bool) -> list[Any]:
    """The proved turns that plain renders of the conversation's beginnings speak against."""
    used = ProvableTemplate(text)  # what it remembers of one conversation must not mislead in the next
    stops = frozenset({"<|end|>"})
    endings = endings_of(used, {}, controls_in, stops) if append else None
    found = []
    for messages in conversations:
        prover = TurnProver(used, messages, None, {}, controls_in=controls_in, stop_texts=stops, endings=endings)
        try:
            rendering = prover.rendering_of(len(messages))
        except TokenizerError:
            continue
        turns = prover.turns_of(rendering)
        proved = [(rendering, turn) for turn in turns if turn.proved]
        split = [own for turn in turns if not turn.proved and (own := split_turn(prover, turn.message)) is not None]
        for whole, turn in (*proved, *((own.rendering, own.turn) for own in split)):
            options = {} if turn.option is None else dict([turn.option])
            prompt = used.render(messages[: turn.message], None, True, **options)
            alone = used.render(messages[: turn.message + 1], None, False, **options)
            # The next header may be the stop, or one that was appended.
            stop = min(turn.stop, whole.end_of_turn(turn.message, turn.start), whole.num_written)
            if prompt != whole.text[: turn.start] or not alone.startswith(whole.text[:stop]):
                found.append((messages, turn))
    return found


@pytest.mark.sized("examples", "random_templates")
def test_a_random_template_gets_no_false_proof(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(templates, st.lists(conversations, min_size=1, max_size=5), st.booleans())
    def check(text: str, rows: list[Sequence[dict[str, Any]]], append: bool) -> None:
        assert false_proofs(text, rows, append=append) == []

    check()
