"""Which safetensors files a folder's weights lie in, and what those files hold."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from torchpipe._counted import counted
from torchpipe._suggest import did_you_mean
from torchpipe.errors import CheckpointError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_LONGEST_NAME = 255
FLOATS = ("F64", "F32", "F16", "BF16")
_PICKLED = (".bin", ".pt", ".pth")


@dataclass(frozen=True, kw_only=True)
class StoredTensors:
    """Tensors in open files.

    Attributes:
        shapes: of every tensor, by name.
        no_floats: of those whose values are no floats of 16 bits or more, the type as the file says it.
        read: gives the tensor of a name, in the type that it is stored in.
    """

    shapes: Mapping[str, list[int]]
    no_floats: Mapping[str, str]
    read: Callable[[str], torch.Tensor]


def refuse_no_floats(no_floats: Mapping[str, str], path: Path) -> None:
    """Refuses integers and floats of 8 bits or fewer: they are quantized weights, and stand for other numbers.

    Args:
        no_floats: the types of such tensors, by name.
        path: where they lie.

    Raises:
        CheckpointError: there are such tensors.
    """
    if no_floats:
        name, kind = min(no_floats.items())
        raise CheckpointError(
            f"{path} holds {counted(len(no_floats), 'tensor')} without floating-point numbers of 16 bits or more, "
            f"such as {name} ({kind}). They are quantized, and only plain weights are read: choose the checkpoint "
            "that it was made from."
        )


def weight_files(folder: Path, files: Sequence[str] | None = None) -> list[str]:
    """Names of the files that hold a folder's weights.

    Args:
        folder: may hold an index, which says for each tensor in which file it lies.
        files: the names that the caller expects; None takes the index's, or the single file's.

    Raises:
        CheckpointError: there is no folder or no such file, or the index names others.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is no folder. Give the folder that holds {SINGLE_FILE} or its shards.")
    indexed = sorted(set(read_index(folder).values()))
    given = files is not None
    if files is None:
        files = indexed or [SINGLE_FILE]
    pickled = [name for name in files if name.endswith(_PICKLED)]
    missing = [name for name in files if not (folder / name).is_file()]
    found = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    if pickled or (missing and not any(name.endswith(".safetensors") for name in found)):
        held = pickled or [name for name in found if name.endswith(_PICKLED)]
        raise CheckpointError(
            f"{folder} has its weights in {_names(held)}, and only safetensors are read. Write them anew with "
            "transformers: AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)."
            if held
            else f"{folder} holds no safetensors file. Give the folder that holds {SINGLE_FILE} or its shards."
        )
    if missing:
        raise CheckpointError(_what_is_missing(folder, missing, found=found, indexed=indexed, given=given))
    if indexed and sorted(set(files)) != indexed:
        unlisted, unknown = sorted(set(indexed) - set(files)), sorted(set(files) - set(indexed))
        parts = [f"{words} {_names(names)}" for words, names in (("lacks", unlisted), ("adds", unknown)) if names]
        raise CheckpointError(
            f"The list of files and {folder / INDEX_FILE} disagree: the list {' and '.join(parts)}. List the files "
            "that the index names."
        )
    return sorted(set(files))


def _what_is_missing(folder: Path, missing: list[str], *, found: list[str], indexed: list[str], given: bool) -> str:
    """What to say of files that a folder lacks, and what to do: by whether they were named, and by what is there."""
    no_file = f"{folder} has no such file{'s' * (len(missing) > 1)}."
    if set(missing) <= set(indexed):
        near = did_you_mean(missing[0], set(found) - set(indexed), cutoff=0.8)
        return f"{INDEX_FILE} names {_names(missing)}, and {no_file}{near} Fetch the whole checkpoint again."
    stored = [name for name in found if name.endswith(".safetensors")]
    if not given:
        there = f"{folder} has no {_names(missing)} and no index; it holds {_names(stored)}."
        return f"{there} Name a whole checkpoint's folder."
    if indexed:
        return f"The list of files has {_names(missing)}, and {no_file} Give the files of its index: {_names(indexed)}."
    near = did_you_mean(missing[0], stored, cutoff=0.8)
    return f"The list of files has {_names(missing)}, and {no_file}{near or f' It holds {_names(stored)}.'}"


def read_index(folder: Path) -> dict[str, str]:
    """For each tensor the file that it lies in, as the folder's index says; empty without an index.

    Raises:
        CheckpointError: the index can't be read.
    """
    path = folder / INDEX_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        index = {str(name): str(file) for name, file in content["weight_map"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} can't be read as an index of safetensors files ({type(error).__name__}: {error}). "
            "Fetch it from the model's publisher again."
        ) from error
    if elsewhere := sorted(file for file in set(index.values()) if not _is_file_name(file)):
        raise CheckpointError(
            f"{path} has tensors in {elsewhere[0][:100]!r}, which is no name of a file beside it. Fetch it from the "
            "model's publisher again."
        )
    return index


def _is_file_name(name: str) -> bool:
    """Whether it can only be a file of the folder that it is looked for in, on any system."""
    return name not in ("", ".", "..") and len(name) <= _LONGEST_NAME and not set(name) & set("/\\\0")


@contextmanager
def open_tensors(folder: Path, files: Sequence[str] | None = None) -> Iterator[StoredTensors]:
    """The tensors of a folder's files, open while the block runs. The files are memory-mapped, not read as a whole.

    Arguments as for :func:`weight_files`.

    Raises:
        CheckpointError: a file is missing, cut off or no safetensors file; two files hold the same tensor; or the index
            and the files disagree.
    """
    index = read_index(folder)
    handles: dict[str, Any] = {}
    file_of: dict[str, str] = {}
    shapes: dict[str, list[int]] = {}
    no_floats: dict[str, str] = {}
    with ExitStack() as stack:
        for file in weight_files(folder, files):
            try:
                handles[file] = stack.enter_context(safe_open(folder / file, framework="pt"))
            except (OSError, ValueError, SafetensorError) as error:
                raise unreadable(folder / file, error) from error
            for name in handles[file].keys():  # noqa: SIM118
                if name in file_of:
                    raise CheckpointError(
                        f"{name} lies in {file_of[name]} and in {file} of {folder}. Name the files of one checkpoint."
                    )
                file_of[name] = file
                tensor = handles[file].get_slice(name)
                shapes[name] = list(tensor.get_shape())
                if (kind := tensor.get_dtype()) not in FLOATS:
                    no_floats[name] = kind
        misplaced = [name for name, file in index.items() if file_of.get(name) != file]
        if misplaced:
            name = misplaced[0]
            raise CheckpointError(
                f"{folder / INDEX_FILE} and its files disagree on {len(misplaced)} tensors: {name} is to lie in "
                f"{index[name]} and is in {file_of.get(name, 'none of them')}. Fetch the whole checkpoint again."
            )
        yield StoredTensors(
            shapes=shapes, no_floats=no_floats, read=lambda name: handles[file_of[name]].get_tensor(name)
        )


def unreadable(path: Path, error: Exception) -> CheckpointError:
    """What to say of a file that is no safetensors file, or not a whole one."""
    size = path.stat().st_size if path.is_file() else 0
    return CheckpointError(
        f"{path} ({size:,} bytes) can't be read as safetensors: {error}. It is cut off or another kind of file: "
        "fetch it again."
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
