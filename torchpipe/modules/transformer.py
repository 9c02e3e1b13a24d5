"""The decoder: token embeddings, a stack of layers, a norm and an output projection."""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import nn

from torchpipe.data.packing.masks import PackedMaskKind
from torchpipe.errors import DataError
from torchpipe.modules.attention import AttentionMask


class TransformerSelfAttentionLayer(nn.Module):
    """Self-attention, then a feed-forward network, each normalised first and added to its input.

    Args:
        attn: called as ``attn(x, x, mask=..., input_pos=...)``.
        mlp: called with [b, s, d].
        sa_norm: applied before attention; none unless given.
        mlp_norm: applied before the feed-forward network; none unless given.
    """

    def __init__(
        self,
        attn: nn.Module,
        mlp: nn.Module,
        *,
        sa_norm: nn.Module | None = None,
        mlp_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.attn = attn
        self.mlp = mlp
        self.sa_norm = nn.Identity() if sa_norm is None else sa_norm
        self.mlp_norm = nn.Identity() if mlp_norm is None else mlp_norm

    def forward(
        self, x: torch.Tensor, *, mask: AttentionMask | None = None, input_pos: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The layer's output, in the shape of ``x`` [b, s, d]; ``mask`` and ``input_pos`` go to the attention."""
        normed = self.sa_norm(x)
        hidden = x + self.attn(normed, normed, mask=mask, input_pos=input_pos)
        return hidden + self.mlp(self.mlp_norm(hidden))


class TransformerDecoder(nn.Module):
    """A language model that reads tokens and predicts the next one at every position.

    Args:
        tok_embeddings: from ids [b, s] to vectors [b, s, d].
        layers: applied in order; each is called as ``layer(x, mask=..., input_pos=...)``.
        max_seq_len: tokens of the longest document.
        num_heads: query heads of a layer, for whoever needs the model's sizes.
        head_dim: features of a head, likewise.
        norm: applied after the last layer.
        output: from vectors [b, s, d] to logits [b, s, v].

    Attributes:
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
        layers: Iterable[nn.Module],
        max_seq_len: int,
        num_heads: int,
        head_dim: int,
        norm: nn.Module,
        output: nn.Module,
    ) -> None:
        super().__init__()
        self.tok_embeddings = tok_embeddings
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output = output
        self.max_seq_len = max_seq_len
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.skip_output_layer = False
        self.config: Any = None  # a DecoderConfig, which is of a layer above this one
        self.lora: Any = None  # a LoRAConfig

    def forward(
        self, tokens: torch.Tensor, *, mask: AttentionMask | None = None, input_pos: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Logits [b, s, v] in the model's type, or hidden states [b, s, d] while ``skip_output_layer`` is True.

        Args:
            tokens: int64 [b, s].
            mask: None is causal; a bool [b, s, s], True where a query may attend to a key, or a ``PackedMask`` keeps
                packed documents apart.
            input_pos: int64 [b, s], each token's position in its document, below ``max_seq_len``; None counts along
                the row.

        Raises:
            DataError: a row is longer than ``max_seq_len`` and has no ``input_pos``, or the mask does not fit.
        """
        if input_pos is None and tokens.shape[1] > self.max_seq_len:
            raise DataError(
                f"The rows have {tokens.shape[1]} tokens, and the model's max_seq_len is {self.max_seq_len}. "
                "Cut the rows, or build the model with a larger max_seq_len."
            )
        hidden = self.tok_embeddings(tokens)
        for layer in self.layers:
            hidden = layer(hidden, mask=mask, input_pos=input_pos)
        hidden = self.norm(hidden)
        return hidden if self.skip_output_layer else self.output(hidden)
