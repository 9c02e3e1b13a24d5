"""A tokenizer file that stands in for Gemma's, which is not at hand."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def gemma_file(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of a small SentencePiece model that is set up as Gemma's and has its turn tokens."""
    import sentencepiece

    prefix = str(tmp_path_factory.mktemp("gemma") / "gemma")
    sentencepiece.SentencePieceTrainer.Train(
        input=str(shared_data / "text" / "mlx_wikisql_text.jsonl"),
        model_prefix=prefix,
        vocab_size=600,
        model_type="bpe",
        byte_fallback=True,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        user_defined_symbols=["<start_of_turn>", "<end_of_turn>"],
        minloglevel=2,
    )
    return prefix + ".model"
