"""Weights from and to folders in Hugging Face's layout."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchpipe.modules import TransformerDecoder

MAX_SHARD_BYTES = 5 * 2**30


def load_hf_weights(model: TransformerDecoder, folder: str | Path, files: Sequence[str] | None = None) -> None:
    """Copies a folder's weights into ``model``, in the model's types and on its devices."""
    raise NotImplementedError


def save_hf_weights(
    model: TransformerDecoder,
    folder: str | Path,
    *,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    more_config: Mapping[str, Any] | None = None,
) -> None:
    """Writes a folder that transformers' ``from_pretrained`` loads; merged where the model has adapters."""
    raise NotImplementedError
