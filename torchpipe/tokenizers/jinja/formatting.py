"""Values written as text, as Python and JSON write them, with the provenance of every string inside.

Each function writes the plain text with Python's own code first, then finds where its characters came from. Should the
two ever differ, the plain text wins and its origin is unknown.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from torchpipe.tokenizers.jinja.provenance import UNKNOWN, Run
from torchpipe.tokenizers.jinja.text import TracedText, joined

_JSON_ESCAPES = {
    False: (re.compile(r'[\x00-\x1f\\"]'), json.encoder.encode_basestring),
    True: (re.compile(r'[\\"]|[^\ -~]'), json.encoder.encode_basestring_ascii),
}
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&#39;", '"': "&#34;"}
_HTML_ESCAPES = re.compile("[&<>'\"]")
_REPR_ESCAPES = re.compile(r"[\\'\"]|[^\ -~]")
_CONVERSION = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<how>[#0\- +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?)[hlL]?(?P<kind>.)", re.S
)


def lost(text: str) -> TracedText:
    """A text whose origin is unknown."""
    return TracedText(text, (Run(len(text), UNKNOWN, 0, 0, False),) if text else ())


def holds_traced(value: Any) -> bool:
    """Whether a value is traced text or bytes, which texts are made of, or a container with some inside."""
    if isinstance(value, (TracedText, bytes, bytearray)):
        return True
    if isinstance(value, Mapping):
        return any(holds_traced(key) or holds_traced(item) for key, item in value.items())
    return isinstance(value, (list, tuple, set, frozenset)) and any(map(holds_traced, value))


def printed(value: Any) -> str:
    """``str(value)`` with provenance.

    >>> printed({"a": [1, None, "it's"]})
    '{\\'a\\': [1, None, "it\\'s"]}'
    """
    if type(value) is TracedText or type(value) is str:
        return value
    text = str(value)
    if isinstance(value, str):
        return text
    if isinstance(value, (dict, list, tuple)):
        return _checked(_python_chunks(value), text) if holds_traced(value) else text
    # Views of a dict, namespaces and the like print what they hold.
    is_scalar = value is None or isinstance(value, (bool, int, float)) or not text
    return text if is_scalar else lost(text)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """``json.dumps`` with provenance, with the arguments of the ``tojson`` filter of Hugging Face's chat templates."""
    options: dict[str, Any] = {"ensure_ascii": ensure_ascii, "separators": separators, "sort_keys": sort_keys}
    if not holds_traced(value):
        return json.dumps(value, indent=indent, **options)
    between, after_key = separators or (", " if indent is None else ",", ": ")
    step = " " * indent if isinstance(indent, int) else indent
    pattern, encode = _JSON_ESCAPES[ensure_ascii]
    chunks: list[str] = []
    pending = ""  # the signs since the last string

    def write(value: Any, newline: str) -> None:
        nonlocal pending
        if isinstance(value, str):
            escaped = encode(value)[1:-1]
            chunks.append(pending + '"')
            chunks.append(_escaped(value, escaped, pattern, lambda character: encode(character)[1:-1]))
            pending = '"'
        elif isinstance(value, (dict, list, tuple)) and value:
            is_dict = isinstance(value, dict)
            inner = newline + step if step is not None else ""
            before = ("{" if is_dict else "[") + inner
            for item in sorted(value.items()) if is_dict and sort_keys else value.items() if is_dict else value:
                pending += before
                if is_dict:
                    key, item = item
                    # Python's own code refuses keys that JSON can't have, and spells the others.
                    write(key if isinstance(key, str) else json.dumps({key: 0})[2:-5], inner)
                    pending += after_key
                write(item, inner)
                before = between + inner
            pending += (newline if step is not None else "") + ("}" if is_dict else "]")
        else:
            pending += json.dumps(value)

    write(value, "\n")
    result = joined([*chunks, pending])
    # With an indent Python writes JSON as slowly as this function, so it isn't asked twice.
    return result if indent is not None else _checked(iter((result,)), json.dumps(value, **options))


def percent(template: str, values: Any) -> TracedText:
    """``template % values`` with provenance."""
    text = str.__mod__(template, values)
    return _checked(_percent_chunks(template, values), text)


