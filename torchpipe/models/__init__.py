"""Models: a config, a builder, and one small file for each family's sizes."""

from torchpipe.models.build import build_decoder, init_weights
from torchpipe.models.config import DecoderConfig, RopeScaling
from torchpipe.models.weights import load_weights, save_weights

__all__ = ["DecoderConfig", "RopeScaling", "build_decoder", "init_weights", "load_weights", "save_weights"]
