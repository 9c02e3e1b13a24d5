"""The files beside a model's tokenizer: its chat templates, its control tokens, and where sampling stops."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchpipe.errors import SourceError, TokenizerError
from torchpipe.tokenizers.backend import PrefixScheme
from torchpipe.tokenizers.control_matcher import PLAIN, TokenFlags

TOKENIZER_CONFIG = "tokenizer_config.json"
GENERATION_CONFIG = "generation_config.json"
TOKENIZER_JSON = "tokenizer.json"
_TEMPLATE = "chat_template.jinja"
_MORE_TEMPLATES = "additional_chat_templates"

FilePath = str | Path


@dataclass(frozen=True, kw_only=True)
class AddedToken:
    """A token that a tokenizer's files add to its vocabulary. ``special`` ones are left out of decoded text."""

    text: str
    token_id: int
    special: bool = False
    flags: TokenFlags = PLAIN


@dataclass(frozen=True, kw_only=True)
class HuggingFaceFiles:
    """What the config files of a model say about its text; None and empty where they say nothing.

    Attributes:
        bos_token, eos_token, pad_token, unk_token: texts of control tokens.
        additional_special_tokens: texts of further ones.
        added_tokens: by text, with their ids.
        chat_templates: by name; a single template is called "default".
        bos_token_id, pad_token_id: ids of ``generation_config.json``.
        eos_token_ids: the ids at which sampling stops, of ``generation_config.json``.
        add_bos_token, add_eos_token: whether the model's tokenizer puts BOS before plain text, and EOS behind it.
        add_prefix_space, legacy: how its SentencePiece text is prefixed; see :attr:`prefix_scheme`.
    """

    bos_token: str | None = None
    eos_token: str | None = None
    pad_token: str | None = None
    unk_token: str | None = None
    additional_special_tokens: tuple[str, ...] = ()
    added_tokens: Mapping[str, AddedToken] = field(default_factory=dict)
    chat_templates: Mapping[str, str] = field(default_factory=dict)
    bos_token_id: int | None = None
    pad_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    add_prefix_space: bool | None = None
    legacy: bool | None = None

    @property
    def flags(self) -> dict[str, TokenFlags]:
        """How added tokens take their neighbours, by text."""
        return {text: token.flags for text, token in self.added_tokens.items()}

    @property
    def special_tokens(self) -> dict[str, int]:
        """Ids of the added tokens, special or not, by text."""
        return {text: token.token_id for text, token in self.added_tokens.items()}

    @property
    def prefix_scheme(self) -> PrefixScheme:
        """Where the prefix space of a SentencePiece model stands, in the words of its tokenizer config.

        "never" with ``add_prefix_space: false``, else "first" with ``legacy: false``, else "always".
        """
        if self.add_prefix_space is False:
            return "never"
        return "first" if self.legacy is False else "always"

    def chat_template(self, *, tools: bool = False) -> str | None:
        """The template for a conversation, "tool_use" where there is one and tools are given; None without any.

        Raises:
            TokenizerError: there are several, and none is called "default".
        """
        if not self.chat_templates:
            return None
        name = "tool_use" if tools and "tool_use" in self.chat_templates else "default"
        if name not in self.chat_templates:
            raise TokenizerError(
                f"The model has the chat templates {sorted(self.chat_templates)}, and none of them is called "
                "'default'. Give the text of one as chat_template."
            )
        return self.chat_templates[name]


def read_hf_files(
    folder: FilePath | None = None,
    *,
    tokenizer_config: FilePath | None = None,
    generation_config: FilePath | None = None,
    chat_template: FilePath | None = None,
) -> HuggingFaceFiles:
    """What a model's files say about its text.

    Args:
        folder: a model's folder, of which the files that are there are read: ``tokenizer_config.json``,
            ``generation_config.json``, ``special_tokens_map.json``, ``added_tokens.json``, ``chat_template.jinja``,
            ``chat_template.json`` and ``additional_chat_templates``. A template file goes before the config's template.
        tokenizer_config, generation_config, chat_template: single files, which go before those of the folder.

    Raises:
        SourceError: there is no such folder, or no such file.
        TokenizerError: a file is not of its form.
    """
    root = None if folder is None else Path(folder)
    if root is not None and not root.is_dir():
        raise SourceError(f"{root} is no folder. Give the folder of a model, or its files one by one.")
    config = _read(root, TOKENIZER_CONFIG, tokenizer_config)
    generation = _read(root, GENERATION_CONFIG, generation_config)
    tokens = {**_read(root, "special_tokens_map.json"), **{key: value for key, value in config.items() if value}}
    added = _added_tokens(config, _read(root, "added_tokens.json"))
    return HuggingFaceFiles(
        bos_token=_text(tokens.get("bos_token"), "bos_token"),
        eos_token=_text(tokens.get("eos_token"), "eos_token"),
        pad_token=_text(tokens.get("pad_token"), "pad_token"),
        unk_token=_text(tokens.get("unk_token"), "unk_token"),
        additional_special_tokens=_texts(tokens.get("additional_special_tokens"), "additional_special_tokens"),
        added_tokens={token.text: token for token in added},
        chat_templates=_chat_templates(root, config, chat_template),
        bos_token_id=_first(generation, "bos_token_id"),
        pad_token_id=_first(generation, "pad_token_id"),
        eos_token_ids=_ids(generation, "eos_token_id"),
        add_bos_token=_flag(config, "add_bos_token"),
        add_eos_token=_flag(config, "add_eos_token"),
        add_prefix_space=_flag(config, "add_prefix_space"),
        legacy=_flag(config, "legacy"),
    )


