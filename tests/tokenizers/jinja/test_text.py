"""Programs over traced text give what they give over plain text, and say truly where each character came from."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from torchpipe.tokenizers.jinja.formatting import braces, percent, printed, to_json
from torchpipe.tokenizers.jinja.text import TEMPLATE, UNKNOWN, Mark, Run, Source, TracedText, joined, mark_text, runs_of

# Letters come from sources alone, and signs that both have tell nothing; so a letter in template text is a lie.
LETTERS = ["a", "b", "zß", "İ", "Σ", "ας", "ﬁ", "Dž", "é", "e\u0301", "日本", "\U0001f600", "aBc", "x y", "Ab ab"]
SIGNS = ["", " ", "  ", "\t", "\n", "\r\n", "\u2028", "\x1c", "\xa0", '"', "'", "\\", "&<>", "-", "+", ",", "1"]
LITERALS = ["", " ", "<|", "|>", "  ", ",", "][", " - ", "1", "'", '"', "::"]


def source_text(rng: random.Random) -> str:
    return "".join(rng.choice(rng.choice((LETTERS, SIGNS))) for _ in range(rng.randrange(8)))


class Draw:
    """What the operations of a program draw: texts that it has so far, and numbers; the same from the same seed."""

    def __init__(self, texts: list[str], seed: float) -> None:
        self.rng = random.Random(seed)
        self.texts = texts

    def text(self) -> str:
        return self.rng.choice(self.texts)

    def any(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def position(self) -> int | None:
        return self.any(None, 0, 1, 2, 3, 5, 9, -1, -2, -4)

    def chars(self) -> str | None:
        return self.any(None, " ", "a", "b ", "\n", "<|", "ß", ",")


OPERATIONS: dict[str, Callable[[Draw], Any]] = {
    "add": lambda d: d.text() + d.text(),
    "add a literal": lambda d: d.any(*LITERALS) + d.text() + d.any(*LITERALS),
    "multiply": lambda d: d.text() * d.any(-1, 0, 1, 2, 3),
    "multiply left": lambda d: d.any(-1, 0, 1, 2, 3) * d.text(),
    "index": lambda d: d.text()[d.any(-3, -1, 0, 1, 2)],
    "slice": lambda d: d.text()[d.position() : d.position()],
    "step": lambda d: d.text()[d.position() : d.position() : d.any(2, -1, -2, 3)],
    "iterate": lambda d: list(d.text()),
    "reverse": lambda d: list(reversed(d.text())),
    "strip": lambda d: d.text().strip(d.chars()),
    "lstrip": lambda d: d.text().lstrip(d.chars()),
    "rstrip": lambda d: d.text().rstrip(d.chars()),
    "split": lambda d: d.text().split(d.chars(), d.any(-1, 0, 1, 2)),
    "rsplit": lambda d: d.text().rsplit(d.chars(), d.any(-1, 0, 1, 2)),
    "split by": lambda d: d.text().split(d.text()),
    "splitlines": lambda d: d.text().splitlines(d.any(True, False)),
    "partition": lambda d: d.text().partition(d.text()),
    "rpartition": lambda d: d.text().rpartition(d.text()),
    "replace": lambda d: d.text().replace(d.text(), d.text(), d.any(-1, 0, 1, 2)),
    "replace a sign": lambda d: d.text().replace(d.any("a", "b", " ", ""), d.text()),
    "removeprefix": lambda d: d.text().removeprefix(d.text()),
    "removesuffix": lambda d: d.text().removesuffix(d.text()),
    "join": lambda d: d.text().join([d.text() for _ in range(d.any(0, 1, 2, 3))]),
    "upper": lambda d: d.text().upper(),
    "lower": lambda d: d.text().lower(),
    "casefold": lambda d: d.text().casefold(),
    "swapcase": lambda d: d.text().swapcase(),
    "title": lambda d: d.text().title(),
    "capitalize": lambda d: d.text().capitalize(),
    "center": lambda d: d.text().center(d.any(0, 4, 7, 8, 12), "-"),
    "center with": lambda d: d.text().center(d.any(0, 4, 7, 8, 12), d.text()),
    "ljust": lambda d: d.text().ljust(d.any(0, 4, 7, 12)),
    "rjust": lambda d: d.text().rjust(d.any(0, 4, 7, 12)),
    "zfill": lambda d: d.text().zfill(d.any(0, 4, 7, 12)),
    "expandtabs": lambda d: d.text().expandtabs(d.any(0, 1, 4, 8)),
    "translate": lambda d: d.text().translate({97: "__", 98: None, 32: 45}),
    "str": lambda d: str(d.text()),
    "format": lambda d: braces("<{}|{k}|{0!s:>5}|{0!r}>", (d.text(),), {"k": d.text()}),
    "percent": lambda d: percent("<%s|%5s|%%>", (d.text(), d.text())),
    "percent one": lambda d: percent("<%s>", d.text()),
    "python": lambda d: printed([d.text(), {d.text(): (d.text(), 1)}, (d.text(),)]),
    "json": lambda d: to_json([d.text(), {d.text(): d.text()}, 1], ensure_ascii=d.any(True, False)),
    "indented json": lambda d: to_json({d.text(): [d.text(), {}]}, indent=d.any(0, 2, "-")),
    "test": lambda d: (d.text() in d.text(), d.text() == d.text(), d.text().startswith(d.text()), len(d.text())),
    "find": lambda d: (d.text().find(d.text()), d.text().count(d.text()), hash(d.text()), d.text() < d.text()),
    "bad sum": lambda d: d.text() + d.any(1, None, []),
    "bad sum left": lambda d: d.any(1, None, []) + d.text(),
    "bad product": lambda d: d.text() * d.any(1.5, None),
    "bad join": lambda d: d.text().join([d.text(), d.any(1, None)]),
}


def check(text: str) -> None:
    """Every claim that the text's runs make holds."""
    runs = runs_of(text)
    assert sum(run.length for run in runs) == len(text)
    plain, at = str.__str__(text), 0
    for run in runs:
        part = plain[at : at + run.length]
        at += run.length
        if run.source is TEMPLATE:
            # No source has an n: it is what escapes make of the lines of indented JSON.
            assert not any(character.isalpha() and character not in "nN" for character in part), (text, runs)
        elif isinstance(run.source, Source) and run.source is not UNKNOWN:
            assert 0 <= run.start <= run.stop <= len(run.source.text)
            assert not run.exact or part == run.source.text[run.start : run.stop], (text, runs)


