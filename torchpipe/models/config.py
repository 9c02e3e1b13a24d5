"""The facts that tell one decoder from another."""

from dataclasses import dataclass, fields

from torchpipe.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How Llama 3.1 and later slow the slow rotations down; see ``Llama3ScaledRoPE``.

    Attributes:
        scale_factor: what low frequencies are divided by.
        low_freq_factor: turns within the old context up to which a frequency is low.
        high_freq_factor: turns within the old context from which a frequency is kept.
        old_context_len: tokens of the context first trained on.

    Raises:
        ConfigError: a number is not positive, or low_freq_factor is not below high_freq_factor.
    """

    scale_factor: float
    low_freq_factor: float
    high_freq_factor: float
    old_context_len: int

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_positive(field.name, getattr(self, field.name))
        if self.low_freq_factor >= self.high_freq_factor:
            raise ConfigError(
                f"low_freq_factor is {self.low_freq_factor} and high_freq_factor is {self.high_freq_factor}. "
                "The low one must be smaller."
            )


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """One decoder's architecture; :func:`torchpipe.models.build.build_decoder` builds it.

    Attributes:
        vocab_size: ids the model knows.
        num_layers: transformer layers.
        num_heads: query heads of a layer.
        num_kv_heads: key/value heads, shared by equal groups of query heads.
        embed_dim: size of a hidden state.
        intermediate_dim: width of the feed-forward network.
        head_dim: features of a head; None is embed_dim / num_heads.
        max_seq_len: tokens of the longest document.
        rope_base: base of the rotary embeddings' frequencies.
        rope_scaling: how those are slowed down for a longer context; None leaves them.
        norm_eps: added to the mean square in each norm.
        tied_embeddings: whether the output projection is the token embedding's weight.
        attn_dropout: probability of dropping an attention weight in training.

    Raises:
        ConfigError: a size is not positive, two of them don't divide, or the dropout is outside [0, 1].

    >>> DecoderConfig(vocab_size=100, num_layers=1, num_heads=4, num_kv_heads=2, embed_dim=64, intermediate_dim=128,
    ...               max_seq_len=32, rope_base=10_000.0).features_per_head
    16
    """

    vocab_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    embed_dim: int
    intermediate_dim: int
    head_dim: int | None = None
    max_seq_len: int
    rope_base: float
    rope_scaling: RopeScaling | None = None
    norm_eps: float = 1e-5
    tied_embeddings: bool = False
    attn_dropout: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("rope_scaling", "tied_embeddings", "attn_dropout") and value is not None:
                _check_positive(field.name, value)
        if not 0.0 <= self.attn_dropout <= 1.0:
            raise ConfigError(f"attn_dropout is {self.attn_dropout}. Give a probability between 0 and 1.")
        if self.num_heads % self.num_kv_heads:
            raise ConfigError(
                f"num_heads is {self.num_heads} and num_kv_heads is {self.num_kv_heads}. Query heads share key/value "
                "heads in equal groups: num_kv_heads must divide num_heads."
            )
        if self.head_dim is None and self.embed_dim % self.num_heads:
            raise ConfigError(
                f"embed_dim is {self.embed_dim} and num_heads is {self.num_heads}, which does not divide it. "
                "Choose sizes that divide, or give head_dim."
            )
        if self.features_per_head % 2:
            raise ConfigError(
                f"A head has {self.features_per_head} features, and rotary embeddings turn pairs of them. "
                "Give an even head_dim."
            )

    @property
    def features_per_head(self) -> int:
        """``head_dim``, or what follows from the other sizes."""
        return self.embed_dim // self.num_heads if self.head_dim is None else self.head_dim


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{name} is {value}. Give a number above 0.")
