"""Checkpoints: a folder a step, complete or not there at all.

``step_00000120/`` holds ``model.safetensors``, or ``adapter.safetensors`` where only adapters are trained;
``optimizer.pt`` (optimizer, schedule and random-number state, tensors and plain values only); and ``state.json`` (where
the run stands, and what it depends on). ``best/`` holds the files of the step that was best.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from safetensors import SafetensorError
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from torchpipe._publishing import remove_folder, whole_folder
from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models.weights import digest, load_tensors, load_weights, save_tensors, save_weights

FORMAT_VERSION = 3
_READABLE = (2, FORMAT_VERSION)  # 2: without schedules and adapters
_STEP_FOLDER = re.compile(r"step_(\d{8})")
_BEST = "best"
_MODEL, _ADAPTER = "model.safetensors", "adapter.safetensors"

_digests: WeakKeyDictionary[nn.Module, tuple[Any, str]] = WeakKeyDictionary()


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints under ``folder``, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if _STEP_FOLDER.fullmatch(entry.name) and entry.is_dir())


def best_checkpoint(folder: Path) -> Path | None:
    """The checkpoint under ``folder`` that was last saved as the best; None where there is none."""
    return folder / _BEST if (folder / _BEST).is_dir() else None


def checkpoint_to_resume(output_dir: str | Path, *, resume: bool, overwrite: bool) -> Path | None:
    """The checkpoint under ``output_dir/checkpoints`` that a run goes on from; None where it starts anew.

    Raises:
        ConfigError: nothing can be written to ``output_dir``.
        CheckpointError: it holds an earlier run, and neither ``resume`` nor ``overwrite`` is set.
    """
    output_dir = Path(output_dir)
    existing = next(path for path in (output_dir.absolute(), *output_dir.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ConfigError(f"output_dir is {output_dir}, and {existing} is no folder that can be written to.")
    found = checkpoints(output_dir / "checkpoints")
    log = output_dir / "log.jsonl"
    if (found or (log.exists() and log.stat().st_size)) and not (resume or overwrite):
        raise CheckpointError(
            f"{output_dir} already holds a run, {f'up to {found[-1].name}' if found else 'without a checkpoint'}. "
            "resume=true goes on from there, overwrite=true starts anew, or give another output_dir."
        )
    if resume and not found:
        print(f"resume=true, and {output_dir} holds no checkpoint yet: starting at step 0", flush=True)
    return found[-1] if found and resume else None


def save_checkpoint(
    folder: Path,
    *,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
    keep_last: int,
    scheduler: LRScheduler | None = None,
    is_best: bool = False,
    writes: bool = True,
) -> Path:
    """Writes the checkpoint of a step and returns its folder; all but the ``keep_last`` newest are then removed.

    It is written beside its place and renamed, so that a stop at any moment leaves the earlier ones whole. Of a model
    with adapters the trained tensors are written, and a digest of the others: it is resumed over the same base.

    Args:
        folder: of all checkpoints.
        step: steps done.
        model: with ``lora`` not None only what is trained is written.
        optimizer: its state is written.
        state: JSON values: where the run stands, and under ``depends_on`` what :func:`load_checkpoint` compares; it
            may be nested.
        keep_last: how many are kept, beside the best.
        scheduler: its state is written too.
        is_best: also keep this one as ``best``, in place of the best before. The files are shared, so that it costs
            no room until the step's own folder is removed.
        writes: False writes nothing, and returns where another rank does.

    Raises:
        CheckpointError: it can't be written; the earlier checkpoints are as they were.
    """
    target = folder / f"step_{step:08d}"
    if not writes:
        return target
    record = {"version": FORMAT_VERSION, "step": step, **state}
    try:
        with whole_folder(target) as new:
            if (trained := _trained(model)) is None:
                save_weights(model, new / _MODEL)
            else:
                save_tensors(trained, new / _ADAPTER)
                record["base_weights"] = _base_digest(model)
            torch.save(_resumable(optimizer, scheduler), new / "optimizer.pt")
            (new / "state.json").write_text(json.dumps(record, indent=1, sort_keys=True), encoding="utf-8")
            if is_best:
                # Before the step itself: a run that is killed in between saves both again.
                with whole_folder(folder / _BEST) as best:
                    for file in new.iterdir():
                        _link(file, best / file.name)
    except (OSError, RuntimeError, SafetensorError) as error:  # what a full or read-only disk leads to
        earlier = [str(found) for found in checkpoints(folder)[-1:]]
        raise CheckpointError(
            f"The checkpoint of step {step} can't be written to {folder}: {error}. Free the disk and go on with "
            f"resume=true from {earlier[0] if earlier else 'the beginning'}."
        ) from error
    for old in checkpoints(folder)[: -max(1, keep_last)]:
        remove_folder(old)
    return target


def read_state(folder: Path) -> dict[str, Any]:
    """The state of a checkpoint: what :func:`save_checkpoint` was given, ``step`` and ``version``.

    Raises:
        CheckpointError: it is damaged, or of a format that this version does not read.
    """
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        version = state.get("version")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise _damaged(folder, error) from error
    if version not in _READABLE:
        readable = " and ".join(map(str, _READABLE))
        raise CheckpointError(f"The checkpoint {folder} has format {version}; this version reads {readable}.")
    return state


def load_checkpoint(
    folder: Path,
    *,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    depends_on: Mapping[str, Any],
    scheduler: LRScheduler | None = None,
) -> dict[str, Any]:
    """Puts model, optimizer, schedule and torch's random state back, and returns the checkpoint's state.

    A model with adapters has its base loaded before.

    Raises:
        CheckpointError: the checkpoint is damaged, or was made by a run that differs in ``depends_on``; every field
            that differs is named with both values. Also where it was made with adapters over other base weights.
    """
    state = read_state(folder)
    try:
        saved = torch.load(folder / "optimizer.pt", weights_only=True, map_location="cpu")
        has_scheduler = saved.get("scheduler") is not None
        before = _flat(state.get("depends_on", {}))
    except Exception as error:  # torch.load raises whatever the damaged bytes lead to
        raise _damaged(folder, error) from error
    now = _flat(depends_on)
    changed = [
        f"{key} was {before.get(key)!r} and is {now.get(key)!r}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]
    if has_scheduler != (scheduler is not None):
        was, is_now = ("one", "none") if has_scheduler else ("none", "one")
        changed.append(f"lr_scheduler was {was} and is {is_now}")
    if changed:
        raise CheckpointError(
            f"The checkpoint {folder} belongs to another run: {'; '.join(changed)}. Put these back to resume, or start "
            "anew in another output_dir."
        )
    _load_model(model, folder, state.get("base_weights"))
    try:
        optimizer.load_state_dict(saved["optimizer"])
        if scheduler is not None:
            scheduler.load_state_dict(saved["scheduler"])
        torch.set_rng_state(saved["torch_rng"])
        if saved.get("cuda_rng") is not None and torch.cuda.is_initialized():
            torch.cuda.set_rng_state(saved["cuda_rng"])
    except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise _damaged(folder, error) from error
    return state


def _damaged(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint {folder} can't be read: state.json or optimizer.pt is missing or damaged "
        f"({type(error).__name__}). Remove the folder to go on from an earlier one."
    )


def _resumable(optimizer: torch.optim.Optimizer, scheduler: LRScheduler | None) -> dict[str, Any]:
    return {
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler and scheduler.state_dict(),
        "torch_rng": torch.get_rng_state(),
        "cuda_rng": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
    }


def _load_model(model: nn.Module, folder: Path, base_weights: str | None) -> None:
    trained = _trained(model)
    if (trained is None) != (base_weights is None):
        held, has = ("a whole model", "adapters") if trained else ("adapters alone", "none")
        raise CheckpointError(
            f"The checkpoint {folder} holds {held}, and the model has {has}. Build the model as the run before did."
        )
    if trained is None:
        load_weights(model, folder / _MODEL)
    elif (base := _base_digest(model)) != base_weights:
        raise CheckpointError(
            f"The checkpoint {folder} holds adapters over base weights with the digest {base_weights}, and the model's "
            f"have {base}. Load the base that the run before started from, in the same type, or start anew in another "
            "output_dir."
        )
    else:
        load_tensors(trained, folder / _ADAPTER)


def _trained(model: nn.Module) -> dict[str, torch.Tensor] | None:
    """The trained tensors of a model with adapters, which belong to it; None for one without."""
    if getattr(model, "lora", None) is None:
        return None
    return {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if tensor.requires_grad}


def _base_digest(model: nn.Module) -> str:
    """A hash of all that is not trained, computed again only after a change."""
    frozen = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if not tensor.requires_grad}
    version = [(name, tensor.data_ptr(), tensor._version, tensor.dtype) for name, tensor in frozen.items()]
    if _digests.get(model, ((), ""))[0] != version:
        _digests[model] = (version, digest(frozen))
    return _digests[model][1]


def _link(file: Path, new: Path) -> None:
    try:
        os.link(file, new)
    except OSError:  # a file system without links
        shutil.copyfile(file, new)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys, in JSON's types."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.loads(json.dumps(value))
    return flat