def outcome(operation: Callable[[Draw], Any], draw: Draw) -> tuple[Any, str]:
    """What an operation gives, and what it is refused with."""
    try:
        return operation(draw), ""
    except (TypeError, ValueError, IndexError) as error:
        return None, f"{type(error).__name__}: {error}".replace("TracedText", "str")


def run_program(rng: random.Random, used: set[str]) -> None:
    sources = [Source(i, ("content",), source_text(rng)) for i in range(3)]
    traced: list[str] = [*map(TracedText.of, sources), *map(TracedText, rng.choices(LITERALS, k=3))]
    plain = [str.__str__(text) for text in traced]
    for _ in range(8):
        name = rng.choice(list(OPERATIONS))
        seed = rng.random()
        expected = outcome(OPERATIONS[name], Draw(plain, seed))
        result = outcome(OPERATIONS[name], Draw(traced, seed))
        assert result == expected, name
        used.add(name)
        texts = result[0] if isinstance(result[0], (list, tuple)) else [result[0]]
        for text in texts:
            if isinstance(text, str) and len(text) < 500:
                check(text)
                traced.append(text)
                plain.append(str.__str__(text))


@pytest.mark.sized("programs", "random_programs")
def test_programs_over_traced_text_agree_with_plain_text(programs: int) -> None:
    used: set[str] = set()
    for seed in range(programs):
        run_program(random.Random(seed), used)
    assert used == set(OPERATIONS)


def test_a_program_loses_the_origin_of_few_characters() -> None:
    """Single operations that must follow every character, checked on a text of two sources."""
    text = TracedText.of(Source(0, ("content",), " One ")) + "<|>" + TracedText.of(Source(1, ("content",), 'Tw"o\n'))
    for result in (
        text.upper(),
        text.strip().replace("<|>", "x" * 3),
        joined(text.split()),
        to_json([text]),
        printed({"key": text}),
        percent("%s", text),
        braces("{}", (text,), {}),
        text.center(40),
        text.title(),
    ):
        assert all(run.source is not UNKNOWN for run in runs_of(result))


def test_neighbours_of_one_source_are_one_run() -> None:
    source = Source(0, ("content",), "abcdef")
    text = TracedText.of(source)
    assert (text[:3] + text[3:]).runs == text.runs
    assert joined(["<", "b>", *text, ">"]).runs == (
        Run(3, TEMPLATE, 0, 0, True),
        Run(6, source, 0, 6, True),
        Run(1, TEMPLATE, 0, 0, True),
    )
    assert len((text + text).runs) == 2


def test_an_escape_leaves_the_characters_around_it_exact() -> None:
    source = Source(0, ("content",), 'a"b')
    assert runs_of(to_json(TracedText.of(source)))[1:-1] == (
        Run(1, source, 0, 1, True),
        Run(2, source, 1, 2, False),
        Run(1, source, 2, 3, True),
    )


def test_what_one_source_was_made_into_stays_its_own_and_what_two_were_is_lost() -> None:
    one, two = (TracedText.of(Source(i, ("content",), f"text {i}")) for i in range(2))
    assert [(run.source, run.exact) for run in one.remade("other").runs] == [(one.runs[0].source, False)]
    assert [run.source for run in (one + two).remade("other").runs] == [UNKNOWN]


def test_a_mark_stays_between_its_neighbours() -> None:
    mark = Mark("turn", 1)
    text = joined(["ab ", mark_text(mark), TracedText.of(Source(0, ("content",), " cd"))])

    def places(text: str) -> list[int]:
        runs = runs_of(text)
        return [sum(run.length for run in runs[:i]) for i, run in enumerate(runs) if run.source is mark]

    assert text == "ab  cd"
    assert places(text) == [3]
    assert places(text[1:5]) == [2]
    assert places(text[4:]) == []
    assert places(("<" + text + ">").upper()) == [4]
    assert places(joined([mark_text(mark), "  a"]).strip()) == [0]
    assert places(joined(["a  ", mark_text(mark)]).strip()) == [1]
    assert mark_text(mark) == ""


def test_json_is_written_as_python_writes_it() -> None:
    value = {"a": [1, 2.5, None, True, {}], "\u2028": {"é": "\x00", "1": float("nan")}, "b": ()}
    traced = json.loads(json.dumps(value), object_pairs_hook=lambda pairs: {_of(k): _wrap(v) for k, v in pairs})
    for options in ({}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": True}, {"sort_keys": True}):
        options = {"ensure_ascii": False, **options}
        result = to_json(traced, **options)
        assert result == json.dumps(value, **options)
        assert UNKNOWN not in [run.source for run in runs_of(result)]


def _of(text: str) -> TracedText:
    return TracedText.of(Source(0, ("content",), text))


def _wrap(value: Any) -> Any:
    return _of(value) if isinstance(value, str) else value
