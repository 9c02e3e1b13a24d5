"""LLaMA-Factory's ``dataset_info.json``: an entry of it as a dataset section of a config."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.datasets.instantiate import instantiate_dataset
from torchpipe.errors import ConfigError, SourceError

# The keys, columns and tags of LLaMA-Factory's data/README.md, and what they are where an entry leaves them out. An
# entry with `columns` has no others than it names.
_ALPACA = {"prompt": "instruction", "query": "input", "response": "output"}
_SHAREGPT = {"messages": "conversations"}
_TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
_ROLES = {
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
_PLACES = ("hf_hub_url", "file_name")
_OTHER_HUBS = ("ms_hub_url", "om_hub_url")
_KEYS = ("formatting", "ranking", "subset", "split", "folder", "revision", "columns", "tags", *_PLACES, *_OTHER_HUBS)
_SHARED = ("system", "tools", "images", "chosen", "rejected", "kto_tag")
_COLUMNS = {"alpaca": ("prompt", "query", "response", "history", *_SHARED), "sharegpt": ("messages", *_SHARED)}
_INSTEAD = {
    "num_samples": "Set split: train[:N] on the section for the first N rows",
    "script_url": "Loading scripts are not run. Write the rows to a file",
    "cloud_file_name": "Name the file in the section's data_files",
    "columns.videos": "There is no video in torchpipe",
    "columns.audios": "There is no audio in torchpipe",
    **dict.fromkeys(_OTHER_HUBS, "ModelScope and OpenMind are not read. Give hf_hub_url or file_name"),
}
_SOURCES = {
    ".json": "json",
    ".jsonl": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "text",
}


def dataset_info(path: str | Path, name: str, *, ignore: Sequence[str] = ()) -> dict[str, Any]:
    """The dataset section of a config that reads what an entry of LLaMA-Factory's ``dataset_info.json`` describes.

    Rows of the ``alpaca`` formatting become a user's message of prompt and query, without a preamble, and the response;
    without a response column they are plain text. Rows of ``sharegpt`` (or ``openai``) are conversations with the
    entry's tags. ``ranking`` gives pairs, ``kto_tag`` labelled answers. Only the assistant's messages are trained.

    Args:
        path: of the file, or of the folder that holds it. Files of entries, and pictures, are looked for beside it.
        name: of the entry.
        ignore: what the entry may have without effect, by name, as ``["columns.audios"]``: the rows are then read as if
            the entry did not have it.

    Raises:
        SourceError: there is no such file.
        ConfigError: there is no such entry, or it has something that torchpipe does not read, which is named.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "dataset_info.json").write_text('{"mine": {"hf_hub_url": "me/mine", "formatting": "sharegpt"}}')
    >>> section = dataset_info(folder, "mine")
    >>> section["_component_"], section["source"], section["conversation_style"]
    ('torchpipe.datasets.chat_dataset', 'me/mine', 'sharegpt')
    """
    file = Path(path) / "dataset_info.json" if Path(path).is_dir() else Path(path)
    entry = _Entry(_entry(file, name), f"The entry {name!r} of {file}", set(ignore))
    return {**_rows(entry, file.parent), **_reading(entry, file.parent)}


def dataset_info_dataset(
    tokenizer: Any, *, path: str | Path, name: str, ignore: Sequence[str] = (), **options: Any
) -> Any:
    """The data set of an entry of LLaMA-Factory's ``dataset_info.json``; see :func:`dataset_info`.

    Args:
        path, name, ignore: see :func:`dataset_info`.
        options: of the builder that the entry leads to, such as ``packed`` or ``split``; they win over the entry's.

    Raises:
        SourceError, ConfigError: as :func:`dataset_info`, and as the builder.
    """
    return instantiate_dataset({**dataset_info(path, name, ignore=ignore), **options}, tokenizer)


class _Entry:
    """An entry without what is ignored, nothing in which is unknown."""

    def __init__(self, given: Mapping[str, Any], where: str, ignore: set[str]) -> None:
        self.where = where
        kept = {key: value for key, value in given.items() if key not in ignore}
        self.formatting = kept.get("formatting", "alpaca")
        if self.formatting not in ("alpaca", "sharegpt", "openai"):
            raise ConfigError(
                f"{where} has the formatting {self.formatting!r}. It is 'alpaca', 'sharegpt' or 'openai'."
            )
        kind = "alpaca" if self.formatting == "alpaca" else "sharegpt"
        self.keys = self._known(kept, _KEYS, "")
        if not any(place in kept for place in _PLACES):
            unread = next((key for key in (*_OTHER_HUBS, "script_url", "cloud_file_name") if key in kept), None)
            raise self.refusal(unread) if unread else ConfigError(f"{where} has neither {listed(_PLACES)}.")
        defaults = _ALPACA if kind == "alpaca" else _SHAREGPT
        named = self._inner("columns", ignore)
        self.columns = self._known(named, _COLUMNS[kind], "columns.") if named is not None else defaults
        tags = self._inner("tags", ignore)
        self.tags = {**_TAGS, **(self._known(tags, tuple(_TAGS), "tags.") if tags else {})}
        self.named_tags = set(tags or ())

    def refusal(self, key: str) -> ConfigError:
        """The error of something that is not read."""
        instead = _INSTEAD.get(key)
        return ConfigError(
            f"{self.where} has {key!r}, which torchpipe does not read. {instead + '. ' if instead else ''}"
            + ("" if key in _OTHER_HUBS else f"Or read the rows without it: ignore=[{key!r}].")
        )

    def _inner(self, key: str, ignore: set[str]) -> dict[str, Any] | None:
        held = self.keys.get(key)
        if held is None:
            return None
        if not isinstance(held, Mapping):
            raise ConfigError(f"{self.where}: {key!r} is a {type(held).__name__}. It is an object of names.")
        return {name: value for name, value in held.items() if f"{key}.{name}" not in ignore and value is not None}

    def _known(self, held: Mapping[str, Any], known: Sequence[str], prefix: str) -> dict[str, Any]:
        for key in held:
            if prefix + key in _INSTEAD and key not in known:
                raise self.refusal(prefix + key)
            if key not in known:
                raise ConfigError(
                    f"{self.where} has {prefix + key!r}, which torchpipe does not know.{did_you_mean(key, known)} It "
                    f"reads {listed(known)}. Or read the rows without it: ignore=[{prefix + key!r}]."
                )
        return dict(held)


def _entry(file: Path, name: str) -> Mapping[str, Any]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"{file} can't be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise ConfigError(f"{file} is no valid JSON: {error}.") from None
    if not isinstance(entries, Mapping) or not isinstance(entries.get(name), Mapping):
        names = entries if isinstance(entries, Mapping) else ()
        raise ConfigError(
            f"{file} has no entry {name!r}.{did_you_mean(name, names)} It has {len(names)} entries: "
            f"{listed(list(names)[:8])}{', ...' if len(names) > 8 else ''}."
        )
    return entries[name]


def _rows(entry: _Entry, folder: Path) -> dict[str, Any]:
    """Where the rows are: source, data_files, split, ..."""
    renamed = {"subset": "name", "folder": "data_dir", "revision": "revision"}
    options = {ours: entry.keys[theirs] for theirs, ours in renamed.items() if entry.keys.get(theirs) is not None}
    split = {"split": entry.keys.get("split") or "train"}
    if entry.keys.get("hf_hub_url") is not None:
        return {"source": entry.keys["hf_hub_url"], **options, **split}
    path = folder / entry.keys["file_name"]
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    kinds = {file.suffix.lower() for file in files}
    if len(kinds) != 1 or not kinds <= _SOURCES.keys():
        raise ConfigError(
            f"{entry.where} names {path}, with files of the kinds {listed(sorted(kinds))}. It is one kind of "
            f"{listed(_SOURCES)}."
        )
    names = [str(file) for file in files]
    return {"source": _SOURCES[kinds.pop()], "data_files": names if path.is_dir() else names[0], **split}


def _reading(entry: _Entry, folder: Path) -> dict[str, Any]:
    """The builder, and how it reads a row."""
    columns = entry.columns
    extra: dict[str, str | None] = {name: columns.get(name) for name in ("system", "tools")}
    if entry.keys.get("ranking"):
        return {"_component_": "torchpipe.datasets.preference_dataset", "column_map": _pair(entry, extra)}
    if "kto_tag" in columns:
        return {"_component_": "torchpipe.datasets.kto_dataset", "column_map": _labelled(entry, extra)}
    for name in ("chosen", "rejected"):
        if name in columns:
            raise ConfigError(f"{entry.where} has 'columns.{name}' without ranking: true. Set both or neither.")
    if entry.formatting == "alpaca":
        return _instructions(entry, extra)
    return _conversations(entry, extra, folder)


def _instructions(entry: _Entry, extra: Mapping[str, str | None]) -> dict[str, Any]:
    columns = entry.columns
    if "images" in columns:
        raise entry.refusal("columns.images")
    if "prompt" not in columns:
        raise ConfigError(f"{entry.where} has no 'columns.prompt'.")
    if "response" not in columns:
        unread = next((name for name in ("query", "history", "system", "tools") if name in columns), None)
        if unread is not None:
            raise entry.refusal(f"columns.{unread}")
        return {"_component_": "torchpipe.datasets.text_completion_dataset", "column": columns["prompt"]}
    named = {name: columns[name] for name in ("prompt", "query", "response", "history") if name in columns}
    transform = {"_component_": "torchpipe.data.InstructionToMessages", "column_map": {**named, **extra}}
    return {"_component_": "torchpipe.datasets.sft_dataset", "message_transform": transform}


def _conversations(entry: _Entry, extra: Mapping[str, str | None], folder: Path) -> dict[str, Any]:
    if "messages" not in entry.columns:
        raise ConfigError(f"{entry.where} has no 'columns.messages'.")
    column, image = entry.columns["messages"], entry.columns.get("images")
    style = _style(entry)
    if style is not None and image is None:
        return {
            "_component_": "torchpipe.datasets.chat_dataset",
            "conversation_column": column,
            "conversation_style": style,
            **{f"{name}_column": held for name, held in extra.items()},
        }
    transform = {
        "_component_": "torchpipe.data.TaggedTurnsToMessages",
        "role_key": entry.tags["role_tag"],
        "content_key": entry.tags["content_tag"],
        "speakers": {entry.tags[tag]: role for tag, role in _ROLES.items()},
        "column_map": {"messages": column, **extra, **({"image": image} if image else {})},
        **({"image_dir": str(folder)} if image else {}),
    }
    return {"_component_": "torchpipe.datasets.sft_dataset", "message_transform": transform}


def _style(entry: _Entry) -> str | None:
    """The layout that chat_dataset knows, if the tags are its own."""
    turns = (entry.tags["role_tag"], entry.tags["content_tag"])
    said = {entry.tags[tag]: role for tag, role in _ROLES.items() if tag in entry.named_tags or tag == "system_tag"}
    if turns == ("from", "value") and all(_SHAREGPT_SPEAKERS.get(speaker) == role for speaker, role in said.items()):
        return "sharegpt"
    if turns == ("role", "content") and all(speaker == role for speaker, role in said.items()):
        return "openai"
    return None


_SHAREGPT_SPEAKERS = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "observation": "observation",
    "function_call": "function_call",
    "system": "system",
}


def _pair(entry: _Entry, extra: Mapping[str, str | None]) -> dict[str, str | None]:
    for name in ("query", "history", "images"):
        if name in entry.columns:
            raise entry.refusal(f"columns.{name}")
    return {
        "prompt": _asked(entry, "ranking: true"),
        **{name: entry.columns.get(name, name) for name in ("chosen", "rejected")},
        **extra,
    }


def _labelled(entry: _Entry, extra: Mapping[str, str | None]) -> dict[str, str | None]:
    for name in ("query", "history", "images"):
        if name in entry.columns:
            raise entry.refusal(f"columns.{name}")
    label = {"label": entry.columns["kto_tag"], **extra}
    asked = _asked(entry, "columns.kto_tag")
    if entry.formatting == "alpaca":
        return {"prompt": asked, "completion": entry.columns.get("response", "output"), **label}
    return {"messages": asked, **label}


def _asked(entry: _Entry, why: str) -> str:
    """The column of the prompt, whose turns are of a layout that is known."""
    if entry.formatting != "alpaca" and _style(entry) is None:
        raise ConfigError(
            f"{entry.where} has tags of its own and {why}. torchpipe reads those with turns of from and value (human, "
            "gpt) or role and content (user, assistant)."
        )
    name = "prompt" if entry.formatting == "alpaca" else "messages"
    if name not in entry.columns:
        raise ConfigError(f"{entry.where} has no 'columns.{name}'.")
    return entry.columns[name]
