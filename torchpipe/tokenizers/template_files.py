"""What the files of a chat template's tokenizer say, as arguments of :class:`ChatTemplateTokenizer`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from torchpipe.errors import ConfigError, SourceError
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.hf_files import HuggingFaceFiles
from torchpipe.tokenizers.jinja.conversation import ON_UNPROVED
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.render import MaskPolicy


def files_arguments(
    hf: HuggingFaceFiles,
    backend: Backend,
    special_tokens: Mapping[str, int],
    template_kwargs: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The arguments of a :class:`ChatTemplateTokenizer` that a model's config files decide."""
    kwargs = dict(template_kwargs or {})
    named = {name: kwargs.pop(name, getattr(hf, name)) for name in ("bos_token", "eos_token", "pad_token")}
    texts = {token_id: text for text, token_id in {**backend.control_tokens, **special_tokens}.items()}
    return {
        "special_tokens": special_tokens,
        "token_flags": hf.flags,
        "stop_tokens": [texts[token_id] for token_id in hf.eos_token_ids if token_id in texts],
        "template_kwargs": kwargs,
        **named,
    }


def as_template(template: str | ProvableTemplate) -> ProvableTemplate:
    """The template itself, or the one of that text."""
    return template if isinstance(template, ProvableTemplate) else ProvableTemplate(template)


def template_text(chat_template: str | Path) -> str:
    """The text of a template that is given as itself, or as the path of its file.

    Raises:
        SourceError: it is a path, and there is no such file.
    """
    text = str(chat_template)
    if isinstance(chat_template, str) and ("{" in text or "\n" in text):
        return text
    try:
        return Path(chat_template).read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(
            f"Can't read the chat template {text!r}: {error.strerror}. Give the path of its file, or its text."
        ) from error


def check_choices(max_seq_len: int | None, **choices: str) -> None:
    """Refuses a length or a choice that is none.

    Raises:
        ConfigError: ``max_seq_len`` is no whole number above 0, or a choice none of its own.
    """
    if max_seq_len is not None and (not isinstance(max_seq_len, int) or max_seq_len < 1):
        raise ConfigError(
            f"max_seq_len is {max_seq_len!r}. Give a whole number of tokens above 0, or null for no limit."
        )
    allowed = {
        "truncation_type": ("left", "right"),
        "mask_policy": get_args(MaskPolicy),
        "on_unproved": ON_UNPROVED,
    }
    for name, value in choices.items():
        if value not in allowed[name]:
            raise ConfigError(f"{name} is {value!r}. It can be {' or '.join(map(repr, allowed[name]))}.")
