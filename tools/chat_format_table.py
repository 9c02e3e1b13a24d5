"""Writes the table of chat formats in docs/chat_formats.md from the rows of the table in the package.

    python tools/chat_format_table.py          # write it
    python tools/chat_format_table.py --check  # exit status 1 when the page holds another one

What a row does with reasoning is found by writing conversations that hold some, not read from a description.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchpipe.errors import DataError
from torchpipe.tokenizers import FAMILIES, PUBLISHER_FORMATS, ChatFormat, PublisherFormatTokenizer

PAGE = Path(__file__).resolve().parent.parent / "docs" / "chat_formats.md"
BEGIN, END = "<!-- table of formats: begin -->", "<!-- table of formats: end -->"
UNPROVEN = ("template text with a stand-in vocabulary", "none")
_PLACES = {"turn": "own turn", "first_user": "in the user's first turn", "last_user": "in the user's last turn"}
_TOOLS = {**_PLACES, "turn": "in the system's turn", "lost": "left out"}
# Control tokens that functions of rows write, and those that files list themselves.
_MORE = [
    *("<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<think>", "</think>", "[INST]", "[/INST]", "[TOOL_CALLS]"),
    *("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]"),
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    *("<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"),
    *("<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
]


class Letters:
    """A stand-in vocabulary: one token a byte, and control tokens."""

    name, num_tokens = "letters", 256

    def __init__(self, control_tokens: dict[str, int]) -> None:
        self.control_tokens = control_tokens

    def encode(self, text: str) -> list[int]:
        """The bytes."""
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of bytes."""
        return bytes(token_ids).decode()


def stand_in(row: ChatFormat, **arguments: Any) -> PublisherFormatTokenizer:
    """The row's tokenizer over letters."""
    names = dict.fromkeys([*_MORE, *row.control_tokens, *row.control_pieces])
    ids = {name: 256 + number for number, name in enumerate(names)}
    return PublisherFormatTokenizer(Letters(ids), row, special_tokens=ids, **arguments)


def _reasoning(row: ChatFormat) -> str:
    question, answer = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    first, last = {**answer, "reasoning": "FIRST"}, {**answer, "reasoning": "LAST"}
    written = []
    for messages in ([question, last], [question, first, question, last]):
        try:
            written.append(stand_in(row).render_text(messages))
        except DataError:
            written.append("")
    if "FIRST" in written[1]:
        return "all written"
    if "LAST" in written[0]:
        return "that of the last turns is written"
    options = row.layout.options if row.layout is not None else {}
    return "by option `auto_drop_analysis: false`" if "auto_drop_analysis" in options else "refused"


def _calls(row: ChatFormat) -> str:
    layout = row.layout
    if layout is None or (layout.write_call is None and layout.assistant_turns is None):
        return "refused"
    number = "any number" if layout.parallel_calls else "one a turn"
    beside = {True: "", False: ", no text beside", "lost": ", text beside is left out"}[layout.text_beside_calls]
    return number + beside + ("" if layout.old_calls else ", earlier ones are left out")


def table() -> str:
    """The rows of publishers' formats, then those of torchtune's."""
    lines = [
        "| format | system | tools | calls | reasoning | options | oracle | proven |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in PUBLISHER_FORMATS:
        layout = row.layout
        assert layout is not None
        system = _PLACES[layout.system] if "system" in row.roles else "refused"
        tools = "refused" if layout.tools is None else _TOOLS[layout.tools]
        options = ", ".join(f"`{name}`" for name in layout.options)
        cells = [f"`{row.name}`", system, tools, _calls(row), _reasoning(row), options, row.oracle, _proven(row)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| row of a builder with torchtune's name | oracle | proven |", "|---|---|---|"]
    lines += [f"| `{row.name}` | {row.oracle} | {_proven(row)} |" for row in FAMILIES]
    return "\n".join(lines)


def _proven(row: ChatFormat) -> str:
    return "no" if row.oracle in UNPROVEN else "yes"


def page_with(text: str) -> str:
    """The page with the table between its marks."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main() -> int:
    """Writes or checks the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the page instead of writing it")
    wanted = page_with(table())
    if parser.parse_args().check:
        return int(wanted != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
