"""What tells the rows of a source from others, without reading them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchpipe._fingerprint import fingerprint
from torchpipe.errors import NoFingerprint
from torchpipe.sources.huggingface import FILE_FORMATS, SPEED_OPTIONS, local_files, no_such_file
from torchpipe.sources.identity import file_identity, object_fingerprint

_MOST_NAMED = 16
"""Of more files than that, one field stands for all."""

_NAMES_FILES = frozenset({"data_files", "data_dir"})


def source_fingerprint(
    source: Any, load_dataset_kwargs: Mapping[str, Any] | None = None, *, content: bool = False
) -> dict[str, str]:
    """What tells the rows of a source from others: field to text. Equal fields mean equal rows.

    Args:
        source: as :func:`~torchpipe.sources.load_rows` takes it. Of a name with local files: each file's path, size,
            time of its last change, inode, and the hash of its first and last 64 KiB. Of a Hub repository: its name and
            the commit that the revision stands for. Of an object: see
            :func:`~torchpipe.sources.identity.object_fingerprint`.
        load_dataset_kwargs: likewise.
        content: of local files, the hash of all their bytes, and nothing else.

    Raises:
        NoFingerprint: the rows can't be told from others: files behind addresses, a repository of which no commit is
            known, an object that doesn't say what it holds.
        SourceError: there is no such file.
    """
    options = dict(load_dataset_kwargs or {})
    if not isinstance(source, str):
        return {"source": object_fingerprint(source)}
    rest = {key: value for key, value in options.items() if key not in SPEED_OPTIONS | _NAMES_FILES | {"revision"}}
    fields = {"source": source, "options": fingerprint(sorted(rest.items()))}
    is_local = source in FILE_FORMATS or Path(source).exists()
    files = list(_files(source, options))
    if source not in FILE_FORMATS and is_local:
        fields["source"] = "folder"
    if not is_local:
        fields["revision"] = _commit(source, options.get("revision"))
        fields["data"] = fingerprint([options.get(name) for name in sorted(_NAMES_FILES)])
        return fields
    return {**fields, **_told_apart(files, content)}


def _told_apart(files: Sequence[tuple[str, Path]], content: bool) -> dict[str, str]:
    for _, path in files:
        if not path.exists():
            raise no_such_file(path)
    told = [(group, file_identity(path, content=content)) for group, path in files]
    if len(told) > _MOST_NAMED:
        return {"files": f"{len(told)} files, {fingerprint(told)}"}
    return {f"file {number}{group and f' of {group}'}": text for number, (group, text) in enumerate(told)}


def _files(source: str, options: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """The local files, each with the split that it is given for, if any."""
    files, folder = options.get("data_files"), options.get("data_dir")
    root = Path(source) if source not in FILE_FORMATS else None
    for group, names in files.items() if isinstance(files, Mapping) else [("", files)]:
        for name in [names] if isinstance(names, str | Path) else names or []:
            if "://" in str(name):
                raise NoFingerprint(
                    f"The source reads {name}, and what stands behind an address may change. Download it, or give the "
                    "repository of the Hub that holds it."
                )
        if names:
            base = root if folder is None else Path(root or "", folder)
            for path in local_files({"data_files": names, "data_dir": base}):
                yield str(group), path
    if files:
        return
    if root is not None and root.is_file():
        yield "", root
    elif root is not None or folder is not None:
        held = Path(root or "", folder or "")
        found = [path for path in sorted(held.rglob("*")) if path.is_file()]
        yield from (("", path) for path in found if not path.name.startswith("."))


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
