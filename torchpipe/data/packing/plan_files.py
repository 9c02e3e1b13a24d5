"""A plan as a folder: numpy's ``.npy`` files, which are memory-mapped when read, and one JSON file."""

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from uuid import uuid4

import numpy as np

from torchpipe._suggest import listed
from torchpipe.data.packing.pack_plan import PackPlan, PlanLeftOut
from torchpipe.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = 2
_KEYS = {"checksum", "fingerprint", "num_samples", "num_truncated", "left_out", "lengths", "values"}
_ARRAYS = ("sample", "start", "stop", "pack_offsets", "pack_lens")


def save_plan(plan: PackPlan, folder: Path) -> None:
    """Writes the plan as a folder that appears complete or not at all.

    ``plan.json`` holds the counts, the fingerprint, arrays of one value as that value, and a checksum (CRC-32) of all
    that and of the other arrays; these are ``<name>.npy``, numbers left out for a reason ``left_out_<reason>.npy``.

    Raises:
        DataError: the folder holds something else than this plan.
    """
    arrays = {name: getattr(plan, name) for name in _ARRAYS}
    arrays |= {f"left_out_{reason}": samples for reason, samples in plan.left_out.items()}
    values = {name: int(array[0]) for name, array in arrays.items() if len(array) and array.strides == (0,)}
    about = {
        "format": _FORMAT,
        "fingerprint": plan.fingerprint,
        "num_samples": plan.num_samples,
        "num_truncated": plan.num_truncated,
        "left_out": sorted(plan.left_out),
        "lengths": {name: len(array) for name, array in arrays.items()},
        "values": values,
    }
    about["checksum"] = _checksum(about, arrays)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f".{folder.name}.{uuid4().hex}.unfinished")
    try:
        unfinished.mkdir()
        for name, array in arrays.items():
            if name not in values:
                np.save(unfinished / f"{name}.npy", array)
        (unfinished / "plan.json").write_text(json.dumps(about, sort_keys=True, indent=1), encoding="utf-8")
        try:
            os.replace(unfinished, folder)
        except OSError:
            if not folder.exists():
                raise
            if not (folder / "plan.json").is_file() or _about(folder)["fingerprint"] != plan.fingerprint:
                raise DataError(f"{folder}: it holds something else than this plan. Name a new folder.") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def load_plan(folder: Path) -> PackPlan:
    """The plan of a folder, its arrays memory-mapped and its fingerprint as it was written.

    Raises:
        DataError: it holds no plan, one of another format, or not what was written.
    """
    about = _about(folder)
    lengths: Mapping[str, int] = about["lengths"]

    def array(name: str) -> np.ndarray:
        if name in about["values"]:
            return np.broadcast_to(np.int64(about["values"][name]), lengths[name])
        file = folder / f"{name}.npy"
        try:
            # A file of no numbers can't be mapped.
            values: np.ndarray = np.load(file, mmap_mode="r" if lengths[name] else None)
        except (OSError, ValueError) as error:
            raise DataError(f"{file}: this array of a plan can't be read ({error}). Delete {folder}.") from error
        if values.dtype != np.int64 or values.shape != (lengths[name],):
            raise DataError(
                f"{file}: it holds {values.dtype} {list(values.shape)}, and the plan has int64 [{lengths[name]}]. "
                f"Delete {folder}."
            )
        return values

    reasons = [reason for reason in get_args(PlanLeftOut) if reason in about["left_out"]]
    arrays = {name: array(name) for name in (*_ARRAYS, *(f"left_out_{reason}" for reason in reasons))}
    if _checksum(about, arrays) != about["checksum"]:
        raise DataError(f"{folder}: this plan was changed after it was written: its checksum differs. Delete {folder}.")
    plan = PackPlan(
        **{name: arrays[name] for name in _ARRAYS},
        num_samples=about["num_samples"],
        num_truncated=about["num_truncated"],
        left_out={reason: arrays[f"left_out_{reason}"] for reason in reasons},
    )
    vars(plan).update(fingerprint=about["fingerprint"], folder=folder.absolute())
    return plan


def _checksum(about: "Mapping[str, Any]", arrays: "Mapping[str, np.ndarray]") -> int:
    """CRC-32 of what ``plan.json`` says, and of the arrays that have a file of their own, in the order of their names.

    A plan that was damaged where it was kept would lose samples, or give them twice, without a sign.
    """
    told = {name: value for name, value in about.items() if name != "checksum"}
    checksum = zlib.crc32(json.dumps(told, sort_keys=True).encode())
    for name in sorted(arrays.keys() - about["values"].keys()):
        checksum = zlib.crc32(np.ascontiguousarray(arrays[name]).data.cast("B") if arrays[name].size else b"", checksum)
    return checksum


def _about(folder: Path) -> dict[str, Any]:
    file = folder / "plan.json"
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: this is no plan that can be read ({error}). Plan again.") from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        found = about.get("format") if isinstance(about, dict) else None
        raise DataError(f"{file}: a plan of format {found!r}, and this version reads {_FORMAT}. Plan again.")
    missing = _KEYS - about.keys()
    if missing:
        raise DataError(f"{file}: {listed(sorted(missing))} is missing. Plan again.")
    return about
