"""Where a run's first weights come from and its last ones go to, with torchtune's names.

What a run is resumed from is another thing: :mod:`torchpipe.training.checkpoint`.
"""

import hashlib
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models.hf_config import CONFIG_FILE, read_config_json
from torchpipe.models.hf_files import open_tensors, refuse_no_floats, weight_files
from torchpipe.models.hf_names import EMBEDDING, Layout
from torchpipe.models.hf_weights import load_hf_weights, write_hf_weights
from torchpipe.models.layouts import num_ids
from torchpipe.models.peft_adapters import (
    ADAPTER_CONFIG_FILE,
    adapter_state,
    load_peft_adapter,
    lora_of,
    write_peft_adapter,
)
from torchpipe.models.publish import published_folder
from torchpipe.models.resize import resize_token_embeddings, set_vocab_size
from torchpipe.models.single_file import load_single_file, open_single_file
from torchpipe.models.weights import check_tensors, shapes_of
from torchpipe.modules import TransformerDecoder
from torchpipe.training.file_names import file_names
from torchpipe.training.model_type import model_type_of

ADAPTER_FOLDER = "adapter"
"""The folder inside an export that PEFT loads. Beside merged weights transformers would add the adapter once more."""

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".index.json")
_REPOSITORY_FILE = "original_repo_id.json"  # which torchtune's download leaves
_SAMPLES, _SAMPLE_BYTES = 64, 2**16


