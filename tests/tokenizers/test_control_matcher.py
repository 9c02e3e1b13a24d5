"""Control tokens are found where the template wrote them, and nowhere else."""

import pickle
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.control_matcher import ControlMatch, ControlMatcher, TokenFlags

TOKENS = {"<a>": 0, "<a><b>": 1, "<b>": 2, "<": 3, "[x": 4, "x]": 5}
ANYWHERE = [(0, 10**6)]


def spelled(matcher: ControlMatcher, text: str, *where: object) -> list[str]:
    return [text[match.start : match.stop] for match in matcher.find(text, *where)]  # type: ignore[arg-type]


def test_the_leftmost_token_counts_and_of_those_that_start_together_the_longest() -> None:
    matcher = ControlMatcher({"<a>": 0, "<a><b>": 1, "a": 2})
    assert matcher.find("<a><a><b>a", [(0, 10)]) == [(0, 3, 0), (3, 9, 1), (9, 10, 2)]


def test_a_token_that_content_spells_is_text() -> None:
    assert spelled(ControlMatcher({"<s>": 1}), "<s>hi <s> ho<s>", [(0, 3), (12, 15)]) == ["<s>", "<s>"]


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (1, 3), (1, 2)])
def test_a_token_that_leans_on_content_is_text(start: int, stop: int) -> None:
    assert ControlMatcher({"<s>": 1}).find("<s>", [(start, stop)]) == []


def test_ranges_that_touch_or_overlap_count_as_one() -> None:
    matcher = ControlMatcher({"<s>": 1})
    assert matcher.find("<s>", [(0, 1), (1, 1), (1, 3)]) == [(0, 3, 1)]
    assert matcher.find("<s>", [(0, 2), (1, 3)]) == [(0, 3, 1)]


def test_a_refused_token_hides_neither_a_shorter_one_nor_one_that_begins_inside_it() -> None:
    matcher = ControlMatcher({"<a>": 0, "<a><b>": 1, "b><c": 2})
    assert spelled(matcher, "<a><b><c>", [(0, 5)]) == ["<a>"]
    assert spelled(matcher, "<a><b><c>", [(4, 9)]) == ["b><c"]
    both = ControlMatcher({"<a>": 0, "<a><b>": 1, "b><c": 2}, allowed_special=["b><c"])
    assert spelled(both, "<a><b><c>", [(0, 4)]) == ["<a>", "b><c"]


def test_allowed_tokens_are_found_in_content() -> None:
    matcher = ControlMatcher({"<s>": 1, "<t>": 2}, allowed_special=["<t>"])
    assert spelled(matcher, "<s><t><s>", [(6, 9)]) == ["<t>", "<s>"]


def test_no_token_lies_across_a_cut() -> None:
    matcher = ControlMatcher({"<s>": 1, ">": 2})
    assert spelled(matcher, "<s><s>", ANYWHERE, [4]) == ["<s>", ">"]
    assert spelled(matcher, "<s><s>", ANYWHERE, [0, 3, 6]) == ["<s>", "<s>"]


def test_a_token_takes_the_white_space_that_its_flags_say() -> None:
    matcher = ControlMatcher(
        {"<l>": 1, "<r>": 2}, flags={"<l>": TokenFlags(lstrip=True), "<r>": TokenFlags(rstrip=True)}
    )
    text = "a \u3000<l> b <r>\n\tc"
    assert matcher.find(text, ANYWHERE) == [(1, 6, 1), (9, 14, 2)]
    assert matcher.find("<r>  <l>", ANYWHERE) == [(0, 5, 2), (5, 8, 1)]


def test_a_token_takes_no_white_space_from_beyond_a_cut() -> None:
    strip = TokenFlags(lstrip=True, rstrip=True)
    assert ControlMatcher({"<s>": 1}, flags={"<s>": strip}).find("  <s>  ", ANYWHERE, [1, 6]) == [(1, 6, 1)]


def test_a_single_word_is_no_part_of_a_longer_one() -> None:
    matcher = ControlMatcher({"end": 1}, flags={"end": TokenFlags(single_word=True)})
    assert [match.start for match in matcher.find("end ending, end. _end", ANYWHERE)] == [0, 12]


def test_many_tokens_are_found_as_few_are() -> None:
    tokens = {f"<|reserved_{n}|>": n for n in range(1100)} | {"(": 2000, "(?:": 2001, "\n": 2002, "\n\n": 2003}
    text = "".join(tokens)
    assert [match.token_id for match in ControlMatcher(tokens).find(text, [(0, len(text))])][:1102] == [
        *range(1100),
        2000,
        2001,
    ]


def test_matchers_travel_to_worker_processes() -> None:
    matcher = ControlMatcher(TOKENS, ["<"], {"[x": TokenFlags(rstrip=True)})
    assert pickle.loads(pickle.dumps(matcher)).find("<[x  <a>", [(1, 5)]) == matcher.find("<[x  <a>", [(1, 5)])


def test_tokens_that_cannot_be_are_refused() -> None:
    with pytest.raises(TokenizerError, match="Control token 7 has no text"):
        ControlMatcher({"": 7})
    with pytest.raises(TokenizerError, match=r"allowed_special names '<t>', which is none of the 1 control tokens"):
        ControlMatcher({"<s>": 1}, allowed_special=["<t>"])


def plainly(
    text: str, template: list[bool], cuts: Collection[int], tokens: dict[str, int], allowed: Collection[str]
) -> list[ControlMatch]:
    """The rule, character by character."""
    found: list[ControlMatch] = []
    at = 0
    while at < len(text):
        for token in sorted(tokens, key=len, reverse=True):
            stop = at + len(token)
            fits = text.startswith(token, at) and not any(at < cut < stop for cut in cuts)
            if fits and (all(template[at:stop]) or token in allowed):
                found.append(ControlMatch(at, stop, tokens[token]))
                at = stop
                break
        else:
            at += 1
    return found


@given(
    st.text("<ab>[x]y", max_size=30),
    st.lists(st.booleans(), min_size=30, max_size=30),
    st.sets(st.integers(0, 30), max_size=4),
    st.sets(st.sampled_from(sorted(TOKENS)), max_size=3),
)
def test_the_rule_holds_on_any_text(text: str, template: list[bool], cuts: set[int], allowed: set[str]) -> None:
    ranges = [(at, at + 1) for at in range(len(text)) if template[at]]
    expected = plainly(text, template, cuts, TOKENS, allowed)
    assert ControlMatcher(TOKENS, allowed).find(text, ranges, cuts) == expected
    flagged = ControlMatcher({**TOKENS, "none": 9}, allowed, {"none": TokenFlags(lstrip=True)})
    assert flagged.find(text, ranges, cuts) == expected