def _read(root: Path | None, name: str, given: FilePath | None = None) -> dict[str, Any]:
    """The JSON object in a file that is given, or stands in the folder; empty where it is neither."""
    if given is None and (root is None or not (root / name).is_file()):
        return {}
    path = Path(given) if given is not None else Path(root or "", name)
    try:
        content = json.loads(_read_text(path))
    except ValueError as error:
        raise TokenizerError(f"{path} is not JSON ({error}). Give the model's own {name}.") from error
    if not isinstance(content, dict):
        raise TokenizerError(f"{path} holds a {type(content).__name__}. Give the model's own {name}, a JSON object.")
    return content


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(f"Can't read {path}: {error.strerror}. Check its path.") from error
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path} is not UTF-8 text ({error}). Give the model's own file.") from error


def _text(token: Any, name: str) -> str | None:
    """The text of a token, which is a string or an object with ``content``."""
    text = token.get("content") if isinstance(token, Mapping) else token
    if text is not None and not isinstance(text, str):
        raise TokenizerError(f"{name} is {token!r}. It should be a text, or an object with its text as `content`.")
    return text or None


def _texts(tokens: Any, name: str) -> tuple[str, ...]:
    if not isinstance(tokens, (list, tuple, type(None))):
        raise TokenizerError(f"{name} is {tokens!r}. It should be a list of texts.")
    return tuple(text for token in tokens or () if (text := _text(token, name)) is not None)


def _added_tokens(config: Mapping[str, Any], older: Mapping[str, Any]) -> Iterable[AddedToken]:
    """Those of ``added_tokens.json`` (text to id), then those of the config, which know more."""
    try:
        for text, token_id in older.items():
            yield AddedToken(text=text, token_id=int(token_id))
        for token_id, token in config.get("added_tokens_decoder", {}).items():
            special, flags = bool(token.get("special")), TokenFlags.of(token)
            yield AddedToken(text=token["content"], token_id=int(token_id), special=special, flags=flags)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TokenizerError(
            f"The added tokens of the model can't be read ({type(error).__name__}: {error}). added_tokens_decoder "
            "should map an id to an object with `content`, and added_tokens.json a text to its id."
        ) from error


def _chat_templates(root: Path | None, config: Mapping[str, Any], given: FilePath | None) -> dict[str, str]:
    if given is not None:
        return {"default": _read_text(Path(given))}
    templates = _named(config.get("chat_template"))
    if root is not None:
        templates |= _named(_read(root, "chat_template.json").get("chat_template"))
        if (root / _TEMPLATE).is_file():
            templates["default"] = _read_text(root / _TEMPLATE)
        templates |= {file.stem: _read_text(file) for file in sorted((root / _MORE_TEMPLATES).glob("*.jinja"))}
    return templates


def _named(templates: Any) -> dict[str, str]:
    if templates is None or isinstance(templates, str):
        return {} if templates is None else {"default": templates}
    items = templates.items() if isinstance(templates, Mapping) else None
    if items is None and isinstance(templates, list) and all(isinstance(item, Mapping) for item in templates):
        items = [(item.get("name"), item.get("template")) for item in templates]
    named = None if items is None else dict(items)
    if named is None or not all(isinstance(value, str) for pair in named.items() for value in pair):
        raise TokenizerError(
            "chat_template should be a text, or a list of objects with `name` and `template`, and is "
            f"{type(templates).__name__} {str(templates)[:60]!r}."
        )
    return named


def _ids(config: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = config.get(name)
    ids = () if value is None else tuple(value) if isinstance(value, list) else (value,)
    if not all(type(token_id) is int for token_id in ids):
        raise TokenizerError(f"{name} of {GENERATION_CONFIG} is {value!r}. It should be an id, or a list of ids.")
    return ids


def _first(config: Mapping[str, Any], name: str) -> int | None:
    return next(iter(_ids(config, name)), None)


def _flag(config: Mapping[str, Any], name: str) -> bool | None:
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise TokenizerError(f"{name} of {TOKENIZER_CONFIG} is {value!r}. It should be true or false.")
    return value
