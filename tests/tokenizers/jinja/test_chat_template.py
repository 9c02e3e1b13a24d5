"""Chat templates render what transformers renders, traced or not, and say truly where it came from."""

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.jinja.provenance import OPTIONS, TEMPLATE, TOOLS, UNKNOWN, Mark, Source
from torchpipe.tokenizers.jinja.template import ChatTemplate
from torchpipe.tokenizers.jinja.text import TracedText, mark_text

# Templates that need a function of their host (`from_json`, which transformers doesn't have either).
NEVER_RENDER = 2
CONVERSATION = [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "Hi, <b>you</b>"},
    {
        "role": "assistant",
        "content": 'He said "hi"',
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": "é\\n"}}}],
    },
]


@pytest.fixture(scope="session")
def transformers_template(oracle_file) -> Callable[[str], Any]:
    """Function template text -> the jinja template that transformers makes of it."""
    oracle_file("transformers", "utils", "chat_template_utils.py")
    from transformers.utils import chat_template_utils

    return chat_template_utils._compile_jinja_template


def outcome(render: Callable[..., str], *args: Any, **kwargs: Any) -> tuple[str | None, str]:
    """The text, or why there is none."""
    try:
        return render(*args, **kwargs), ""
    except Exception as error:
        return None, str(error)


def check_origins(text: TracedText) -> None:
    at = 0
    for run in text.runs:
        assert run.source is not UNKNOWN
        if isinstance(run.source, Source) and run.exact:
            assert text[at : at + run.length] == run.source.text[run.start : run.stop]
        at += run.length
    assert at == len(text)


def test_all_templates_render_all_conversations_as_transformers_does(
    chat_templates, conversations, template_options, transformers_template
) -> None:
    assert (len(chat_templates), len(conversations)) == (106, 64)
    counts = {"rendered": 0, "refused": 0}
    rendering = set()
    for name, text in chat_templates.items():
        template, oracle = ChatTemplate(text, name=name), transformers_template(text)
        for conversation in conversations:
            given = conversation._asdict()
            given.pop("id")
            plain, refusal = outcome(template.render, **given, **template_options)
            traced = outcome(template.render_traced, **given, options=template_options)
            expected, words = outcome(oracle.render, **given, **template_options)
            assert traced == (plain, refusal), (name, conversation.id)
            assert plain == expected, (name, conversation.id)
            assert words in refusal
            if isinstance(traced[0], TracedText):
                check_origins(traced[0])
                rendering.add(name)
            counts["refused" if plain is None else "rendered"] += 1
    assert counts == {"rendered": 6784 - 753, "refused": 753}
    assert len(rendering) == 106 - NEVER_RENDER


def plain_and_traced(text: str, messages: list[dict[str, Any]] = CONVERSATION, **options: Any) -> TracedText:
    """The traced render, after a look at the plain one."""
    template = ChatTemplate(text)
    traced = template.render_traced(messages, options=options)
    assert traced == template.render(messages, **options)
    check_origins(traced)
    return traced


