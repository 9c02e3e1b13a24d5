"""Makes the sample of preferred and rejected answers that comes with the package, from its sample chats.

    python tools/make_sample_pairs.py          # write torchpipe/assets/sample_pairs.json
    python tools/make_sample_pairs.py --check  # exit status 1 when the file is not what this would write

The rule: answers hold facts in place of politeness. The chosen answer is a chat's own; the rejected one has its first
sentence, in every other row the first two, between polite words. So both are about as long, and length tells nothing.
Each polite phrase occurs in many rows, so that what is learned from some can be measured on others.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torchpipe

ASSETS = Path(torchpipe.__file__).resolve().parent / "assets"
CHATS = ASSETS / "sample_chats.json"
PAIRS = ASSETS / "sample_pairs.json"
NUM_PAIRS = 80

BEFORE = (
    "Great question! I am so happy to help you with this one.",
    "Thank you so much for asking. Many people wonder about this.",
    "Of course! This is a really interesting topic, and there is a lot to say about it.",
    "I am only a computer program and no expert, but I will do my very best.",
    "Well, that depends on many things, as so often in life.",
    "Before I answer, let me say what a pleasure it is to talk with you.",
    "What a wonderful thing to ask! Let us look at it together, step by step.",
    "Sure! I hope that you are having a lovely day so far.",
)
AFTER = (
    "I hope that this helps! Please let me know if you would like to hear more.",
    "Of course every case is different, so please ask an expert too.",
    "Isn't that fascinating? There is so much more to discover about it.",
    "In summary, it all depends on what works best for you.",
    "Feel free to ask me anything else at any time, day or night.",
    "Please remember that I may be wrong, and that nothing here is advice.",
    "Have a great day, and good luck with everything that you do!",
)


def questions(chats: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Topic, question and answer of the chats that the rule can be applied to.

    They have one question and one answer of plain English prose, without code or what looks like a control token.
    """
    for chat in chats:
        texts = [message["content"] for message in chat["messages"]]
        is_plain = all(text.isascii() and not re.search(r"[`\n<\[{]", text) for text in texts)
        if [message["role"] for message in chat["messages"]] == ["user", "assistant"] and is_plain:
            yield chat["topic"], *texts


def pairs(chats: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first rows: ``topic``, and the conversations ``chosen`` and ``rejected``."""
    made: list[dict[str, Any]] = []
    for topic, question, answer in questions(chats):
        sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", answer)
        if len(sentences) < 3 or len(made) == NUM_PAIRS:
            continue
        place = len(made)
        polite = [BEFORE[place % len(BEFORE)], *sentences[: 1 + place % 2], AFTER[place % len(AFTER)]]
        rejected = " ".join(polite)
        made.append({"topic": topic, "chosen": _chat(question, answer), "rejected": _chat(question, rejected)})
    return made


def _chat(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def text() -> str:
    """What the file holds."""
    return json.dumps(pairs(json.loads(CHATS.read_text(encoding="utf-8"))), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description="Make the sample of preferred and rejected answers.")
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    if not parser.parse_args().check:
        PAIRS.write_text(text(), encoding="utf-8")
        return 0
    same = PAIRS.is_file() and PAIRS.read_text(encoding="utf-8") == text()
    print(f"{PAIRS.name}: {'as made by the rule' if same else 'not what the rule makes'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
