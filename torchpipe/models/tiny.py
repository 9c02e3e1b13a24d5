"""A Llama 3 small enough to train from scratch on a laptop's CPU in about a minute."""

from dataclasses import replace
from pathlib import Path

from torchpipe.models.build import build_decoder
from torchpipe.models.config import DecoderConfig
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.modules import TransformerDecoder
from torchpipe.tokenizers import ChatFormatTokenizer
from torchpipe.tokenizers.render import MaskPolicy

# No published model has these sizes. They are for tests, examples and debugging a data set end to end.
TINY_LLAMA3 = DecoderConfig(
    vocab_size=2304,
    num_layers=4,
    num_heads=8,
    num_kv_heads=2,
    embed_dim=128,
    intermediate_dim=384,
    max_seq_len=2048,
    rope_base=10_000.0,
    norm_eps=1e-5,
    tied_embeddings=True,
)


def tiny_llama3(
    vocab_size: int = TINY_LLAMA3.vocab_size,
    *,
    num_layers: int = TINY_LLAMA3.num_layers,
    num_heads: int = TINY_LLAMA3.num_heads,
    num_kv_heads: int = TINY_LLAMA3.num_kv_heads,
    embed_dim: int = TINY_LLAMA3.embed_dim,
    intermediate_dim: int = TINY_LLAMA3.intermediate_dim,
    head_dim: int | None = TINY_LLAMA3.head_dim,
    max_seq_len: int = TINY_LLAMA3.max_seq_len,
    tied_embeddings: bool = TINY_LLAMA3.tied_embeddings,
) -> TransformerDecoder:
    """A decoder of Llama 3's kind with fresh weights, about a million parameters unless told otherwise.

    Args:
        vocab_size: ids the model knows; the tokenizer's.
        num_layers: transformer layers.
        num_heads: query heads of a layer.
        num_kv_heads: key/value heads of a layer.
        embed_dim: size of a hidden state.
        intermediate_dim: width of the feed-forward network.
        head_dim: features of a head; None is embed_dim / num_heads.
        max_seq_len: tokens of the longest document.
        tied_embeddings: whether the output projection is the token embedding's weight.

    Raises:
        ConfigError: the sizes don't fit each other.

    >>> tiny_llama3(vocab_size=300, max_seq_len=64).output.weight.shape
    torch.Size([300, 128])
    """
    return build_decoder(
        replace(
            TINY_LLAMA3,
            vocab_size=vocab_size,
            num_layers=num_layers,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            embed_dim=embed_dim,
            intermediate_dim=intermediate_dim,
            head_dim=head_dim,
            max_seq_len=max_seq_len,
            tied_embeddings=tied_embeddings,
        )
    )


def tiny_tokenizer(max_seq_len: int | None = None, *, mask_policy: MaskPolicy = "message") -> ChatFormatTokenizer:
    """Llama 3's tokenizer over the vocabulary of 2,048 tokens that ships with the package.

    It was trained on the embedded sample chats; other text takes more tokens than with a published tokenizer.

    Args:
        max_seq_len: the most tokens a sample may have; None: no limit.
        mask_policy: which tokens of a trained message are trained; see
            :func:`~torchpipe.models.llama3.llama3_tokenizer`.
    """
    path = Path(__file__).parent.parent.joinpath("assets", "tiny_llama3", "tokenizer.model")
    return llama3_tokenizer(str(path), max_seq_len=max_seq_len, mask_policy=mask_policy)