def origins(text: TracedText) -> list[tuple[str, Any]]:
    at, found = 0, []
    for run in text.runs:
        source = run.source.path if isinstance(run.source, Source) else run.source
        found.append((str.__str__(text[at : at + run.length]), source))
        at += run.length
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'<' + m.content + '>'", '<He said "hi">'),
        ("'<' ~ m.content ~ 1 ~ '>'", '<He said "hi"1>'),
        ("'<%s|%s>' % (m.content, m.role)", '<He said "hi"|assistant>'),
        ("'<%s>' % m.content", '<He said "hi">'),
        ("'<{}|{a}>'.format(m.content, a=m.role)", '<He said "hi"|assistant>'),
        ("'<{0.role}|{0[content]}>'.format(m)", '<assistant|He said "hi">'),
        ("'<{a}>'.format_map({'a': m.content})", '<He said "hi">'),
        ("', '.join([m.role, m.content])", 'assistant, He said "hi"'),
        ("[m.role, m.content] | join('|')", 'assistant|He said "hi"'),
        ("messages | map(attribute='role') | join('|')", "system|user|assistant"),
        ("messages | map(attribute='content') | map('trim') | join('|')", 'Be brief.|Hi, <b>you</b>|He said "hi"'),
        ("'a-b'.replace('-', m.content)", 'aHe said "hi"b'),
        ("'a-b' | replace('-', m.content)", 'aHe said "hi"b'),
        ("m.content | replace('hi', 'HI') | lower", 'he said "hi"'),
        ("m.content | title", 'He Said "hi"'),
        ("m.content | capitalize | upper", 'HE SAID "HI"'),
        ("m.content | indent(2, true)", '  He said "hi"'),
        ("'a\\n\\nb' | indent(m.content)", 'a\n\nHe said "hi"b'),
        ("m.content | center(14)", ' He said "hi" '),
        ("m.content | list | join", 'He said "hi"'),
        ("m.content | first ~ (m.content | last)", 'H"'),
        ("m.content | reverse", '"ih" dias eH'),
        ("m.content[3:7] * 2", "saidsaid"),
        ("m.content.split(' ') | last", '"hi"'),
        ("m.content.partition(' ')[0]", "He"),
        ("m.content | tojson", '"He said \\"hi\\""'),
        ("m.tool_calls[0].function | tojson", '{"name": "f", "arguments": {"a": "é\\\\n"}}'),
        ("m.tool_calls[0].function.arguments", "{'a': 'é\\\\n'}"),
        ("m.tool_calls[0].function.arguments | string", "{'a': 'é\\\\n'}"),
        ("m.tool_calls[0].function.arguments | trim", "{'a': 'é\\\\n'}"),
        ("m.tool_calls | tojson(indent=1) | length", "84"),
        ("m.content | safe + '<'", 'He said "hi"&lt;'),
        ("m.content + ('<' | safe)", "He said &#34;hi&#34;<"),
        ("('<' | safe) ~ m.content", '<He said "hi"'),
        ("(m.content | e) | string", "He said &#34;hi&#34;"),
        ("['<', m.content] | join('&' | safe)", '<&He said "hi"'),
        ("('<' | safe).join(['&', m.content])", "&amp;<He said &#34;hi&#34;"),
        ("m.content if m.content is string and 'hi' in m.content else none", 'He said "hi"'),
        ("{'a': m.content}.a", 'He said "hi"'),
        ("dict(a=m.content)['a']", 'He said "hi"'),
        ("m.content | default('none', true)", 'He said "hi"'),
        ("m.missing", ""),
        ("m.index", ""),
        ("'<' + m.role + '|' + (m.content + '>') + '!'", '<assistant|He said "hi">!'),
        ("('<' + m.role + '|' + m.content) | upper", '<ASSISTANT|HE SAID "HI"'),
        ("'<' + (m.content | safe) + '<' + m.content", '&lt;He said "hi"&lt;He said &#34;hi&#34;'),
        ("1 + 2 + m.content | length", "15"),
        ("[m.role] + [m.content] + []", "['assistant', 'He said \"hi\"']"),
    ],
)
def test_an_expression_prints_as_in_jinja_and_keeps_its_origins(expression: str, expected: str) -> None:
    assert plain_and_traced("{% set m = messages[2] %}{{ " + expression + " }}") == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{% macro f(x) %}<{{ x }}>{{ caller() }}{% endmacro %}{% call f(messages[1].content) %}!{% endcall %}",
         "<Hi, <b>you</b>>!"),
        ("{% set x %}<{{ messages[0].content | trim }}>{% endset %}{{ x | upper }}", "<BE BRIEF.>"),
        ("{% filter upper %}a{{ messages[0].content }}{% endfilter %}", "A BE BRIEF. "),
        ("{% set n = namespace(x='') %}{% for m in messages %}{% set n.x = n.x + m.role[0] %}{% endfor %}{{ n.x }}",
         "sua"),
        ("{% for k, v in messages[2].items() if k == 'content' %}{{ k }}={{ v }}{% endfor %}", 'content=He said "hi"'),
        ("{% macro f(x) %}{{ '<' + x + '>' }}{% endmacro %}{% set y %}{{ '(' + f(messages[1].role) + ')' }}{% endset %}"
         "{{ y }}", "(<user>)"),
        ("{% autoescape true %}{{ '<' + messages[1].role + '>' }}{% endautoescape %}", "&lt;user&gt;"),
        ("{% autoescape true %}{{ messages[1].content }}{{ '<' ~ messages[1].content }}{% endautoescape %}",
         "Hi, &lt;b&gt;you&lt;/b&gt;&lt;Hi, &lt;b&gt;you&lt;/b&gt;"),
        ("{% for m in messages recursive %}{{ m.role }}{% if m.content is sequence and m.role == 'x' %}{{ loop(m) }}"
         "{% endif %}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}", "systemuser"),
    ],
)  # fmt: skip
def test_a_statement_prints_as_in_jinja_and_keeps_its_origins(template: str, expected: str) -> None:
    assert plain_and_traced(template) == expected


