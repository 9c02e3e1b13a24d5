"""The sentences of an explanation, which text and HTML share. Everything here is safe to print."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from torchpipe.audit.explanation import DocumentView, Explanation, MessageView, RowView, TokenView
from torchpipe.audit.visible import visible
from torchpipe.data.whole_row import Cut

LEGEND = (
    "· space, ↵ newline, ␍ carriage return, ⇥ tab, │ between tokens, ⟦ ⟧ control token, "
    "⟨ ⟩ a byte or an invisible character; a mark that the text itself holds is written as its number"
)


def source_line(explanation: Explanation) -> str:
    """Where the rows come from, and how many there are."""
    source = visible(explanation.source or "data set", spaces=False)
    nouns = {"pack" if row.packed else row.noun for row in explanation.rows}
    what = "pack" if "pack" in nouns else nouns.pop() if len(nouns) == 1 else "row"
    what += "" if explanation.num_rows == 1 else "s"
    return source if explanation.num_rows is None else f"{source}: {explanation.num_rows:,} {what}"


def decided_line(explanation: Explanation) -> str:
    """What decides which tokens are trained; what isn't known is left out."""
    return ", ".join(
        visible(f"{name} {value}", spaces=False) for name, value in explanation.decided_by.items() if value is not None
    )


def row_line(explanation: Explanation, row: RowView) -> str:
    """One row in numbers; of joined data sets, also whose it is."""
    tokens = f"{row.num_tokens:,} tokens" if row.packed else _tokens(row.documents[0], row.num_tokens)
    counted = "refused" if row.refused else f"{tokens}, {row.num_trained:,} trained"
    if row.desirable is not None:
        counted += f", {'a desirable' if row.desirable else 'an undesirable'} answer"
    told = f"{'pack' if row.packed else row.noun} {row.index}: {counted}"
    if row.source is not None and row.source != explanation.source:
        number = "" if row.packed else f"row {row.documents[0].sample} "
        told = f"{told}, {number}of {visible(row.source, spaces=False)}"
    if not row.packed:
        return told
    num_padding = sum(len(document.tokens) for document in row.documents if document.padding)
    num_documents = sum(not document.padding for document in row.documents)
    what = "document"
    if any(document.side for document in row.documents):
        num_documents, what = num_documents // 2, "pair"
    plural = "" if num_documents == 1 else "s"
    return f"{told}, {num_documents} {what}{plural}, {num_padding:,} tokens of padding"


def document_line(row: RowView, place: int) -> str | None:
    """One document of a pack in numbers: which sample, which of its tokens, where, and at which positions; one side of
    a pair in numbers; None for the one document of a row.
    """
    document = row.documents[place]
    length = document.num_tokens
    if not row.packed:
        counted = "" if row.refused else f": {length:,} tokens, {document.num_trained:,} trained"
        return f"{document.side}{counted}" if document.side else None
    if document.padding:
        return f"padding: tokens {span(document.offset, length)} of the pack, not trained{_positions(document)}"
    told = f"document {place}"
    if document.source is not None:
        told += f": row {document.sample} of {visible(document.source, spaces=False)}"
        told += f" from its token {document.start} on" * bool(document.start)
    elif document.sample is not None:
        told += f": pair {document.sample}, {document.side}" if document.side else f": sample {document.sample}"
        if document.start:
            told += f" from its token {document.start} on"
    told += f", {_tokens(document, length)}, {document.num_trained:,} trained"
    return f"{told}; tokens {span(document.offset, length)} of the pack{_positions(document)}"


def _tokens(document: DocumentView, number: int) -> str:
    return f"{number:,} tokens{' and a last label' * document.ends_with_target}"


def cut_line(document: DocumentView) -> str | None:
    """What was cut, in a sentence; None where nothing was."""
    if not document.num_cut:
        return None
    if document.side and document.cut_side in _CUT_OF_PAIR:
        return f"{document.num_cut:,} tokens were cut{_CUT_OF_PAIR[document.cut_side]}"
    where = {None: "", "turns": " with the oldest turns"}.get(document.cut_side, f" on the {document.cut_side}")
    return f"{document.num_cut:,} tokens were cut{where} to {document.cut_to}"


_CUT_OF_PAIR = {
    "left": " from the start of the prompt",
    "turns": " from the prompt, with its oldest turns",
    "right": " from the end of the response",
    "both": " from the start of the prompt and the end of the response",
}


def shared_prompt_line(document: DocumentView) -> str:
    """What is said in place of the tokens that a rejected side has in common with the chosen one."""
    return f"the prompt, the same {document.num_shared:,} tokens as in chosen"


def cut_notes(sample: Mapping[str, Any]) -> Iterator[str]:
    """What else there is to say about a sample that is a part of its row."""
    cut: Cut = sample["cut"]
    if cut.side is None:
        yield f"tokens {span(cut.start, cut.stop - cut.start)} of a row that was split"
    if sample.get("lost_stop"):
        yield "the turn that was cut has lost its stop token, so the model is not taught to stop there"
    elif cut.stop_from is not None:
        yield "the turn that was cut keeps its stop token, in the last token's place"
    if num_images := sample.get("num_images_dropped"):
        yield f"{num_images} image{'s were' if num_images > 1 else ' was'} left out"


