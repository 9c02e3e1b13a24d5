"""Llama 4: the tokenizer, and the transform of messages with images (the model itself is not here yet)."""

from torchpipe.models.llama4.tokenizer import Llama4Tokenizer, llama4_tokenizer
from torchpipe.models.llama4.transform import Llama4Transform, llama4_transform

__all__ = ["Llama4Tokenizer", "Llama4Transform", "llama4_tokenizer", "llama4_transform"]