@pytest.mark.parametrize("filter", ["wordwrap(3)", "urlencode", "striptags", "pprint", "xmlattr", "urlize"])
def test_a_filter_that_follows_no_characters_loses_them_visibly(filter: str) -> None:
    value = "{'a': messages[1].content}" if filter == "xmlattr" else "messages[1].content"
    template = ChatTemplate("<{{ " + value + " | " + filter + " }}>")
    text = template.render_traced(CONVERSATION)
    assert text == template.render(CONVERSATION)
    assert UNKNOWN in [run.source for run in text.runs]


@pytest.mark.parametrize(
    "expression",
    [
        "'abc'.translate({97: messages[1].content})",
        "messages[1].content.translate({})",
        "messages[1].content.encode()",
        "messages[1].items()",
        "namespace(a=messages[1].content)",
        "('%s' | safe) % messages[1].content",
        "('{}' | safe).format(messages[1].content)",
        "messages[1].content.format()",
    ],
)
def test_an_operation_that_follows_no_characters_loses_them_visibly(expression: str) -> None:
    template = ChatTemplate("<{{ " + expression + " }}>")
    text = template.render_traced(CONVERSATION)
    assert text == template.render(CONVERSATION)
    assert [run.source for run in text.runs] == [TEMPLATE, UNKNOWN, TEMPLATE]


def test_each_part_of_a_conversation_has_its_source() -> None:
    tools = [{"type": "function", "function": {"name": "g"}}]
    template = ChatTemplate(
        "{{ bos_token }}{{ day }}{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"
        "{{ messages[2].tool_calls[0].function.arguments | tojson }}{{ tools[0].function | items | list }}"
    )
    text = template.render_traced(CONVERSATION, tools, options={"bos_token": "<s>", "day": "Monday"})
    sources = [(run.source.message, run.source.path) for run in text.runs if isinstance(run.source, Source)]
    arguments = ("tool_calls", 0, "function", "arguments")
    assert list(dict.fromkeys(sources)) == [
        (OPTIONS, ("day",)),
        (0, ("content",)),
        (1, ("content",)),
        (2, ("content",)),
        (2, (*arguments, "key:a")),
        (2, (*arguments, "a")),
        (TOOLS, (0, "function", "key:name")),
        (TOOLS, (0, "function", "name")),
    ]
    assert origins(text)[0] == ("<s>", TEMPLATE)


def test_generation_blocks_are_scopes_and_print_nothing(transformers_template) -> None:
    text = "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"
    assert plain_and_traced(text) == transformers_template(text).render() == "21"


def test_messages_that_are_wrapped_already_are_taken_as_they_are() -> None:
    class Messages(list[Any]):
        pass

    source = Source(7, ("mine",), "Hello")
    text = ChatTemplate("{{ messages[0].content }}{{ flag.value }}").render_traced(
        Messages([{"role": "user", "content": TracedText.of(source)}]), options={"flag": {"value": 1}}
    )
    assert [run.source for run in text.runs] == [source, TEMPLATE]


