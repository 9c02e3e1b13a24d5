"""Real conversations with calls, through every policy: what is left out is counted, and no call loses its result."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data import Message, ShareGPTToMessages
from torchpipe.data.whole_row import calls_with_results
from torchpipe.datasets import PackedDataset, SFTDataset
from torchpipe.models.tiny import tiny_tokenizer

LIMIT = 384


class CallsAsText:
    """Conversations whose calls are text, which the Llama 3 format has a place for."""

    def __init__(self) -> None:
        self.inner = ShareGPTToMessages(column_map={"conversations": "conversations", "tools": None})

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        return {"messages": [self.as_text(message) for message in self.inner(sample)["messages"]]}

    def as_text(self, message: Message) -> Message:
        if not message.tool_calls:
            return message
        text = message.text_content + "".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
        return Message("assistant", text, masked=message.masked, ipython=True, eot=message.eot)


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> list[dict[str, Any]]:
    return json.loads((shared_data / "llamafactory" / "glaive_toolcall_en_demo.json").read_text())


def dataset(rows: list[dict[str, Any]], **options: Any) -> SFTDataset:
    return SFTDataset(
        source=rows,
        message_transform=CallsAsText(),
        model_transform=tiny_tokenizer(mask_policy="sampled"),
        one_sample_a_row=False,
        **options,
    )


POLICIES = [("drop", None), ("split", None), *(("truncate", side) for side in ("right", "left", "turns"))]


@pytest.mark.parametrize(("overflow", "side"), POLICIES)
def test_every_row_is_used_or_counted(rows: list[dict[str, Any]], overflow: Any, side: Any) -> None:
    whole = dataset(rows)
    lengths = [len(sample["tokens"]) for sample in whole]
    num_trained = sum(label != IGNORE_INDEX for sample in whole for label in sample["labels"])
    num_long = sum(length > LIMIT for length in lengths)
    assert 50 < num_long < len(rows) == 200
    packed = PackedDataset(dataset(rows, overflow=overflow, max_seq_len=LIMIT, truncation_type=side), max_seq_len=LIMIT)
    counts = packed.counts
    used = {packed.row_of(sample)[0] for sample in range(counts.rows)}
    assert len(used) + counts.too_long_rows + counts.emptied_rows == len(rows)
    if overflow == "drop":
        assert (counts.too_long_rows, counts.rows) == (num_long, len(rows) - num_long)
    elif overflow == "split":
        assert (counts.tokens, counts.trained_tokens, counts.split_rows) == (sum(lengths), num_trained, num_long)
    else:
        assert counts.truncated_rows + counts.emptied_rows == num_long
        assert counts.longest <= LIMIT


@pytest.mark.parametrize("side", ["right", "left", "turns"])
def test_no_call_is_kept_without_its_results(rows: list[dict[str, Any]], side: Any) -> None:
    data = dataset(rows, overflow="truncate", max_seq_len=LIMIT, truncation_type=side)
    tokenizer = tiny_tokenizer(mask_policy="sampled")
    num_cut = 0
    for index, row in enumerate(rows):
        for sample in data.fitted(index).samples:
            if "cut" not in sample:
                continue
            messages = CallsAsText()(row)["messages"]
            kept = sample["cut"].messages or range(len(messages))
            messages = [messages[place] for place in kept]
            trace = tokenizer.tokenize_messages(messages, trace=True)[2]
            present = trace.message[sample["cut"].places]
            for first, end in calls_with_results(messages):
                num_whole = int(((trace.message >= first) & (trace.message < end)).sum())
                assert int(((present >= first) & (present < end)).sum()) in (0, num_whole)
                num_cut += 1
    assert num_cut > 10
