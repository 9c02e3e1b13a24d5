"""Checkpoints: a folder a step, complete or not there at all.

``step_00000120/`` holds ``model.safetensors``, ``optimizer.pt`` (optimizer and random-number state, tensors only) and
``state.json`` (where the run stands, and what it depends on).
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models.weights import load_weights, save_weights

FORMAT_VERSION = 2
_STEP_FOLDER = re.compile(r"step_(\d{8})")


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints under ``folder``, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if _STEP_FOLDER.fullmatch(entry.name) and entry.is_dir())


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
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    is_best: bool = False,
) -> Path:
    """Writes the checkpoint of a step and returns its folder; all but the ``keep_last`` newest are then removed.

    It is written beside its place and renamed, so that a stop at any moment leaves the earlier ones whole.

    Raises:
        CheckpointError: it can't be written; the earlier checkpoints are as they were.

    Args:
        state: JSON values: where the run stands, and under ``depends_on`` what :func:`load_checkpoint` compares; it
            may be nested.
    """
    target = folder / f"step_{step:08d}"
    partial = folder / f".partial_{step:08d}_{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        save_weights(model, partial / "model.safetensors")
        torch.save({"optimizer": optimizer.state_dict(), "torch_rng": torch.get_rng_state()}, partial / "optimizer.pt")
        record = {"version": FORMAT_VERSION, "step": step, **state}
        (partial / "state.json").write_text(json.dumps(record, indent=1, sort_keys=True), encoding="utf-8")
        for file in partial.iterdir():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
    except (OSError, RuntimeError, SafetensorError) as error:  # what a full or read-only disk leads to
        shutil.rmtree(partial, ignore_errors=True)
        earlier = [str(found) for found in checkpoints(folder)[-1:]]
        raise CheckpointError(
            f"The checkpoint of step {step} can't be written to {folder}: {error}. Free the disk and go on with "
            f"resume=true from {earlier[0] if earlier else 'the beginning'}."
        ) from error
    if target.exists():
        shutil.rmtree(target)
    partial.rename(target)
    for old in checkpoints(folder)[: -max(1, keep_last)]:
        shutil.rmtree(old)
    for leftover in folder.glob(".partial_*"):
        shutil.rmtree(leftover)
    return target


def load_checkpoint(
    folder: Path,
    *,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    depends_on: Mapping[str, Any],
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> dict[str, Any]:
    """Puts model, optimizer and torch's random state back, and returns the checkpoint's state.

    Raises:
        CheckpointError: the checkpoint is damaged, or was made by a run that differs in ``depends_on``; every field
            that differs is named with both values.
    """
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        saved = torch.load(folder / "optimizer.pt", weights_only=True)
        version, before = state.get("version"), _flat(state.get("depends_on", {}))
    except Exception as error:  # torch.load raises whatever the damaged bytes lead to
        raise CheckpointError(
            f"The checkpoint {folder} can't be read: state.json or optimizer.pt is missing or damaged "
            f"({type(error).__name__}). Remove the folder to go on from an earlier one."
        ) from error
    if version != FORMAT_VERSION:
        raise CheckpointError(f"The checkpoint {folder} has format {version}; this version reads {FORMAT_VERSION}.")
    now = _flat(depends_on)
    changed = [
        f"{key} was {before.get(key)!r} and is {now.get(key)!r}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]
    if changed:
        raise CheckpointError(
            f"The checkpoint {folder} belongs to another run: {'; '.join(changed)}. Put these back to resume, or start "
            "anew in another output_dir."
        )
    load_weights(model, folder / "model.safetensors")
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["torch_rng"])
    return state


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys, in JSON's types."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.loads(json.dumps(value))
    return flat
