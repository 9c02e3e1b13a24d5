"""Where a run's first weights come from and its last ones go to, with torchtune's names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchpipe.modules import TransformerDecoder


class FullModelHFCheckpointer:
    """Weights in Hugging Face's layout."""

    def __init__(
        self,
        checkpoint_dir: str,
        checkpoint_files: Sequence[str] | Mapping[str, str] | None = None,
        model_type: str = "LLAMA3",
        output_dir: str | None = None,
        adapter_checkpoint: str | None = None,
        recipe_checkpoint: str | None = None,
        resume_from_checkpoint: bool = False,
        safe_serialization: bool = True,
        should_load_recipe_state: bool = False,
    ) -> None:
        raise NotImplementedError

    def load(self, model: TransformerDecoder, *, tokenizer: Any = None) -> None:
        """Loads the base weights (and the adapter's, where ``adapter_checkpoint`` names one) into ``model``.

        With a tokenizer the embeddings are resized: to the checkpoint's rows before loading, and after it to the
        tokenizer's ids. Build the optimizer after this.
        """
        raise NotImplementedError

    def export(self, model: TransformerDecoder, name: str, *, adapter_only: bool = False) -> Path:
        """Writes ``output_dir/name`` and returns it: merged weights in Hugging Face's layout, the publisher's tokenizer
        files, and of a LoRA model the adapter in PEFT's layout under ``adapter/``.
        """
        raise NotImplementedError

    def fingerprint(self) -> str:
        """A hash of the base files' content, for what a resumed run compares."""
        raise NotImplementedError
