"""The preview shows what the labels train, white space and all."""

import torch

from torchpipe.audit import preview, prompt_of
from torchpipe.data import Message
from torchpipe.datasets import SFTTransform
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(mask_policy="sampled")
CHAT = [Message("user", "hi", masked=True), Message("assistant", "a\n\nb \\ c"), Message("user", "x", masked=True)]


def show(token_ids: object) -> str:
    return TOKENIZER.decode(list(token_ids), truncate_at_eos=False, skip_special_tokens=False)  # pyright: ignore[reportArgumentType]


def sample() -> dict[str, list[int]]:
    return SFTTransform(model_transform=TOKENIZER)({"messages": CHAT})


def test_runs_of_trained_and_untrained_tokens_are_lines() -> None:
    lines = preview(sample(), show).splitlines()
    assert [line.split()[0] for line in lines] == ["untrained", "trained", "untrained"]
    assert lines[1].endswith("| a↵↵b \\ c<|eot_id|>")


def test_the_counts_are_those_of_the_sample() -> None:
    lines = preview(sample(), show).splitlines()
    assert sum(int(line.split()[1]) for line in lines) == len(sample()["tokens"])


def test_a_long_sample_is_cut_and_says_so() -> None:
    assert (
        preview(sample(), show, max_tokens=3).splitlines()[-1].strip()
        == f"... {len(sample()['tokens']) - 3} tokens more"
    )


def test_of_a_packed_sample_the_first_document_is_shown() -> None:
    one = sample()
    packed = {
        "tokens": torch.tensor(one["tokens"] * 2),
        "labels": torch.tensor(one["labels"] * 2),
        "seq_lens": torch.tensor([len(one["tokens"])] * 2),
    }
    assert preview(packed, show) == preview(one, show)
    assert prompt_of(packed) == prompt_of(one)


def test_the_prompt_is_all_before_the_first_trained_token() -> None:
    assert show(prompt_of(sample())).endswith("<|start_header_id|>assistant<|end_header_id|>\n\n")
    assert prompt_of({"tokens": [1, 2], "labels": [-100, -100]}) == []
