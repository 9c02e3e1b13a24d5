"""The decoder: token embeddings, a stack of layers, a norm and an output projection."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch import nn

from torchpipe.data.packing.masks import PackedMaskKind
from torchpipe.errors import ConfigError, DataError
from torchpipe.modules.attention import AttentionMask


class TransformerSelfAttentionLayer(nn.Module):
    """Self-attention, then a feed-forward network, each normalised first and added to its input.

    Args:
        attn: called as ``attn(x, x, mask=..., input_pos=...)``.
        mlp: called with [b, s, d].
        sa_norm: applied before attention; none unless given.
        mlp_norm: applied before the feed-forward network; none unless given.
        sa_scale: applied to what attention gives, before it is added; none unless given.
        mlp_scale: the same for the feed-forward network.
    """

    def __init__(
        self,
        attn: nn.Module,
        mlp: nn.Module,
        *,
        sa_norm: nn.Module | None = None,
        mlp_norm: nn.Module | None = None,
        sa_scale: nn.Module | None = None,
        mlp_scale: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.attn = attn
        self.mlp = mlp
        self.sa_norm = nn.Identity() if sa_norm is None else sa_norm
        self.mlp_norm = nn.Identity() if mlp_norm is None else mlp_norm
        self.sa_scale = nn.Identity() if sa_scale is None else sa_scale
        self.mlp_scale = nn.Identity() if mlp_scale is None else mlp_scale

    def setup_caches(
        self,
        batch_size: int,
        dtype: torch.dtype,
        *,
        encoder_max_seq_len: int | None = None,
        decoder_max_seq_len: int,
    ) -> None:
        """Makes a key/value cache in the attention; see :meth:`TransformerDecoder.setup_caches`."""
        _refuse_encoder(encoder_max_seq_len=encoder_max_seq_len)
        self._attention.setup_cache(batch_size, dtype, decoder_max_seq_len)

    def caches_are_setup(self) -> bool:
        """Whether the attention has a cache."""
        return getattr(self.attn, "kv_cache", None) is not None

    def caches_are_enabled(self) -> bool:
        """Whether a call reads and writes the cache."""
        return getattr(self.attn, "cache_enabled", False)

    def reset_cache(self) -> None:
        """Forgets what the cache holds."""
        self._attention.reset_cache()

    @property
    def _attention(self) -> Any:
        if not hasattr(self.attn, "setup_cache"):
            raise ConfigError(f"{type(self.attn).__name__} keeps no key/value cache. Use MultiHeadAttention.")
        return self.attn

    def forward(
        self, x: torch.Tensor, *, mask: AttentionMask | None = None, input_pos: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The layer's output, in the shape of ``x`` [b, s, d]; ``mask`` and ``input_pos`` go to the attention."""
        normed = self.sa_norm(x)
        hidden = x + self.sa_scale(self.attn(normed, normed, mask=mask, input_pos=input_pos))
        return hidden + self.mlp_scale(self.mlp(self.mlp_norm(hidden)))