def braces(
    template: str, args: Sequence[Any], kwargs: Mapping[str, Any], formatter: Formatter | None = None
) -> TracedText:
    """``template.format(*args, **kwargs)`` with provenance.

    Args:
        template: the format. Where it is traced itself, the origin of the result is unknown.
        args, kwargs: what is filled in.
        formatter: looks up the fields; Python's own by default.
    """
    formatter = formatter or Formatter()
    text = formatter.vformat(template, args, kwargs)
    if isinstance(template, TracedText):
        return lost(text)
    return _checked(_brace_chunks(template, args, kwargs, formatter), text)


def html_escaped(text: str, escaped: str) -> str:
    """``escaped``, the HTML escape of a text, with provenance."""
    return _escaped(text, escaped, _HTML_ESCAPES, lambda character: _HTML[character])


def _checked(chunks: Iterator[str], text: str) -> TracedText:
    """The chunks as one text, if that is ``text``; where they can't be had either, the origin is unknown."""
    try:
        result = joined(chunks)
    except Exception:
        return lost(text)
    return result if result == text else lost(text)


def _escaped(text: str, escaped: str, pattern: re.Pattern[str], spell: Any) -> str:
    """``escaped``, which is ``text`` with the characters that match a pattern spelled otherwise."""
    if not isinstance(text, TracedText):
        return escaped
    if len(text) == len(escaped):
        return text
    return text.spelled({match.start(): spell(match.group()) for match in pattern.finditer(text)})


def _python_chunks(value: Any) -> Iterator[str]:
    """What ``repr(value)`` is made of."""
    if isinstance(value, str):
        text = str.__repr__(value)
        quote = text[0]

        def spell(character: str) -> str:
            return "\\'" if character == quote == "'" else character if character in "'\"" else repr(character)[1:-1]

        yield from (quote, _escaped(value, text[1:-1], _REPR_ESCAPES, spell), quote)
    elif isinstance(value, dict):
        yield "{"
        for i, (key, item) in enumerate(value.items()):
            yield ", " if i else ""
            yield from _python_chunks(key)
            yield ": "
            yield from _python_chunks(item)
        yield "}"
    elif isinstance(value, (list, tuple)):
        start, end = "[]" if isinstance(value, list) else "()"
        yield start
        for i, item in enumerate(value):
            yield ", " if i else ""
            yield from _python_chunks(item)
        yield ",)" if end == ")" and len(value) == 1 else end
    else:
        yield lost(repr(value)) if holds_traced(value) else repr(value)


def _percent_chunks(template: str, values: Any) -> Iterator[str]:
    fields: Any = values  # a mapping, where the template names its fields
    at = used = 0
    for match in _CONVERSION.finditer(template):
        yield template[at : match.start()]
        at = match.end()
        key, how, kind = match["key"], match["how"], match["kind"]
        if kind == "%":
            yield template[at - 1 : at]
            continue
        value = fields[key] if key is not None else values[used] if isinstance(values, tuple) else values
        used += 1
        if kind == "s" and not how:
            yield printed(value)
        else:
            text = f"%{how}{kind}" % (value,)
            yield value.remade(text) if isinstance(value, TracedText) else lost(text) if holds_traced(value) else text
    yield template[at:]


def _brace_chunks(template: str, args: Any, kwargs: Any, formatter: Formatter) -> Iterator[str]:
    automatic = 0
    for literal, field, spec, conversion in formatter.parse(template):
        yield literal
        if field is None:
            continue
        if field == "" or field[0] in ".[":
            field, automatic = f"{automatic}{field}", automatic + 1
        value = formatter.get_field(field, args, kwargs)[0]
        if not spec and conversion in (None, "s"):
            yield printed(value)
        elif not spec and conversion == "r" and holds_traced(value):
            yield joined(_python_chunks(value))
        else:
            text = formatter.format_field(
                formatter.convert_field(value, conversion), formatter.vformat(spec or "", args, kwargs)
            )
            plain = str(text)
            yield (
                value.remade(plain) if isinstance(value, TracedText) else lost(plain) if holds_traced(value) else plain
            )
