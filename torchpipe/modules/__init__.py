"""Model building blocks."""

from torchpipe.modules.attention import MultiHeadAttention
from torchpipe.modules.chunked_loss import CEWithChunkedOutputLoss
from torchpipe.modules.feed_forward import FeedForward
from torchpipe.modules.kv_cache import KVCache, delete_kv_caches, disable_kv_cache, local_kv_cache
from torchpipe.modules.losses import LinearCrossEntropyLoss, linear_cross_entropy
from torchpipe.modules.norms import RMSNorm
from torchpipe.modules.rope import Llama3ScaledRoPE, RotaryPositionalEmbeddings
from torchpipe.modules.tied_linear import TiedLinear
from torchpipe.modules.transformer import TransformerDecoder, TransformerSelfAttentionLayer

__all__ = [
    "CEWithChunkedOutputLoss",
    "FeedForward",
    "KVCache",
    "LinearCrossEntropyLoss",
    "Llama3ScaledRoPE",
    "MultiHeadAttention",
    "RMSNorm",
    "RotaryPositionalEmbeddings",
    "TiedLinear",
    "TransformerDecoder",
    "TransformerSelfAttentionLayer",
    "delete_kv_caches",
    "disable_kv_cache",
    "linear_cross_entropy",
    "local_kv_cache",
]
