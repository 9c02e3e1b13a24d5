"""The architecture of Llama 3 and later, in any size."""

from collections.abc import Sequence

from torchpipe.models.build import build_decoder
from torchpipe.models.config import DecoderConfig, RopeScaling
from torchpipe.models.lora import build_lora_decoder
from torchpipe.modules import TransformerDecoder


def llama(
    vocab_size: int,
    num_layers: int,
    num_heads: int,
    num_kv_heads: int,
    embed_dim: int,
    max_seq_len: int,
    attn_dropout: float = 0.0,
    rope_base: float = 500_000,
    intermediate_dim: int | None = None,
    norm_eps: float = 1e-5,
    *,
    scale_factor: float | None = None,
    tie_word_embeddings: bool = False,
) -> TransformerDecoder:
    """A decoder of these sizes with fresh weights.

    Args:
        vocab_size: ids the model knows.
        num_layers: transformer layers.
        num_heads: query heads of a layer.
        num_kv_heads: key/value heads, shared by equal groups of query heads.
        embed_dim: size of a hidden state.
        max_seq_len: tokens of the longest document.
        attn_dropout: probability of dropping an attention weight in training.
        rope_base: base of the rotary embeddings' frequencies.
        intermediate_dim: width of the feed-forward network; None is 8/3 of embed_dim, up to a multiple of 256.
        norm_eps: added to the mean square in each norm.
        scale_factor: what the slow rotations are divided by for a longer context; None is Llama 3, without.
        tie_word_embeddings: whether the output projection is the token embedding's weight.

    Raises:
        ConfigError: the sizes don't fit each other.

    >>> llama(100, num_layers=1, num_heads=2, num_kv_heads=1, embed_dim=8, max_seq_len=16).output.weight.shape
    torch.Size([100, 8])
    """
    config = DecoderConfig(
        vocab_size=vocab_size,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        embed_dim=embed_dim,
        intermediate_dim=_intermediate_dim(embed_dim) if intermediate_dim is None else intermediate_dim,
        max_seq_len=max_seq_len,
        rope_base=rope_base,
        rope_scaling=None if scale_factor is None else rope_scaling(scale_factor),
        norm_eps=norm_eps,
        tied_embeddings=tie_word_embeddings,
        attn_dropout=attn_dropout,
    )
    return build_decoder(config)


def lora_llama(
    lora_attn_modules: Sequence[str],
    apply_lora_to_mlp: bool = False,
    apply_lora_to_output: bool = False,
    *,
    vocab_size: int,
    num_layers: int,
    num_heads: int,
    num_kv_heads: int,
    embed_dim: int,
    max_seq_len: int,
    intermediate_dim: int | None = None,
    attn_dropout: float = 0.0,
    norm_eps: float = 1e-5,
    rope_base: float = 500_000,
    scale_factor: float | None = None,
    lora_rank: int,
    lora_alpha: float,
    lora_dropout: float = 0.0,
    use_dora: bool = False,
    quantize_base: bool = False,
    tie_word_embeddings: bool = False,
) -> TransformerDecoder:
    """A decoder of these sizes with fresh weights that are frozen, and fresh adapters that are trained.

    The sizes are those of :func:`llama`, the adapters' arguments those of
    :func:`~torchpipe.models.lora.build_lora_decoder`.

    Raises:
        ConfigError: the sizes don't fit each other, or the adapters can't be as asked for.
    """
    config = DecoderConfig(
        vocab_size=vocab_size,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        embed_dim=embed_dim,
        intermediate_dim=_intermediate_dim(embed_dim) if intermediate_dim is None else intermediate_dim,
        max_seq_len=max_seq_len,
        rope_base=rope_base,
        rope_scaling=None if scale_factor is None else rope_scaling(scale_factor),
        norm_eps=norm_eps,
        tied_embeddings=tie_word_embeddings,
        attn_dropout=attn_dropout,
    )
    return build_lora_decoder(
        config,
        lora_attn_modules,
        apply_lora_to_mlp,
        apply_lora_to_output,
        lora_rank,
        lora_alpha,
        lora_dropout,
        use_dora,
        quantize_base,
    )


def rope_scaling(scale_factor: float) -> RopeScaling:
    """How Llama 3.1 and later slow the slow rotations down, by this factor.

    Source of the other figures: https://huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json and
    https://huggingface.co/meta-llama/Llama-3.2-1B/blob/main/config.json, ``rope_scaling``.
    """
    return RopeScaling(scale_factor=scale_factor, low_freq_factor=1.0, high_freq_factor=4.0, old_context_len=8192)


def _intermediate_dim(embed_dim: int) -> int:
    """8/3 of ``embed_dim``, up to a multiple of 256: as many parameters as a network of 4 times without a gate has.

    Source: ``FeedForward`` in https://github.com/meta-llama/llama-models/blob/main/models/llama3/model.py, rounded
    down before the factor 4 as torchtune does.
    """
    return -(-4 * int(2 * embed_dim / 3) // 256) * 256
