"""What tells the rows of a source from others, without reading them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchpipe._fingerprint import fingerprint
from torchpipe.errors import NoFingerprint
from torchpipe.sources.file_formats import BY_NAME, READERS_VERSION
from torchpipe.sources.file_names import walked
from torchpipe.sources.file_source import SPEED_OPTIONS, FileSource, file_source
from torchpipe.sources.identity import file_identity, object_fingerprint

_MOST_NAMED = 16
"""Of more files than that, one field stands for all."""

_NAMES_FILES = frozenset({"data_files", "data_dir", "storage_options"})


def source_fingerprint(
    source: Any, load_dataset_kwargs: Mapping[str, Any] | None = None, *, content: bool = False
) -> dict[str, str]:
    """What tells the rows of a source from others: field to text. Equal fields mean equal rows.

    Args:
        source: as :func:`~torchpipe.sources.load_rows` takes it. Of files: each one's path, size, time of its last
            change, inode, and the hash of its first and last 64 KiB, compressed as it is; of one behind an address, its
            size and what its server says changes with it (an ETag, a time, a version). Of a Hub repository: its name
            and the commit that the revision stands for. Of an object: see
            :func:`~torchpipe.sources.identity.object_fingerprint`.
        load_dataset_kwargs: likewise.
        content: of files, the hash of all their bytes, and nothing else; those behind addresses are fetched.

    Raises:
        NoFingerprint: the rows can't be told from others: a file of which its server says no version, a repository of
            which no commit is known, an object that doesn't say what it holds.
        SourceError: there is no such file, or its server is not reached.
    """
    options = dict(load_dataset_kwargs or {})
    if not isinstance(source, str):
        return {"source": object_fingerprint(source)}
    rest = {key: value for key, value in options.items() if key not in SPEED_OPTIONS | _NAMES_FILES | {"revision"}}
    fields = {"source": source, "options": fingerprint(sorted(rest.items()))}
    files = file_source(source, options)
    if files is not None:
        fields["source"] = source if source in BY_NAME else files.format.name
        fields["reader"] = f"{files.format.name} {READERS_VERSION}" if files.is_ours else "load_dataset"
        return {**fields, **_told_apart(_of_files(files, options.get("split"), content))}
    if Path(source).is_dir():  # which load_dataset reads in its own way
        fields["source"] = "folder"
        held = walked(Path(source, options.get("data_dir") or ""))
        return {**fields, **_told_apart([("", file_identity(path, content=content)) for path in held])}
    fields["revision"] = _commit(source, options.get("revision"))
    fields["data"] = fingerprint([options.get(name) for name in sorted(_NAMES_FILES)])
    return fields


def _of_files(files: FileSource, split: Any, content: bool) -> list[tuple[str, str]]:
    """What tells each file from others, with the split that it is given for, if any is named."""
    unnamed = list(files.groups) == ["train"]
    return [
        ("" if unnamed else name, file.identity(content=content))
        for name, group in files.of_splits(split).items()
        for file in group
    ]


def _told_apart(told: list[tuple[str, str]]) -> dict[str, str]:
    if len(told) > _MOST_NAMED:
        return {"files": f"{len(told)} files, {fingerprint(told)}"}
    return {f"file {number}{group and f' of {group}'}": text for number, (group, text) in enumerate(told)}


def _commit(name: str, revision: Any) -> str:
    """The commit of a Hub repository that a revision stands for: asked of the Hub, or else of the local cache."""
    if isinstance(revision, str) and len(revision) == 40 and set(revision) <= set("0123456789abcdef"):
        return revision
    import huggingface_hub
    from huggingface_hub import constants

    why = "HF_HUB_OFFLINE is set"
    if not constants.HF_HUB_OFFLINE:
        try:
            commit = huggingface_hub.HfApi().dataset_info(name, revision=revision).sha
        except Exception as error:  # not reached, in any of several libraries' words; the cache is asked next
            why = f"the Hub answers with {type(error).__name__}"
        else:
            if commit:
                return commit
    folder = constants.REPO_ID_SEPARATOR.join(["datasets", *name.split("/")])
    ref = Path(constants.HF_HUB_CACHE, folder, "refs", str(revision or "main"))
    if ref.is_file():
        return ref.read_text(encoding="utf-8").strip()
    raise NoFingerprint(
        f"It can't be told which commit of {name} is read: {why}, and the cache holds none. Give revision, the 40 "
        "characters of a commit."
    )
