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
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    from torchpipe.tokenizers.families import QWEN2_5

    tokenizer = tokenizers.Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    tokenizer.normalizer = normalizers.NFC()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [
            pre_tokenizers.Split(tokenizers.Regex(QWEN2_5.pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    tokenizer.add_special_tokens(list(QWEN2_5.control_tokens))
    tokenizer.save(str(folder / "tokenizer.json"))
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
    """The time of TRL's preparation, by the method that its trainer calls; no model is needed for it."""
    import datasets
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer  # pyright: ignore[reportMissingImports]  # in an environment of its own

    datasets.disable_caching()
    datasets.disable_progress_bars()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token=EOS)
    tokenizer.chat_template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    rows = datasets.load_dataset("json", data_files=str(folder / "chats.jsonl"), split="train")
    trainer: Any = object.__new__(SFTTrainer)
    trainer._tokenizer, trainer.chat_template, trainer.completion_only_loss = tokenizer, None, False
    config = SFTConfig(
        str(folder / "trl"), assistant_only_loss=True, max_length=None, use_cpu=True, bf16=False, shuffle_dataset=False
    )
    start = time.process_time()
    prepared = trainer._prepare_dataset(rows, tokenizer, config, False, None, "train")
    elapsed = time.process_time() - start
    assert any(label != -100 for label in prepared[0]["labels"])
    return {"seconds": elapsed, "rows": len(prepared), "tokens": sum(map(len, prepared["input_ids"]))}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    measure = {"torchpipe": torchpipe_rows, "trl": trl_rows}[sys.argv[1]]
    print(json.dumps(measure(Path(sys.argv[2]))))
