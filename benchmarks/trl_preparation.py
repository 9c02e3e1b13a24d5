"""TRL's own preparation of rows, by the method that its trainer calls. It runs in TRL's environment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_trl_tokenizer(
    folder: Path, vocab: Path, merges: Path, *, pattern: str, controls: list[str], nfc: bool
) -> None:
    """Writes ``tokenizer.json`` for TRL: a tiktoken vocabulary as byte-level BPE, its control tokens behind it.

    Args:
        folder: where to.
        vocab, merges: of byte-level BPE.
        pattern: splits text into pieces before BPE.
        controls: the control tokens, in the order of their ids.
        nfc: whether text is normalised.
    """
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    bpe = models.BPE.from_file(str(vocab), str(merges))
    # A piece that is a token of its own is taken whole, as tiktoken does, also where no merges lead to it.
    bpe.ignore_merges = True  # type: ignore[attr-defined]
    tokenizer = tokenizers.Tokenizer(bpe)
    if nfc:
        tokenizer.normalizer = normalizers.NFC()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    tokenizer.add_special_tokens(controls)
    tokenizer.save(str(folder / "tokenizer.json"))


def preparation(
    folder: Path, *, eos: str, bos: str | None = None, num_proc: int | None = None, pack_at: int | None = None
) -> Callable[[Any], Any]:
    """What makes of rows of ``messages`` (a ``datasets.Dataset``) those that TRL trains on.

    Labels are made of assistant masks; packs, where ``pack_at`` says how long, by "bfd". No model is needed for it.

    Args:
        folder: holds tokenizer.json, chat_template.jinja.
        eos, bos: control tokens.
        num_proc: TRL's dataset_num_proc.
        pack_at: tokens of a pack.
    """
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer  # pyright: ignore[reportMissingImports]  # in an environment of its own

    named = {"eos_token": eos} | ({} if bos is None else {"bos_token": bos})
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **named)
    tokenizer.chat_template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    trainer: Any = object.__new__(SFTTrainer)
    trainer._tokenizer, trainer.chat_template, trainer.completion_only_loss = tokenizer, None, False
    config = SFTConfig(
        str(folder / "trl"), assistant_only_loss=True, max_length=pack_at, packing=pack_at is not None,
        dataset_num_proc=num_proc, use_cpu=True, bf16=False, shuffle_dataset=False,
    )  # fmt: skip
    return lambda rows: trainer._prepare_dataset(rows, tokenizer, config, pack_at is not None, None, "train")


def load_chats(file: Path) -> Any:
    """The rows of a JSON Lines file, as ``datasets`` loads them; nothing is cached beyond this process."""
    import datasets

    datasets.disable_caching()
    datasets.disable_progress_bars()
    return datasets.load_dataset("json", data_files=str(file), split="train")
