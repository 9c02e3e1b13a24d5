"""Whether a stretch of text holds a message's own strings: whole, once, in order."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from torchpipe.data.openai_dicts import REASONING_KEYS
from torchpipe.tokenizers.jinja.provenance import Source
from torchpipe.tokenizers.jinja.rendering import Printed, Rendering
from torchpipe.tokenizers.jinja.text import TracedText

_THINK_TAG = re.compile(r"</?think(?:ing)?>")
_PYTHON_LIST = re.compile(r"""('text': ['"]|[\[,] ?')$""")
"""What stands before a part's text where a template prints the list of parts itself."""
_RARE_KEYS = ("refusal", "audio", "function_call")
_TEXT_ALONE = {"role", "content"}
_LONGEST_TAG_DISTANCE = 64
"""How far before a text, in characters, a template may have written the think tag that it took from the text."""


def what_is_lost(rendering: Rendering, message: int, start: int, stop: int) -> str | None:
    """The first fault of the message's strings in [start, stop) of the text, as words; None where all are there.

    A string is there when all of it stands there once and in order, but for white space at its edges, and for think
    tags that the template writes itself. What a template writes once more behind the turn, as a call's name beside its
    result, is context of the turns that follow.
    """
    row, held = rendering.rows[message], rendering.printed_of(message)
    if len(held) == 1 and row.keys() == _TEXT_ALONE and _is_whole(row["content"], held[0], start, stop):
        return None  # nearly always: text alone, in one stretch
    parts: dict[Source, list[Printed]] = {}
    for part in held:
        parts.setdefault(part[2], []).append(part)
    for source in _training_sources(row):
        printed = parts.get(source, ())
        fault = _fault_of(rendering.text, source, printed, start, stop)
        fault = fault or _written_as_a_string(rendering.text, source, printed)
        if fault is not None:
            return f"{field_name(source)} {fault}"
    return None


def _is_whole(content: Any, part: Printed, start: int, stop: int) -> bool:
    """Whether a part within [start, stop) is all of a message's content."""
    begin, end, source, source_start, source_stop = part
    return (
        type(content) is TracedText
        and len(content.runs) == 1
        and content.runs[0].source is source
        and source_stop - source_start == len(source.text)
        and start <= begin
        and end <= stop
    )


def lost_number(message: Mapping[str, Any], text: str) -> str | None:
    """The first number or truth value of a call's arguments that is not in the text of the turn, as words.

    Numbers have no origin that could be followed, so this looks for how JSON and Python spell them.
    """
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function", call)
        for value in _numbers(function.get("arguments")):
            spellings = {str(value), json.dumps(value)} | (
                {str(int(value))} if isfinite(value) and value == int(value) else set()
            )
            if not any(spelled in text for spelled in spellings):
                return f"tool_calls[{number}].function.arguments lacks {value!r}"
    return None


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, (Mapping, list)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers(item)


def field_name(source: Source) -> str:
    """A string's place in its message: ``tool_calls[0].function.arguments``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in source.path).lstrip(".")


def _fault_of(text: str, source: Source, parts: Sequence[Printed], start: int, stop: int) -> str | None:
    if len(parts) == 1 and (len(source.path) == 1 or source.path[0] != "content"):  # nearly always: one stretch, whole
        (only,) = parts
        if only.source_stop - only.source_start == len(source.text) and start <= only.start and only.stop <= stop:
            return None
    inside = [part for part in parts if start <= part.start and part.stop <= stop]
    if not inside:
        if not source.text.strip():
            return None
        return "is not in the template's text" if not parts else "stands outside what the model would sample"
    if any(part.start < stop and part not in inside for part in parts):
        return "stands partly outside what the model would sample"
    if len(source.path) > 1 and source.path[0] == "content":
        before = text[max(0, inside[0].start - _LONGEST_TAG_DISTANCE) : inside[0].start]
        if _PYTHON_LIST.search(before):
            return "is written as a Python list of parts: the template knows content that is text alone"
    taken_to, text_from = 0, max(0, inside[0].start - _LONGEST_TAG_DISTANCE)
    for part in inside:
        if part.source_start < taken_to:
            return "is written more than once, or out of order"
        if not _may_be_missing(source.text, taken_to, part, text[text_from : part.start]):
            return f"lacks {shown(source.text[taken_to : part.source_start])}"
        taken_to, text_from = part.source_stop, part.stop
    rest = source.text[taken_to:]
    if rest.strip() and not _only_tags(rest, text[text_from:stop]):
        return f"lacks {shown(rest)}"
    return None


def _written_as_a_string(text: str, source: Source, parts: Sequence[Printed]) -> str | None:
    """What is wrong where JSON text of a call's arguments stands in quotes: it was escaped once more."""
    if source.path[-1] != "arguments" or source.path[0] != "tool_calls" or not parts:
        return None
    if text[parts[0].start - 1 : parts[0].start] == text[parts[-1].stop : parts[-1].stop + 1] == '"':
        return "is JSON text that the template writes as a string, escaped: set tool_arguments to 'parsed'"
    return None


def _may_be_missing(text: str, taken_to: int, part: Printed, between: str) -> bool:
    missing = text[taken_to : part.source_start]
    if not missing:
        return True
    if not missing.strip() and taken_to == 0:
        return True
    return _only_tags(missing, between) and (taken_to == 0 or bool(_THINK_TAG.search(missing)))


def _only_tags(missing: str, written: str) -> bool:
    """Whether the missing text is think tags and white space, and the template wrote the same tags in its place."""
    return not _THINK_TAG.sub("", missing).strip() and all(tag in written for tag in _THINK_TAG.findall(missing))


def shown(text: str) -> str:
    """The text in quotes, cut where it is long."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def _training_sources(message: Mapping[str, Any]) -> list[Source]:
    """The strings of a message that a training text has to hold: content, reasoning, names and arguments of calls.

    So are a refusal, the transcript of audio and the call of OpenAI's older layout, which few templates know.
    """
    found: list[Source] = []
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            _add_strings(found, part.get("text") if isinstance(part, dict) else part)
    else:
        _add_strings(found, content)
    seen: list[Any] = []
    for key in REASONING_KEYS:
        if key in message and not any(message[key] is other for other in seen):
            seen.append(message[key])
            _add_strings(found, message[key])
    for key in _RARE_KEYS:
        held = message.get(key)
        _add_strings(found, list(held.values()) if isinstance(held, dict) else held)
    for call in message.get("tool_calls") or ():
        function = call.get("function", call) if isinstance(call, dict) else {}
        if isinstance(function, dict):
            _add_strings(found, function.get("name"))
            _add_strings(found, function.get("arguments"))
    return found


def _add_strings(found: list[Source], value: Any) -> None:
    """Adds the sources of all strings within a value, keys included."""
    if isinstance(value, TracedText):
        found += [run.source for run in value.runs if type(run.source) is Source]
    elif isinstance(value, dict):
        for key, item in value.items():
            _add_strings(found, key)
            _add_strings(found, item)
    elif isinstance(value, list):
        for item in value:
            _add_strings(found, item)
