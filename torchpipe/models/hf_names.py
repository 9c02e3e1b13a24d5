"""The names of a Llama decoder's tensors in three layouts: ours, Hugging Face's and Meta's.

Ours are torchtune's. Hugging Face's stand in the checkpoints that ``save_pretrained`` writes
(https://huggingface.co/meta-llama/Llama-3.2-1B/blob/main/model.safetensors), Meta's in ``consolidated.00.pth``
(https://github.com/meta-llama/llama-models/blob/main/models/llama3/model.py).
"""

import re
from dataclasses import dataclass
from typing import Literal

import torch

Layout = Literal["ours", "hf", "meta"]
"""A column of the table."""


@dataclass(frozen=True, kw_only=True)
class TensorName:
    """One tensor's name in each layout; ``{}`` stands for the layer's number.

    Attributes:
        ours: in a ``TransformerDecoder``.
        hf: in Hugging Face's ``LlamaForCausalLM``.
        meta: in Meta's ``Transformer``.
        paired_rows: whether its rows are features that the rotary embeddings turn in pairs. We and Meta keep the two
            of a pair next to each other, Hugging Face half a head apart; see :func:`halves_from_pairs`.
    """

    ours: str
    hf: str
    meta: str
    paired_rows: bool = False


def _in_layer(ours: str, hf: str, meta: str, *, paired_rows: bool = False) -> TensorName:
    return TensorName(
        ours=f"layers.{{}}.{ours}",
        hf=f"model.layers.{{}}.{hf}",
        meta=f"layers.{{}}.{meta}",
        paired_rows=paired_rows,
    )


TENSOR_NAMES: tuple[TensorName, ...] = (
    TensorName(ours="tok_embeddings.weight", hf="model.embed_tokens.weight", meta="tok_embeddings.weight"),
    _in_layer("attn.q_proj.weight", "self_attn.q_proj.weight", "attention.wq.weight", paired_rows=True),
    _in_layer("attn.k_proj.weight", "self_attn.k_proj.weight", "attention.wk.weight", paired_rows=True),
    _in_layer("attn.v_proj.weight", "self_attn.v_proj.weight", "attention.wv.weight"),
    _in_layer("attn.output_proj.weight", "self_attn.o_proj.weight", "attention.wo.weight"),
    _in_layer("mlp.w1.weight", "mlp.gate_proj.weight", "feed_forward.w1.weight"),
    _in_layer("mlp.w2.weight", "mlp.down_proj.weight", "feed_forward.w2.weight"),
    _in_layer("mlp.w3.weight", "mlp.up_proj.weight", "feed_forward.w3.weight"),
    _in_layer("sa_norm.scale", "input_layernorm.weight", "attention_norm.weight"),
    _in_layer("mlp_norm.scale", "post_attention_layernorm.weight", "ffn_norm.weight"),
    TensorName(ours="norm.scale", hf="model.norm.weight", meta="norm.weight"),
    TensorName(ours="output.weight", hf="lm_head.weight", meta="output.weight"),
)
"""Every tensor of a Llama decoder."""

EMBEDDING, OUTPUT = TENSOR_NAMES[0], TENSOR_NAMES[-1]

_ROWS = {row.ours: row for row in TENSOR_NAMES}


def row_of(ours: str) -> TensorName | None:
    """The table's row for one of our names; None where the table has none.

    >>> row_of("layers.7.mlp.w1.weight").hf
    'model.layers.{}.mlp.gate_proj.weight'
    """
    return _ROWS.get(re.sub(r"^layers\.\d+\.", "layers.{}.", ours))


def name_in(layout: Layout, ours: str) -> str | None:
    """One of our names in another layout; None where the table has none.

    >>> name_in("hf", "layers.7.attn.q_proj.weight"), name_in("meta", "norm.scale")
    ('model.layers.7.self_attn.q_proj.weight', 'norm.weight')
    """
    row = row_of(ours)
    layer = re.match(r"layers\.(\d+)\.", ours)
    return row and getattr(row, layout).format(layer and layer[1])


def halves_from_pairs(tensor: torch.Tensor, head_dim: int) -> torch.Tensor:
    """The rows of each head in Hugging Face's order: the first of every pair, then the second of every pair.

    Their rotary embeddings turn feature i with feature i + head_dim / 2, ours 2i with 2i + 1. With the rows of the
    query and key projections moved so, both compute the same scores.

    Args:
        tensor: [n_h * head_dim, ...], one row a feature.
        head_dim: features of a head.

    >>> halves_from_pairs(torch.arange(8), 4).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    return tensor.unflatten(0, (-1, head_dim // 2, 2)).transpose(1, 2).reshape(tensor.shape)


def pairs_from_halves(tensor: torch.Tensor, head_dim: int) -> torch.Tensor:
    """The inverse of :func:`halves_from_pairs`.

    >>> pairs_from_halves(torch.tensor([0, 2, 1, 3, 4, 6, 5, 7]), 4).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    return tensor.unflatten(0, (-1, 2, head_dim // 2)).transpose(1, 2).reshape(tensor.shape)
