"""The mask of a text's tokens: a token is trained where all its characters are within one range."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from torchpipe.tokenizers import ChatTemplateTokenizer
from torchpipe.tokenizers.control_matcher import ControlMatcher
from torchpipe.tokenizers.jinja.token_masks import mask_of_ranges
from torchpipe.tokenizers.pieces import PieceEncoder, token_ranges


class Pairs:
    """Two letters a token, so that ranges start and end inside pieces and tokens."""

    name, num_tokens, control_tokens = "pairs", 1 << 16, {"#": 1 << 16}

    def encode(self, text: str) -> list[int]:
        return [int.from_bytes(text[place : place + 2].encode(), "little") for place in range(0, len(text), 2)]

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, token_ids)).decode()

    def token_bytes(self, token_id: int) -> bytes:
        return token_id.to_bytes(2, "little").rstrip(b"\0")


ENCODE = PieceEncoder(ControlMatcher(Pairs.control_tokens), Pairs())
places = st.integers(0, 24)


@given(st.text("abc#", max_size=24), st.lists(st.tuples(places, places), max_size=4), st.sets(places, max_size=3))
def test_tokens_within_a_range_are_trained_and_no_others(
    text: str, bounds: list[tuple[int, int]], cuts: set[int]
) -> None:
    """In any order of the ranges: a turn that the template doesn't write has its range at the text's end."""
    trained = [(min(pair), max(pair)) for pair in bounds]
    cut = ENCODE.cut(text, [(0, len(text))], cuts)
    expected = [
        not any(start <= first and last <= stop for start, stop in trained)
        for piece in cut.pieces
        for first, last in token_ranges(piece, text, ENCODE.backend)
    ]
    assert mask_of_ranges(cut, trained, text, ENCODE.backend) == expected


TEMPLATE = (
    "{% for m in messages %}{% if not m.tool_calls %}#{{ m.role }}:{{ m.content }}#{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}#assistant:{% endif %}"
)


def test_a_proved_turn_is_trained_behind_one_that_the_template_leaves_out() -> None:
    tokenizer = ChatTemplateTokenizer(Pairs(), TEMPLATE, eos_token="#", on_unproved="common_prefix")
    call = {"function": {"name": "look", "arguments": {}}}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "b"},
        {"role": "assistant", "content": "yes"},
    ]
    (sample,) = tokenizer.tokenize_conversation(messages)
    trained = [token for token, masked in zip(sample.tokens, sample.mask, strict=True) if not masked]
    assert tokenizer.decode(trained, truncate_at_eos=False, skip_special_tokens=False) == "yes#"
    assert sample.num_unproved == 1
