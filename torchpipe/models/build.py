"""From a config to a model."""

import math

from torch import nn

from torchpipe.models.config import DecoderConfig
from torchpipe.modules import (
    FeedForward,
    Llama3ScaledRoPE,
    MultiHeadAttention,
    RMSNorm,
    RotaryPositionalEmbeddings,
    TiedLinear,
    TransformerDecoder,
    TransformerSelfAttentionLayer,
)

INIT_STD = 0.02
"""Standard deviation of fresh weights."""


def build_decoder(config: DecoderConfig) -> TransformerDecoder:
    """A decoder with fresh weights, the same for the same config and ``torch.manual_seed``.

    Parameters have torchtune's names. Under ``torch.device("meta")`` no memory is used; load or initialise
    the weights after ``model.to_empty(device=...)``, see :func:`init_weights`.
    """
    rope = _rope(config)  # one for all layers: its cache is the model's largest buffer
    layers = [_layer(config, rope) for _ in range(config.num_layers)]
    tok_embeddings = nn.Embedding(config.vocab_size, config.embed_dim)
    tied = config.tied_embeddings
    model = TransformerDecoder(
        tok_embeddings=tok_embeddings,
        layers=layers,
        max_seq_len=config.max_seq_len,
        num_heads=config.num_heads,
        head_dim=config.features_per_head,
        norm=RMSNorm(config.embed_dim, eps=config.norm_eps),
        output=TiedLinear(tok_embeddings) if tied else nn.Linear(config.embed_dim, config.vocab_size, bias=False),
    )
    model.config = config
    init_weights(model)
    return model


def init_weights(model: TransformerDecoder) -> None:
    """Fills the weights in place, to train from scratch.

    Embeddings and projections are normal with standard deviation ``INIT_STD``. Those that write to the residual
    stream (``output_proj`` and ``w2``) have it divided by ``sqrt(2 * num_layers)``, so that the stream's variance
    does not grow with depth; norms are ones. Source: Radford and others, "Language Models are Unsupervised Multitask
    Learners", 2019, section 2.3.
    """
    residual_std = INIT_STD / math.sqrt(2 * max(len(model.layers), 1))
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            nn.init.ones_(parameter)
        else:
            writes_to_residual = name.endswith(("output_proj.weight", "w2.weight"))
            nn.init.normal_(parameter, std=residual_std if writes_to_residual else INIT_STD)


def _rope(config: DecoderConfig) -> RotaryPositionalEmbeddings:
    scaling = config.rope_scaling
    if scaling is None:
        return RotaryPositionalEmbeddings(config.features_per_head, config.max_seq_len, config.rope_base)
    return Llama3ScaledRoPE(
        config.features_per_head,
        config.max_seq_len,
        config.rope_base,
        scale_factor=scaling.scale_factor,
        low_freq_factor=scaling.low_freq_factor,
        high_freq_factor=scaling.high_freq_factor,
        old_context_len=scaling.old_context_len,
    )


def _layer(config: DecoderConfig, rope: RotaryPositionalEmbeddings) -> TransformerSelfAttentionLayer:
    dim, q_dim = config.embed_dim, config.num_heads * config.features_per_head
    kv_dim = config.num_kv_heads * config.features_per_head
    attention = MultiHeadAttention(
        embed_dim=dim,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.features_per_head,
        q_proj=nn.Linear(dim, q_dim, bias=False),
        k_proj=nn.Linear(dim, kv_dim, bias=False),
        v_proj=nn.Linear(dim, kv_dim, bias=False),
        output_proj=nn.Linear(q_dim, dim, bias=False),
        pos_embeddings=rope,
        max_seq_len=config.max_seq_len,
        attn_dropout=config.attn_dropout,
    )
    feed_forward = FeedForward(
        gate_proj=nn.Linear(dim, config.intermediate_dim, bias=False),
        down_proj=nn.Linear(config.intermediate_dim, dim, bias=False),
        up_proj=nn.Linear(dim, config.intermediate_dim, bias=False),
    )
    return TransformerSelfAttentionLayer(
        attention,
        feed_forward,
        sa_norm=RMSNorm(dim, eps=config.norm_eps),
        mlp_norm=RMSNorm(dim, eps=config.norm_eps),
    )
