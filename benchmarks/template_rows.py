"""Seconds from rows of messages to ids and labels, with one chat template and one tokenizer.

    python template_rows.py torchpipe|trl FOLDER

FOLDER holds what :func:`write_folder` wrote. It runs in either package's environment: torchpipe's data set with
ChatTemplateTokenizer, or TRL's own preparation of a data set with assistant masks, up to its labels column. Both read
rows that Hugging Face datasets has loaded; imports, the tokenizer and loading are not timed.
"""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from trl_preparation import load_chats, preparation, write_trl_tokenizer

EOS = "<|im_end|>"


def write_folder(folder: Path, ranks: Path, vocab: Path, merges: Path, template: Path, chats: Path) -> None:
    """Writes Qwen 2.5's tokenizer in both forms (ranks.tiktoken, tokenizer.json), the template, and chats.jsonl.

    Args:
        folder: where to.
        ranks: the published tiktoken ranks.
        vocab, merges: the same as files of byte-level BPE.
        template: a chat template of ChatML's tokens that marks what TRL shall train.
        chats: rows of ``messages``.
    """
    from torchpipe.tokenizers.families import QWEN2_5

    controls = list(QWEN2_5.control_tokens)
    write_trl_tokenizer(folder, vocab, merges, pattern=QWEN2_5.pattern, controls=controls, nfc=True)
    for name, file in (("ranks.tiktoken", ranks), ("chat_template.jinja", template), ("chats.jsonl", chats)):
        (folder / name).write_bytes(file.read_bytes())


def chat_template_tokenizer(folder: Path) -> Any:
    """torchpipe's tokenizer of the folder."""
    from torchpipe.tokenizers import ChatTemplateTokenizer
    from torchpipe.tokenizers.families import QWEN2_5

    with (folder / "ranks.tiktoken").open(encoding="utf-8") as lines:
        first = sum(1 for line in lines if line.strip())
    return ChatTemplateTokenizer.from_files(
        folder / "chat_template.jinja",
        tiktoken_ranks=folder / "ranks.tiktoken",
        pattern=QWEN2_5.pattern,
        normalization="NFC",
        special_tokens={text: first + place for place, text in enumerate(QWEN2_5.control_tokens)},
        template_kwargs={"eos_token": EOS},
    )


def torchpipe_rows(folder: Path) -> dict[str, float]:
    """The time of torchpipe's data set."""
    from torchpipe.datasets import chat_dataset

    tokenizer = chat_template_tokenizer(folder)
    dataset: Any = chat_dataset(
        tokenizer,
        source="json",
        data_files=str(folder / "chats.jsonl"),
        conversation_column="messages",
        conversation_style="openai",
    )
    num_tokens = 0
    start = time.process_time()
    for sample in dataset:
        num_tokens += len(sample["tokens"])
    return {"seconds": time.process_time() - start, "rows": len(dataset), "tokens": num_tokens}


def trl_rows(folder: Path) -> dict[str, float]:
    """The time of TRL's preparation."""
    rows = load_chats(folder / "chats.jsonl")
    prepare = preparation(folder, eos=EOS)
    start = time.process_time()
    prepared = prepare(rows)
    elapsed = time.process_time() - start
    assert any(label != -100 for label in prepared[0]["labels"])
    return {"seconds": elapsed, "rows": len(prepared), "tokens": sum(map(len, prepared["input_ids"]))}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    measure = {"torchpipe": torchpipe_rows, "trl": trl_rows}[sys.argv[1]]
    print(json.dumps(measure(Path(sys.argv[2]))))
