"""Model building blocks."""

from torchpipe.modules.attention import MultiHeadAttention
from torchpipe.modules.chunked_loss import CEWithChunkedOutputLoss
from torchpipe.modules.feed_forward import FeedForward
from torchpipe.modules.losses import LinearCrossEntropyLoss, linear_cross_entropy
from torchpipe.modules.norms import RMSNorm
from torchpipe.modules.rope import Llama3ScaledRoPE, RotaryPositionalEmbeddings
from torchpipe.modules.tied_linear import TiedLinear
from torchpipe.modules.transformer import TransformerDecoder, TransformerSelfAttentionLayer

__all__ = [
    "CEWithChunkedOutputLoss",
    "FeedForward",
    "LinearCrossEntropyLoss",
    "Llama3ScaledRoPE",
    "MultiHeadAttention",
    "RMSNorm",
    "RotaryPositionalEmbeddings",
    "TiedLinear",
    "TransformerDecoder",
    "TransformerSelfAttentionLayer",
    "linear_cross_entropy",
]
