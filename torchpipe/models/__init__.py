"""Models: a config, a builder, and one small file for each family's sizes."""

from torchpipe._not_yet import refusing
from torchpipe.models.build import build_decoder, init_weights
from torchpipe.models.config import DecoderConfig, RopeScaling
from torchpipe.models.hf_weights import load_hf_weights, save_hf_weights
from torchpipe.models.peft_adapters import load_peft_adapter, save_peft_adapter
from torchpipe.models.resize import resize_token_embeddings
from torchpipe.models.weights import load_weights, save_weights

__all__ = [
    "DecoderConfig",
    "RopeScaling",
    "build_decoder",
    "init_weights",
    "load_hf_weights",
    "load_peft_adapter",
    "load_weights",
    "resize_token_embeddings",
    "save_hf_weights",
    "save_peft_adapter",
    "save_weights",
]

__getattr__ = refusing(__name__)