def span(first: int, length: int) -> str:
    """``first-last``, or the one number, or nothing.

    >>> span(4, 3), span(4, 1)
    ('4-6', '4')
    """
    return f"{first}-{first + length - 1}" if length > 1 else str(first) if length else "none"


def _positions(document: DocumentView) -> str:
    positions = [token.position for token in document.tokens[: document.num_tokens]]
    runs: list[tuple[int, int]] = []  # first, length
    for position in positions:
        if runs and position == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((position, 1))
    shown = ", ".join(span(*run) for run in runs[:3]) + (", ..." if len(runs) > 3 else "")
    return f", input_pos {shown}" if positions else ""


def message_line(index: int, message: MessageView) -> str:
    """Who speaks, and what the flags are."""
    flags = ["masked" if message.masked else "trained"]
    flags += ["call (ipython)"] * message.ipython + ["turn goes on (eot false)"] * (not message.eot)
    flags += [f"{message.num_images} image{'s' * (message.num_images > 1)}"] * (message.num_images > 0)
    flags += [] if message.weight is None else [f"weight {message.weight:g}"]
    name = f" {visible(message.name, spaces=False)!r}" if message.name else ""
    of_call = f", of call {visible(message.tool_call_id, spaces=False)!r}" if message.tool_call_id else ""
    return f"{index} {visible(message.role, spaces=False)}{name}, {', '.join(flags)}{of_call}"


def message_text(message: MessageView) -> list[tuple[str, str]]:
    """What the message holds, a line for each of its own: what it is (nothing for plain text), and the line.

    Spaces show at a line's ends only.
    """
    fields = [("reasoning", message.reasoning)] if message.reasoning else []
    if message.text or not (message.calls or message.reasoning):
        fields.append(("", message.text))
    for number, call in enumerate(message.calls):
        fields.append((f"call {number}", f"{call.name} {_as_json(call.arguments)}"))
    return [(field, line) for field, text in fields for line in _text_lines(text)]


def tools_line(tools: Any) -> str | None:
    """The tools that a row offers, by name where they are a list; None where it offers none."""
    if not tools:
        return None
    if isinstance(tools, str):
        return f"tools, as JSON text: {_cut(visible(tools, spaces=False))}"
    return f"tools: {_cut(', '.join(visible(_tool_name(tool), spaces=False) for tool in tools))}"


def _tool_name(tool: Any) -> str:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    name = (function if isinstance(function, Mapping) else tool).get("name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) else "(no name)"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LIST else f"{text[:_LONGEST_LIST]}..."


_LONGEST_LIST = 200


def _as_json(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)


def _text_lines(text: str) -> list[str]:
    lines = text.split("\n")
    shown = []
    for number, line in enumerate(lines):
        inner = line.strip(" ")
        before = len(line) - len(line.lstrip(" ")) if inner else len(line)
        after = len(line) - len(line.rstrip(" ")) if inner else 0
        end = "↵" if number < len(lines) - 1 else ""
        shown.append("·" * before + visible(inner, spaces=False) + "·" * after + end)
    return shown


def runs_of(document: DocumentView) -> Iterator[tuple[int, list[TokenView]]]:
    """The tokens in runs that share message, kind, image, reason, and proof: the first one's place, and they."""
    offset = document.offset
    for _, run in groupby(document.tokens, key=_sameness):
        tokens = list(run)
        yield offset, tokens
        offset += len(tokens)


def _sameness(token: TokenView) -> tuple[object, ...]:
    image = token.part if token.kind == "media" else None
    return token.trained, token.kind, token.message, image, token.reason, token.proof


def run_words(document: DocumentView, run: Sequence[TokenView]) -> str:
    """Where a run's tokens come from and why they are or are not trained, as far as that is known."""
    token = run[0]
    reason = None if token.reason is None else visible(token.reason, spaces=False)
    if reason is not None and token.trained and token.proof not in (None, "", "none"):
        reason = f"{reason} ({token.proof})"
    kind = (token.kind or "").replace("_", " ")
    places = ", ".join(_places(run))
    if token.message is None or token.message < 0:
        return f"{reason or ''}{f' ({places})' if places else ''}"
    role = document.messages[token.message].role if document.messages else ""
    speaker = f"message {token.message} ({visible(role, spaces=False)})"
    if reason is not None and reason.startswith(kind):  # "header (mask_policy sampled)"
        return f"{speaker}, {reason}{f' ({places})' if places else ''}"
    told = f"{speaker}, {kind} ({places})" if places else f"{speaker}, {kind}"
    return told if reason is None or (token.trained and reason == "message trained") else f"{told}: {reason}"


def _places(run: Iterable[TokenView]) -> list[str]:
    """The strings of the message that a run writes, where its kind doesn't tell: ``tool_calls[0]``, ``content[2]``."""
    names = (token.part for token in run if token.part and token.part not in _PLAIN_PARTS)
    return list(dict.fromkeys(visible(name.partition("]")[0] + "]" if "]" in name else name) for name in names))


_PLAIN_PARTS = ("content", "reasoning_content", "reasoning", "thinking")
"""The parts that are a message's only one of their kind."""


def token_place(token: TokenView) -> str:
    """The very string that one token is a part of, and its characters in the rendered text; what isn't told is left
    out."""
    told = [f"part {visible(token.part, spaces=False)}"] if token.part else []
    told += [f"proof {token.proof}"] if token.proof else []
    told += [f"characters {token.start}-{token.stop}"] if token.start is not None else []
    return ", ".join(told)
