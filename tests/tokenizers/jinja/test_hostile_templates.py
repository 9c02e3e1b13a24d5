"""Templates come from strangers: what would run for ever, fill the memory or leave the sandbox is refused."""

import pytest

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.jinja.limits import Limits
from torchpipe.tokenizers.jinja.template import ChatTemplate

MESSAGES = [{"role": "user", "content": "Hello"}]
LIMITS = Limits(max_characters=1_000_000, max_steps=50_000, max_seconds=5.0)
MANY = "range(100000)"

TOO_LONG = {
    "text times number": "{{ 'a' * 1000000000 }}",
    "number times text": "{{ 1000000000 * messages[0].content }}",
    "list times number": "{{ [0] * 1000000000 }}",
    "doubled in a loop": "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "doubled content": "{% set n = namespace(x=messages[0].content) %}"
    "{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "doubled line by line": "{% set x = 'ab' %}" + "{% set x = x + x %}" * 60,
    "doubled list": "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "doubled by a block": "{% set x = 'ab' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60,
    "long output": "{% for i in " + MANY + " %}" + "x" * 100 + "{% endfor %}",
    "long macro": "{% macro f() %}{% for i in range(20000) %}"
    + "x" * 100
    + "{% endfor %}{% endmacro %}{% set x = f() %}",
    "join": "{{ " + MANY + " | join('x' * 100000) }}",
    "str.join": "{{ ('x' * 100000).join(" + MANY + " | map('string')) }}",
    "replace": "{{ ('x' * 100000) | replace('x', 'y' * 100000) }}",
    "str.replace": "{{ ('x' * 100000).replace('x', 'y' * 100000) }}",
    "str.translate": "{{ ('a' * 100000).translate({97: 'y' * 100000}) }}",
    "str.center": "{{ messages[0].content.center(1000000000) }}",
    "str.ljust": "{{ 'a'.ljust(1000000000) }}",
    "str.zfill": "{{ 'a'.zfill(1000000000) }}",
    "str.expandtabs": "{{ '\t'.expandtabs(1000000000) }}",
    "list of characters": "{{ ('x' * 900000) | list }}",
    "split": "{{ ('x ' * 400000).split(' ') }}",
    "splitlines": "{{ ('\n' * 900000).splitlines() }}",
    "many fields": "{{ ('{0}' * 100000).format('x' * 100000) }}",
    "many conversions": "{{ ('%(a)s' * 100000) % {'a': 'x' * 100000} }}",
}
TOO_WIDE = {
    "conversion": "{{ '%1000000000d' % 1 }}",
    "conversion by number": "{{ '%*d' % (1000000000, 1) }}",
    "precision": "{{ '%.1000000000f' % 1.5 }}",
    "format filter": "{{ '%1000000000d' | format(1) }}",
    "format": "{{ '{:1000000000}'.format(1) }}",
    "nested format": "{{ '{:{}}'.format(1, 1000000000) }}",
    "safe format": "{{ ('{:1000000000}' | safe).format(1) }}",
    "center": "{{ 'a' | center(1000000000) }}",
    "indent": "{{ 'a\nb' | indent(1000000000) }}",
    "tojson": "{{ messages | tojson(indent=1000000000) }}",
    "batch": "{{ [1] | batch(1000000000, 0) | list }}",
    "slice": "{{ [1] | slice(1000000000) | list }}",
}
TOO_MUCH = {
    "nested loops": "{% for i in " + MANY + " %}{% for j in " + MANY + " %}{% endfor %}{% endfor %}",
    "loops with a context": "{% for i in "
    + MANY
    + " %}{% for j in "
    + MANY
    + " %}{% if loop.last %}{% endif %}{% endfor %}{% endfor %}",
    "branching macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
}
TOO_LARGE_NUMBERS = {
    "power": "{{ 10 ** (10 ** 8) }}",
    "squares": "{% set n = namespace(x=7) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
}
ESCAPES = [
    "''.__class__",
    "''['__class__']",
    "messages[0].content.__class__.__mro__",
    "messages.__class__",
    "messages[0].__init__.__globals__",
    "'' | attr('__class__')",
    "raise_exception.__globals__",
    "strftime_now.__globals__",
    "namespace.__init__.__globals__",
    "namespace(a=1).__class__",
    "cycler.__init__.__globals__",
    "dict.__class__",
    "dict.__call__.__globals__",
    "self._TemplateReference__context",
    "range.__self__",
    "''.join.__self__",
    "''.join.__globals__",
    "messages[0].content.strip.__func__",
    "(messages | map('upper')).gi_frame",
]


def refusals(text: str, match: str) -> None:
    template = ChatTemplate(text, name="hostile", limits=LIMITS)
    for render in (template.render, template.render_traced):
        with pytest.raises(TokenizerError, match=match):
            render(MESSAGES)


@pytest.mark.parametrize("case", sorted(TOO_LONG))
def test_a_text_or_list_beyond_the_limit_is_refused_before_it_is_made(case: str) -> None:
    refusals(TOO_LONG[case], r"^hostile: It makes a text or list of [\d,]+ elements, more than the 1,000,000")


@pytest.mark.parametrize("case", sorted(TOO_WIDE))
def test_a_width_beyond_the_limit_is_refused(case: str) -> None:
    refusals(
        TOO_WIDE[case], r"^hostile: It (asks for a width of 1,000,000,000|formats a field of width .* not allowed)"
    )


@pytest.mark.parametrize("case", sorted(TOO_MUCH))
def test_a_template_that_takes_too_many_steps_is_refused(case: str) -> None:
    refusals(TOO_MUCH[case], r"^hostile: It takes more than the 50,000 steps that are allowed\.$")


def test_a_template_that_takes_too_long_is_refused() -> None:
    template = ChatTemplate(TOO_MUCH["nested loops"], limits=Limits(max_seconds=0.01))
    for render in (template.render, template.render_traced):
        with pytest.raises(TokenizerError, match=r"It takes longer than the 0\.01 seconds that are allowed\.$"):
            render(MESSAGES)


@pytest.mark.parametrize("case", sorted(TOO_LARGE_NUMBERS))
def test_a_number_beyond_the_limit_is_refused(case: str) -> None:
    refusals(TOO_LARGE_NUMBERS[case], r"^hostile: It makes a number of [\d,]+ bits")


def test_a_range_beyond_the_limit_is_refused() -> None:
    refusals("{% for i in range(1000000000) %}{% endfor %}", "Range too big")


def test_a_macro_without_end_is_refused() -> None:
    refusals("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError")


@pytest.mark.parametrize(
    "text", ["{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "{% if 1 %}" * 500 + "{% endif %}" * 500]
)
def test_a_template_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(TokenizerError, match="^deep: its expressions are nested too deeply"):
        ChatTemplate(text, name="deep")


@pytest.mark.parametrize("expression", ESCAPES)
def test_the_sandbox_has_no_way_out(expression: str) -> None:
    refusals("{{ (" + expression + ").anything }}", "unsafe|undefined|has no attribute")


@pytest.mark.parametrize(
    "expression",
    [
        "'{0.__class__}'.format('')",
        "'{0[__class__]}'.format('')",
        "'{a.__class__}'.format_map({'a': messages[0].content})",
        "('{0.__class__}' | safe).format(messages[0].content)",
        "('{a.__class__}' | safe).format_map({'a': ''})",
    ],
)
def test_a_format_shows_nothing_of_what_is_unsafe(expression: str) -> None:
    template = ChatTemplate("<{{ " + expression + " }}>")
    assert template.render_traced(MESSAGES) == template.render(MESSAGES) == "<>"


@pytest.mark.parametrize(
    "expression",
    ["messages.append(1)", "messages.clear()", "messages[0].pop('role')", "messages[0].update({})", "[1].insert(0, 1)"],
)
def test_nothing_that_a_template_is_given_can_be_changed(expression: str) -> None:
    refusals("{{ " + expression + " }}", "is unsafe")


def test_a_namespace_has_no_underscored_names() -> None:
    refusals("{% set n = namespace(__class__=1) %}", "no names that start with an underscore")
    refusals("{% set n = namespace() %}{% set n._a = 1 %}", "no names that start with an underscore")


def test_the_limits_leave_large_rows_alone() -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.role + ':' + m.content + '\n' }}{% endfor %}")
    for messages in ([{"role": "user", "content": "x" * 10_000_000}], [{"role": "user", "content": "x"}] * 2_000):
        traced = template.render_traced(messages)
        assert traced == template.render(messages)


@pytest.mark.parametrize("name", ["runs", "remade", "spelled", "recased", "of"])
def test_a_template_sees_nothing_of_the_tracing(name: str) -> None:
    template = ChatTemplate("{{ messages[0].content." + name + " is defined }}")
    assert template.render_traced(MESSAGES) == template.render(MESSAGES) == "False"


@pytest.mark.parametrize(
    "text", ["{{ lipsum() }}", "{{ messages | random }}", "{% include 'x' %}", "{% import 'x' as y %}"]
)
def test_what_is_random_or_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(TokenizerError):
        ChatTemplate(text).render(MESSAGES)
