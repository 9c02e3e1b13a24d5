"""Adapters from and to folders in PEFT's layout."""

from pathlib import Path

from torchpipe.modules import TransformerDecoder


def save_peft_adapter(model: TransformerDecoder, folder: str | Path, *, base_model: str | None = None) -> None:
    """Writes ``adapter_config.json`` and ``adapter_model.safetensors``."""
    raise NotImplementedError


def load_peft_adapter(model: TransformerDecoder, folder: str | Path) -> None:
    """Copies an adapter's weights into those of ``model``."""
    raise NotImplementedError
