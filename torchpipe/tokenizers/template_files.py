"""What the files of a chat template's tokenizer say, as arguments of :class:`ChatTemplateTokenizer`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchpipe.errors import SourceError
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.hf_files import HuggingFaceFiles
from torchpipe.tokenizers.jinja.provable import ProvableTemplate


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
