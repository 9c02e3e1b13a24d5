"""T5: the text tokenizer."""

from torchpipe.tokenizers.t5 import T5Tokenizer

__all__ = ["T5Tokenizer", "t5_tokenizer"]


def t5_tokenizer(path: str, max_seq_len: int = 512, truncate: bool = True) -> T5Tokenizer:
    """The text tokenizer of T5.

    Args:
        path: T5's SentencePiece model file.
        max_seq_len: the most ids a text may have.
        truncate: whether longer texts are cut; otherwise they are refused.

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a SentencePiece model.
    """
    return T5Tokenizer(path, max_seq_len=max_seq_len, truncate=truncate)
