"""Whether a stretch of text holds a message's own strings: whole, once, in order."""

import re

from torchpipe.tokenizers.jinja.provenance import Source
from torchpipe.tokenizers.jinja.rendering import Printed, Rendering

_THINK_TAG = re.compile(r"</?think(?:ing)?>")
_PYTHON_LIST = re.compile(r"""('text': ['"]|[\[,] ?')$""")
"""What stands before a part's text where a template prints the list of parts itself."""
_LONGEST_TAG_DISTANCE = 64
"""How far before a text, in characters, a template may have written the think tag that it took from the text."""


def what_is_lost(rendering: Rendering, message: int, start: int, stop: int) -> str | None:
    """The first fault of the message's strings in [start, stop) of the text, as words; None where all are there.

    A string is there when all of it stands there once and in order, but for white space at its edges, and for think
    tags that the template writes itself. What a template writes once more behind the turn, as a call's name beside its
    result, is context of the turns that follow.
    """
    for source in rendering.sources[message]:
        fault = _fault_of(rendering, source, start, stop) or _written_as_a_string(rendering, source)
        if fault is not None:
            return f"{field_name(source)} {fault}"
    return None


def field_name(source: Source) -> str:
    """A string's place in its message: ``tool_calls[0].function.arguments``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in source.path).lstrip(".")


def _fault_of(rendering: Rendering, source: Source, start: int, stop: int) -> str | None:
    parts = rendering.printed.get(source, ())
    inside = [part for part in parts if start <= part.start and part.stop <= stop]
    if not inside:
        if not source.text.strip():
            return None
        return "is not in the template's text" if not parts else "stands outside what the model would sample"
    if any(part.start < stop and part not in inside for part in parts):
        return "stands partly outside what the model would sample"
    if len(source.path) > 1 and source.path[0] == "content":
        before = rendering.text[max(0, inside[0].start - _LONGEST_TAG_DISTANCE) : inside[0].start]
        if _PYTHON_LIST.search(before):
            return "is written as a Python list of parts: the template knows content that is text alone"
    taken_to, text_from = 0, max(0, inside[0].start - _LONGEST_TAG_DISTANCE)
    for part in inside:
        if part.source_start < taken_to:
            return "is written more than once, or out of order"
        if not _may_be_missing(source.text, taken_to, part, rendering.text[text_from : part.start]):
            return f"lacks {shown(source.text[taken_to : part.source_start])}"
        taken_to, text_from = part.source_stop, part.stop
    rest = source.text[taken_to:]
    if rest.strip() and not _only_tags(rest, rendering.text[text_from:stop]):
        return f"lacks {shown(rest)}"
    return None


def _written_as_a_string(rendering: Rendering, source: Source) -> str | None:
    """What is wrong where JSON text of a call's arguments stands in quotes: it was escaped once more."""
    parts = rendering.printed.get(source, ())
    if source.path[-1] != "arguments" or source.path[0] != "tool_calls" or not parts:
        return None
    text = rendering.text
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
