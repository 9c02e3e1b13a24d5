"""The text tokenizer of T5."""

from collections.abc import Sequence
from typing import ClassVar

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.backend import check_encodable
from torchpipe.tokenizers.base_tokenizers import SentencePieceBaseTokenizer
from torchpipe.tokenizers.text_encoder import TextEncoderTokenizer


class T5Tokenizer(TextEncoderTokenizer):
    """T5's ids of a text, with EOS at the end and nothing before it.

    Args:
        path: T5's SentencePiece model file.
        max_seq_len: the most ids a text may have.
        truncate: whether longer texts are cut; otherwise they are refused.

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a SentencePiece model, or has no EOS.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"spm_model"})

    def __init__(self, path: str, max_seq_len: int = 512, truncate: bool = True) -> None:
        super().__init__(max_seq_len, truncate)
        self._base = SentencePieceBaseTokenizer(path)
        self.spm_model = self._base.spm_model
        self.encodes_whitespace = self._base.encodes_whitespace
        self.vocab_size = self._base.vocab_size
        self.bos_id, self.eos_id, self.pad_id = self._base.bos_id, self._base.eos_id, self._base.pad_id
        self.end_id = self.eos_id
        if self.eos_id < 0:
            raise TokenizerError(
                f"{path} has no EOS token, with which T5's texts end. Is it the file of another family?"
            )

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; control tokens have none."""
        return self._base.decode(ids)

    def _whole(self, text: str) -> list[int]:
        check_encodable(text)
        return self.spm_model.encode(text, add_eos=True)