class FullModelCheckpointer:
    """What the three checkpointers share: the base in, trained weights out in Hugging Face's layout.

    Args:
        checkpoint_dir: the folder of the base weights.
        checkpoint_files: the names of its files.
        model_type: a name of :class:`~torchpipe.training.ModelType`.
        output_dir: exports go into folders of it. Not inside ``checkpoint_dir``.
        adapter_checkpoint: an adapter to start from: a folder in PEFT's layout, or a file of torchtune's. Looked for
            under ``output_dir``, then as it is.
        recipe_checkpoint: refused; see below.
        resume_from_checkpoint: refused where True: runs are resumed by the recipe, with ``resume: true``.
        should_load_recipe_state: likewise.

    Raises:
        ConfigError: an argument can't be used.
    """

    layout: ClassVar[Layout]

    def __init__(
        self,
        checkpoint_dir: str,
        checkpoint_files: Sequence[str] | Mapping[str, str] | None,
        model_type: str,
        output_dir: str,
        adapter_checkpoint: str | None = None,
        recipe_checkpoint: str | None = None,
        resume_from_checkpoint: bool = False,
        should_load_recipe_state: bool = False,
    ) -> None:
        self.model_type = model_type_of(model_type)
        self.checkpoint_dir, self.output_dir = Path(checkpoint_dir), Path(output_dir)
        if self.output_dir.absolute().is_relative_to(self.checkpoint_dir.absolute()):
            raise ConfigError(
                f"output_dir {output_dir} lies in checkpoint_dir {checkpoint_dir}. Give another one, so that the base "
                "weights stay as they are."
            )
        if recipe_checkpoint or resume_from_checkpoint or should_load_recipe_state:
            raise ConfigError(
                "The checkpointer was asked to resume a run (recipe_checkpoint, resume_from_checkpoint or "
                "should_load_recipe_state). Leave these out: the recipe goes on from output_dir with resume=true, and "
                "a state that torchtune saved is not read."
            )
        self.checkpoint_files = file_names(checkpoint_files)
        self.adapter_checkpoint = self._adapter_path(adapter_checkpoint) if adapter_checkpoint else None

    def load(self, model: TransformerDecoder, *, tokenizer: Any = None) -> None:
        """Loads the base weights, and those of ``adapter_checkpoint``, into ``model``. Build the optimizer after it.

        Args:
            model: not on the meta device; ``to_empty`` first.
            tokenizer: given, the vocabulary is resized: before loading to the checkpoint's, and then to the
                tokenizer's by :func:`~torchpipe.models.resize_token_embeddings`.

        Warns:
            UserWarning: the model was built with another vocabulary than the checkpoint's.

        Raises:
            CheckpointError: the files can't be read or don't fit the model, or the ids don't match.
            ConfigError: there is an adapter to load and the model has none.
        """
        if tokenizer is not None and (rows := self._num_rows()) not in (None, num_ids(model)):
            warnings.warn(
                f"The model was built for {num_ids(model)} ids and {self.checkpoint_dir} has {rows}: it takes on the "
                "checkpoint's.",
                stacklevel=2,
            )
            set_vocab_size(model, rows)
        self._load_base(model)
        if tokenizer is not None:
            resize_token_embeddings(model, tokenizer, checkpoint_dir=self.checkpoint_dir)
        if self.adapter_checkpoint is not None:
            _load_adapter(model, self.adapter_checkpoint)

    def export(self, model: TransformerDecoder, name: str, *, adapter_only: bool = False) -> Path:
        """Writes the folder ``output_dir/name`` in Hugging Face's layout, and returns it.

        It holds the weights, merged where the model has adapters, with ``config.json``; the other files of
        ``checkpoint_dir``, such as the tokenizer's; and in ``adapter/`` the adapters in PEFT's layout. It is published
        in one step, in place of an earlier export of that name.

        Args:
            model: the trained one.
            name: the folder's, such as ``epoch_0``.
            adapter_only: leave the merged weights out.

        Raises:
            CheckpointError: it can't be written, or the folder holds something that is no export.
            ConfigError: ``adapter_only``, and the model has no adapters.
        """
        if adapter_only and model.lora is None:
            raise ConfigError(
                "save_adapter_weights_only is True and the model has no adapters. Leave it out to save the weights."
            )
        if name in ("", "..") or Path(name).name != name:
            raise ConfigError(f"The name of an export is {name!r}. Give the name of one folder, such as epoch_0.")
        folder = self.output_dir / name
        with published_folder(folder) as new:
            if not adapter_only:
                write_hf_weights(model, new, more_config=read_config_json(self.checkpoint_dir))
            if model.lora is not None:
                (new / ADAPTER_FOLDER).mkdir()
                write_peft_adapter(model, new / ADAPTER_FOLDER, base_model=self._base_name())
            for file in self._other_files():
                shutil.copyfile(file, new / file.name)
        return folder

    def fingerprint(self) -> str:
        """A hash that differs for other base weights, as 32 hexadecimal digits.

        It reads each file's size and 64 blocks spread over it, so that 100 GB take no longer than 1: enough to notice a
        mix-up. A checkpoint of adapters compares every value of the base besides.

        Raises:
            CheckpointError: a file is missing.
        """
        total = hashlib.sha256()
        for file in self._files():
            size = file.stat().st_size
            total.update(f"{file.name} {size}\n".encode())
            with file.open("rb") as content:
                for sample in range(_SAMPLES):
                    content.seek(max(0, size - _SAMPLE_BYTES) * sample // (_SAMPLES - 1))
                    total.update(content.read(_SAMPLE_BYTES))
        return total.hexdigest()[:32]

    def _files(self) -> list[Path]:
        names = self.checkpoint_files or []
        if len(names) != 1:
            raise ConfigError(
                f"checkpoint_files has {len(names)} names, and {type(self).__name__} reads one file. Name one; "
                "FullModelHFCheckpointer reads several."
            )
        path = self.checkpoint_dir / names[0]
        if not path.is_file():
            raise CheckpointError(f"There is no file {path}. Check checkpoint_dir and checkpoint_files.")
        return [path]

    def _load_base(self, model: TransformerDecoder) -> None:
        load_single_file(model, self._files()[0], self.layout)

    def _num_rows(self) -> int | None:
        with open_single_file(self._files()[0]) as stored:
            return stored.shapes.get(getattr(EMBEDDING, self.layout), [None])[0]

    def _adapter_path(self, given: str) -> Path:
        found = next((path for path in (self.output_dir / given, Path(given)) if path.exists()), None)
        if found is None:
            raise ConfigError(
                f"adapter_checkpoint is {given!r}, which is neither under output_dir {self.output_dir} nor a path. "
                "Give the folder with adapter_config.json."
            )
        return found

    def _base_name(self) -> str:
        """Where PEFT finds the base: the publisher's name of it where a download noted that, or the folder."""
        noted = read_config_json(self.checkpoint_dir, _REPOSITORY_FILE) or {}
        return str(noted.get("repo_id") or self.checkpoint_dir.absolute())

    def _other_files(self) -> list[Path]:
        """What lies beside the base weights and belongs beside the trained ones too."""
        own = (CONFIG_FILE, ADAPTER_CONFIG_FILE)
        return [
            file
            for file in sorted(self.checkpoint_dir.iterdir())
            if file.is_file() and not file.name.startswith(".") and not file.name.endswith(_WEIGHTS)
            if file.name not in own
        ]


class FullModelTorchTuneCheckpointer(FullModelCheckpointer):
    """Weights from one file under torchtune's names, ``.pt`` or ``.safetensors``; as :class:`FullModelCheckpointer`."""

    layout: ClassVar[Layout] = "ours"


class FullModelMetaCheckpointer(FullModelCheckpointer):
    """Weights from Meta's ``consolidated.00.pth``; as :class:`FullModelCheckpointer`."""

    layout: ClassVar[Layout] = "meta"


class FullModelHFCheckpointer(FullModelCheckpointer):
    """Weights from safetensors files in Hugging Face's layout; as :class:`FullModelCheckpointer`, but for:

    Args:
        checkpoint_files: the names of the files, or ``{filename_format, max_filename}`` as torchtune has it; None takes
            those of the folder's index.
        safe_serialization: refused where False: weights are written as safetensors.
    """

    layout: ClassVar[Layout] = "hf"

    def __init__(
        self,
        checkpoint_dir: str,
        checkpoint_files: Sequence[str] | Mapping[str, str] | None,
        model_type: str,
        output_dir: str,
        adapter_checkpoint: str | None = None,
        recipe_checkpoint: str | None = None,
        resume_from_checkpoint: bool = False,
        safe_serialization: bool = True,
        should_load_recipe_state: bool = False,
    ) -> None:
        if not safe_serialization:
            raise ConfigError("safe_serialization is False, and weights are written as safetensors. Leave it out.")
        super().__init__(
            checkpoint_dir,
            checkpoint_files,
            model_type,
            output_dir,
            adapter_checkpoint,
            recipe_checkpoint,
            resume_from_checkpoint,
            should_load_recipe_state,
        )

    def _files(self) -> list[Path]:
        return [self.checkpoint_dir / name for name in weight_files(self.checkpoint_dir, self.checkpoint_files)]

    def _load_base(self, model: TransformerDecoder) -> None:
        load_hf_weights(model, self.checkpoint_dir, self.checkpoint_files)

    def _num_rows(self) -> int | None:
        with open_tensors(self.checkpoint_dir, self.checkpoint_files) as stored:
            return stored.shapes.get(EMBEDDING.hf, [None])[0]


class DistributedCheckpointer:
    """torchtune's checkpointer of sharded models, which is not here: making one says what to do instead.

    Raises:
        ConfigError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise ConfigError(
            "torchpipe has no DistributedCheckpointer: each rank holds the whole model, and rank 0 saves it. Use "
            "FullModelHFCheckpointer; save_every_n_steps writes checkpoints that resume on any number of ranks."
        )


def _load_adapter(model: TransformerDecoder, path: Path) -> None:
    """Loads a folder or ``.safetensors`` file in PEFT's layout, or a file of torchtune's under our names."""
    if path.is_dir() or path.suffix == ".safetensors":
        load_peft_adapter(model, path if path.is_dir() else path.parent)
        return
    lora_of(model)
    with open_single_file(path) as stored, torch.no_grad():
        state = adapter_state(model)
        check_tensors(
            shapes_of(state), stored.shapes, path, do="Give the model the adapters that the file was saved with."
        )
        refuse_no_floats(stored.no_floats, path)
        for name, tensor in state.items():
            tensor.copy_(stored.read(name))
