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


def number(rng: random.Random) -> int | None:
    return rng.choice([None, 0, 1, 2, 3, 5, 9, -1, -2, -4])


def chars(rng: random.Random) -> str | None:
    return rng.choice([None, " ", "a", "b ", "\n", "<|", "ß", ","])


# Each draws its numbers first, and gives a function of the texts that a program has so far.
Pick = Callable[[], str]
OPERATIONS: dict[str, Callable[[random.Random], Callable[[Pick], Any]]] = {
    "add": lambda rng: lambda pick: pick() + pick(),
    "add a literal": lambda rng: lambda pick, c=rng.choice(LITERALS): c + pick() + c,
    "multiply": lambda rng: lambda pick, n=rng.randrange(-1, 4): pick() * n,
    "multiply left": lambda rng: lambda pick, n=rng.randrange(-1, 4): n * pick(),
    "index": lambda rng: lambda pick, n=rng.randrange(-3, 3): pick()[n],
    "slice": lambda rng: lambda pick, a=number(rng), b=number(rng): pick()[a:b],
    "step": lambda rng: lambda pick, a=number(rng), b=number(rng), s=rng.choice([2, -1, -2, 3]): pick()[a:b:s],
    "iterate": lambda rng: lambda pick: list(pick()),
    "reverse": lambda rng: lambda pick: list(reversed(pick())),
    "strip": lambda rng: lambda pick, c=chars(rng): pick().strip(c),
    "lstrip": lambda rng: lambda pick, c=chars(rng): pick().lstrip(c),
    "rstrip": lambda rng: lambda pick, c=chars(rng): pick().rstrip(c),
    "split": lambda rng: lambda pick, c=chars(rng), n=rng.randrange(-1, 3): pick().split(c, n),
    "rsplit": lambda rng: lambda pick, c=chars(rng), n=rng.randrange(-1, 3): pick().rsplit(c, n),
    "split by": lambda rng: lambda pick: pick().split(pick()),
    "splitlines": lambda rng: lambda pick, k=rng.random() < 0.5: pick().splitlines(k),
    "partition": lambda rng: lambda pick: pick().partition(pick()),
    "rpartition": lambda rng: lambda pick: pick().rpartition(pick()),
    "replace": lambda rng: lambda pick, n=rng.randrange(-1, 3): pick().replace(pick(), pick(), n),
    "replace a sign": lambda rng: lambda pick, c=rng.choice(["a", "b", " ", ""]): pick().replace(c, pick()),
    "removeprefix": lambda rng: lambda pick: pick().removeprefix(pick()),
    "removesuffix": lambda rng: lambda pick: pick().removesuffix(pick()),
    "join": lambda rng: lambda pick, n=rng.randrange(4): pick().join([pick() for _ in range(n)]),
    "upper": lambda rng: lambda pick: pick().upper(),
    "lower": lambda rng: lambda pick: pick().lower(),
    "casefold": lambda rng: lambda pick: pick().casefold(),
    "swapcase": lambda rng: lambda pick: pick().swapcase(),
    "title": lambda rng: lambda pick: pick().title(),
    "capitalize": lambda rng: lambda pick: pick().capitalize(),
    "center": lambda rng: lambda pick, n=rng.randrange(12): pick().center(n, "-"),
    "center with": lambda rng: lambda pick, n=rng.randrange(12): pick().center(n, pick()),
    "ljust": lambda rng: lambda pick, n=rng.randrange(12): pick().ljust(n),
    "rjust": lambda rng: lambda pick, n=rng.randrange(12): pick().rjust(n),
    "zfill": lambda rng: lambda pick, n=rng.randrange(12): pick().zfill(n),
    "expandtabs": lambda rng: lambda pick, n=rng.randrange(5): pick().expandtabs(n),
    "translate": lambda rng: lambda pick: pick().translate({97: "__", 98: None, 32: 45}),
    "str": lambda rng: lambda pick: str(pick()),
    "format": lambda rng: lambda pick: braces_("<{}|{k}|{0!s:>5}>", pick(), k=pick()),
    "percent": lambda rng: lambda pick: percent_("<%s|%5s|%%>", pick(), pick()),
    "percent one": lambda rng: lambda pick: "<%s>" % pick(),
    "python": lambda rng: lambda pick: printed([pick(), {pick(): (pick(), 1)}, (pick(),)]),
    "json": lambda rng: lambda pick, a=rng.random() < 0.5: to_json([pick(), {pick(): pick()}, 1], ensure_ascii=a),
    "indented json": lambda rng: lambda pick, i=rng.choice([0, 2, "-"]): to_json({pick(): [pick(), {}]}, indent=i),
    "tests": lambda rng: lambda pick: (pick() in pick(), pick() == pick(), pick().startswith(pick()), len(pick())),
    "find": lambda rng: lambda pick: (pick().find(pick()), pick().count(pick()), hash(pick()), pick() < pick()),
    "bad sum": lambda rng: lambda pick: pick() + 1,  # pyright: ignore[reportOperatorIssue]
}


def braces_(template: str, *args: str, **kwargs: str) -> str:
    return braces(template, args, kwargs)


def percent_(template: str, *values: str) -> str:
    return percent(template, values)


def check(text: str) -> None:
    """Every claim that the text's runs make holds."""
    runs = runs_of(text)
    assert sum(run.length for run in runs) == len(text)
    plain, at = str.__str__(text), 0
    for run in runs:
        part = plain[at : at + run.length]
        at += run.length
        if run.source is TEMPLATE:
            # Indented JSON in a string shows its lines as \\n, and in capitals as \\N.
            assert not any(map(str.isalpha, part.lower().replace("\\n", ""))), (text, runs)
        elif isinstance(run.source, Source) and run.source is not UNKNOWN:
            assert 0 <= run.start <= run.stop <= len(run.source.text)
            assert not run.exact or part == run.source.text[run.start : run.stop], (text, runs)


def outcome(operation: Callable[[Pick], Any], texts: list[str], seed: float) -> tuple[Any, str]:
    """What an operation gives, and what it is refused with."""
    picks = random.Random(seed)
    try:
        return operation(lambda: picks.choice(texts)), ""
    except (TypeError, ValueError, IndexError) as error:
        return None, f"{type(error).__name__}: {error}".replace("TracedText", "str")


def run_program(rng: random.Random, used: set[str]) -> None:
    sources = [Source(i, ("content",), source_text(rng)) for i in range(3)]
    traced: list[str] = [*map(TracedText.of, sources), *map(TracedText, rng.choices(LITERALS, k=3))]
    plain = [str.__str__(text) for text in traced]
    for _ in range(8):
        name = rng.choice(list(OPERATIONS))
        operation, seed = OPERATIONS[name](rng), rng.random()
        expected = outcome(operation, plain, seed)
        result = outcome(operation, traced, seed)
        assert result == expected, name
        used.add(name)
        texts = result[0] if isinstance(result[0], (list, tuple)) else [result[0]]
        for text in texts:
            if isinstance(text, str) and len(text) < 500:
                check(text)
                traced.append(text)
                plain.append(str.__str__(text))


@pytest.mark.parametrize("programs", [2_000, pytest.param(20_000, marks=pytest.mark.soak)])
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

    def places(text: TracedText) -> list[int]:
        runs = text.runs
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