def test_a_transform_may_put_marks_into_the_traced_form() -> None:
    from jinja2 import nodes

    mark = Mark("start")

    def transform(tree: nodes.Template) -> nodes.Template:
        for loop in tree.find_all(nodes.For):
            loop.body.insert(0, nodes.Output([nodes.Name("start_mark", "load")]))
        return tree

    template = ChatTemplate("{% for m in messages %}{{ m.role }}{% endfor %}", transform=transform)
    text = template.render_traced(CONVERSATION, options={"start_mark": mark_text(mark)})
    assert text == template.render(CONVERSATION) == "systemuserassistant"
    assert [run.length for run in text.runs if run.source is not mark] == [6, 4, 9]
    assert [run.source for run in text.runs].count(mark) == 3


def test_a_loop_context_of_ones_own_sees_the_loops() -> None:
    from jinja2.runtime import LoopContext

    from torchpipe.tokenizers.jinja.environment import STATE

    seen = []

    class Looked(LoopContext):
        @property
        def last(self) -> bool:
            seen.append(STATE.get().printed)
            return super().last

    text = "{% for m in messages %}{{ m.role }}{% if loop.last %}.{% endif %}{% endfor %}"
    template = ChatTemplate(text, loop_context=Looked)
    assert template.render_traced(CONVERSATION) == template.render(CONVERSATION) == "systemuserassistant."
    assert seen == [6, 10, 19]


def test_a_template_survives_pickling_and_serves_many_threads() -> None:
    template = pickle.loads(pickle.dumps(ChatTemplate("{% for m in messages %}{{ m.content }}|{% endfor %}", name="a")))
    assert template.name == "a"
    results: dict[int, str] = {}

    def render(i: int) -> None:
        messages = [{"role": "user", "content": f"{i}.{j}"} for j in range(200)]
        results[i] = template.render_traced(messages)

    threads = [threading.Thread(target=render, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: "".join(f"{i}.{j}|" for j in range(200)) for i in range(8)}


def test_the_arguments_are_left_as_they_were() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    template = ChatTemplate("{% set _ = messages[0].update({'content': 1}) %}")
    for render in (template.render, template.render_traced):
        with pytest.raises(TokenizerError, match="unsafe"):
            render(messages)
    assert messages == [{"role": "user", "content": "Hi"}]
    assert type(messages[0]["content"]) is str


def test_a_refusal_speaks_the_template_s_words() -> None:
    template = ChatTemplate("{{ raise_exception('Roles must alternate: ' + messages[0].role) }}", name="strict")
    for render in (template.render, template.render_traced):
        with pytest.raises(TokenizerError, match=r"^strict: Roles must alternate: system$"):
            render(CONVERSATION)


@pytest.mark.parametrize(
    "terms", ["'<' + m.content + none + '>'", "'<' + m.content + 1", "'<' + m.content + m.no + 'x'"]
)
def test_a_sum_that_jinja_refuses_is_refused_in_the_same_words(terms: str) -> None:
    for printed in ("{{ " + terms + " }}", "{% set x = " + terms + " %}"):
        template = ChatTemplate("{% set m = messages[2] %}" + printed)
        text, words = outcome(template.render, CONVERSATION)
        assert text is None
        assert outcome(template.render_traced, CONVERSATION) == (None, words)


def test_an_error_names_the_template_and_its_line() -> None:
    template = ChatTemplate("{# one #}\n{{ messages[0].content.nothing.at_all }}", name="broken")
    for render in (template.render, template.render_traced):
        with pytest.raises(
            TokenizerError, match=r"broken: it fails in line 2: 'str object' has no attribute 'nothing'"
        ):
            render(CONVERSATION)
    with pytest.raises(TokenizerError, match=r"^mine, line 2: no valid jinja\."):
        ChatTemplate("\n{% for %}", name="mine")
