"""CLIP: the text tokenizer."""

from torchpipe.tokenizers.clip import CLIPTokenizer


def clip_tokenizer(path: str, max_seq_len: int = 77, truncate: bool = True) -> CLIPTokenizer:
    """The text tokenizer of CLIP.

    Args:
        path: CLIP's merges: ``merges.txt``, or OpenAI's ``bpe_simple_vocab_16e6.txt.gz``.
        max_seq_len: the most ids a text may have; 77 in all of OpenAI's models.
        truncate: whether longer texts are cut; otherwise they are refused.

    Raises:
        SourceError: there is no such file.
        TokenizerError: it does not hold merges.
    """
    return CLIPTokenizer(path, max_seq_len=max_seq_len, truncate=truncate)