class TransformerDecoder(nn.Module):
    """A language model that reads tokens and predicts the next one at every position.

    Args:
        tok_embeddings: from ids [b, s] to vectors [b, s, d].
        layers: applied in order; each is called as ``layer(x, mask=..., input_pos=...)``. A single layer is copied
            ``num_layers`` times, weights included.
        max_seq_len: tokens of the longest document.
        num_heads: query heads of a layer, for whoever needs the model's sizes.
        head_dim: features of a head, likewise.
        norm: applied after the last layer.
        output: from vectors [b, s, d] to logits [b, s, v].
        num_layers: copies of a single layer; left out where ``layers`` is a list.
        output_hidden_states: indices of layers whose input is returned too, before the output; none unless given.

    Raises:
        ConfigError: ``num_layers`` is missing or too much, or an index has no layer.

    Attributes:
        num_output_chunks: above 0, the logits come as a list of so many chunks along the row.
        skip_output_layer: while True, ``forward`` returns hidden states. A loss that projects them itself sets it.
        packed_mask: the form of mask that packed batches should bring, a name that ``padded_collate_packed`` knows.
            All work; this one is the fastest.
        config: the sizes that ``build_decoder`` built it from; None for one put together by hand.
        lora: the adapters that ``add_lora`` put in; None for a plain decoder.
    """

    packed_mask: ClassVar[PackedMaskKind] = "varlen"

    def __init__(
        self,
        *,
        tok_embeddings: nn.Module,
        layers: nn.Module | Iterable[nn.Module],
        max_seq_len: int,
        num_heads: int,
        head_dim: int,
        norm: nn.Module,
        output: nn.Module,
        num_layers: int | None = None,
        output_hidden_states: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.tok_embeddings = tok_embeddings
        self.layers = _layers(layers, num_layers)
        self.norm = norm
        self.output = output
        self.max_seq_len = max_seq_len
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.skip_output_layer = False
        self.num_output_chunks = 0
        self.output_hidden_states = sorted(output_hidden_states or ())
        without_layer = [index for index in self.output_hidden_states if not 0 <= index < len(self.layers)]
        if without_layer:
            raise ConfigError(
                f"output_hidden_states names {without_layer}, and the layers are 0 to {len(self.layers) - 1}."
            )
        self.config: Any = None  # a DecoderConfig, which is of a layer above this one
        self.lora: Any = None  # a LoRAConfig

    def set_num_output_chunks(self, num_output_chunks: int) -> None:
        """Makes the logits a list of so many chunks along the row, for a loss that takes them one by one."""
        self.num_output_chunks = num_output_chunks

    def setup_caches(
        self,
        batch_size: int,
        dtype: torch.dtype,
        *,
        encoder_max_seq_len: int | None = None,
        decoder_max_seq_len: int | None = None,
    ) -> None:
        """Makes a key/value cache in every layer, so that calls in eval mode go on from the tokens of those before.

        A call then reads new tokens alone. ``mask`` and ``input_pos`` may be left out: each token sees all before it,
        and positions go on counting. :func:`~torchpipe.modules.local_kv_cache` does this for a ``with`` block.

        Args:
            batch_size: the most rows of a call.
            dtype: type of what is cached; that of the model loses nothing.
            encoder_max_seq_len: must be None, for no layer here attends to an encoder.
            decoder_max_seq_len: the most tokens of a row; None: the model's ``max_seq_len``.

        Raises:
            ConfigError: a size is not positive, there are caches of other sizes, or a layer cannot have one.
        """
        _refuse_encoder(encoder_max_seq_len=encoder_max_seq_len)
        max_seq_len = self.max_seq_len if decoder_max_seq_len is None else decoder_max_seq_len
        for number, layer in enumerate(self.layers):
            if not hasattr(layer, "setup_caches"):
                raise ConfigError(f"Layer {number} is of type {type(layer).__name__}, which has no setup_caches().")
        for layer in self.layers:
            layer.setup_caches(  # pyright: ignore[reportCallIssue]
                batch_size, dtype, encoder_max_seq_len=None, decoder_max_seq_len=max_seq_len
            )

    def caches_are_setup(self) -> bool:
        """Whether the layers have key/value caches."""
        return any(_says(layer, "caches_are_setup") for layer in self.layers)

    def caches_are_enabled(self) -> bool:
        """Whether calls read and write the caches; not within :func:`~torchpipe.modules.disable_kv_cache`."""
        return any(_says(layer, "caches_are_enabled") for layer in self.layers)

    def reset_caches(self) -> None:
        """Forgets what the caches hold, so that the next call begins a new text.

        Raises:
            ConfigError: there are no caches.
        """
        if not self.caches_are_setup():
            raise ConfigError("The model has no key/value caches to reset. Call setup_caches() first.")
        for layer in self.layers:
            layer.reset_cache()  # pyright: ignore[reportCallIssue]

    def forward(
        self,
        tokens: torch.Tensor | None,
        *,
        mask: AttentionMask | None = None,
        encoder_input: torch.Tensor | None = None,
        encoder_mask: torch.Tensor | None = None,
        input_pos: torch.Tensor | None = None,
        input_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor | list[torch.Tensor]:
        """Logits [b, s, v] in the model's type, or hidden states [b, s, d] while ``skip_output_layer`` is True.

        Args:
            tokens: int64 [b, s].
            mask: None is causal; a bool [b, s, s], True where a query may attend to a key, or a ``PackedMask`` keeps
                packed documents apart. With caches see :class:`MultiHeadAttention`.
            encoder_input, encoder_mask: must be None, for no layer here attends to an encoder.
            input_pos: int64 [b, s], each token's position in its document, below ``max_seq_len``; None counts along
                the row, with caches on from what they hold.
            input_embeds: [b, s, d], in place of what the embeddings make of ``tokens``, which is then None.

        Returns:
            One tensor; or, where they were asked for, a list of the hidden states [b, s, d] of
            ``output_hidden_states``, then the logits; those are themselves a list of ``num_output_chunks`` tensors.

        Raises:
            DataError: a row is longer than ``max_seq_len`` and has no ``input_pos``, or the mask does not fit.
            ConfigError: an encoder's input was given, or both tokens and embeddings, or neither.
        """
        _refuse_encoder(encoder_input=encoder_input, encoder_mask=encoder_mask)
        if tokens is not None and input_embeds is None:
            num_tokens = tokens.shape[1]
        elif tokens is None and input_embeds is not None:
            num_tokens = input_embeds.shape[1]
        else:
            raise ConfigError("Give the model either tokens or input_embeds; the other is None.")
        if input_pos is None and num_tokens > self.max_seq_len:
            raise DataError(
                f"The rows have {num_tokens} tokens, and the model's max_seq_len is {self.max_seq_len}. "
                "Cut the rows, or build the model with a larger max_seq_len."
            )
        hidden = self.tok_embeddings(tokens) if input_embeds is None else input_embeds
        kept: list[torch.Tensor] = []
        for index, layer in enumerate(self.layers):
            if index in self.output_hidden_states:
                kept.append(hidden)
            hidden = layer(hidden, mask=mask, input_pos=input_pos)
        output = self.unembed(hidden)
        return [*kept, output] if kept else output

    def unembed(self, hidden: torch.Tensor) -> Any:
        """What ``forward`` returns for the last layer's output [b, s, d]."""
        hidden = self.norm(hidden)
        if self.skip_output_layer:
            return hidden
        if self.num_output_chunks > 0:
            return [self.output(chunk) for chunk in hidden.chunk(self.num_output_chunks, dim=1)]
        return self.output(hidden)


def _layers(layers: nn.Module | Iterable[nn.Module], num_layers: int | None) -> nn.ModuleList:
    """The list of layers, or the copies of one."""
    if isinstance(layers, nn.Module) and not isinstance(layers, nn.ModuleList):
        if num_layers is None:
            raise ConfigError("layers is a single layer. Say by num_layers how often to copy it, or give a list.")
        return nn.ModuleList(deepcopy(layers) for _ in range(num_layers))
    if num_layers is not None:
        raise ConfigError(f"num_layers is {num_layers}, and layers is a list already. Leave num_layers out.")
    return nn.ModuleList(layers)


def _refuse_encoder(**arguments: object) -> None:
    """Raises where an argument for an encoder was given."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise ConfigError(f"{given[0]} was given, and this decoder has no layers that attend to an encoder.")


def _says(layer: nn.Module, question: str) -> bool:
    """The answer of a layer's method; False where it has none."""
    method = getattr(layer, question, None)
    return method is not None and bool(method())
