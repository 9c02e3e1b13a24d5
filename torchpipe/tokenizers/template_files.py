"""What the files of a chat template's tokenizer say, as arguments of :class:`ChatTemplateTokenizer`."""

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, SourceError
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.hf_files import HuggingFaceFiles
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.template_globals import FixedDay


def files_arguments(
    hf: HuggingFaceFiles,
    backend: Backend,
    special_tokens: Mapping[str, int],
    template_kwargs: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The arguments of a :class:`ChatTemplateTokenizer` that a model's config files decide."""
    kwargs = template_options(template_kwargs)
    # A null among the options says that there is none; it stays there, so that nobody asks for it.
    named = {name: kwargs.get(name, getattr(hf, name)) for name in ("bos_token", "eos_token", "pad_token")}
    kwargs = {name: value for name, value in kwargs.items() if name not in named or value is None}
    texts = {token_id: text for text, token_id in {**backend.control_tokens, **special_tokens}.items()}
    return {
        "special_tokens": special_tokens,
        "token_flags": hf.flags,
        "stop_tokens": [texts[token_id] for token_id in hf.eos_token_ids if token_id in texts],
        "template_kwargs": kwargs,
        **named,
    }


def check_names(
    template: ProvableTemplate,
    tool_template: ProvableTemplate,
    named: Mapping[str, str],
    template_kwargs: Mapping[str, Any],
    backend: Backend,
) -> None:
    """Refuses names that a template reads and nobody gives, and names that are given and it doesn't read.

    Raises:
        ConfigError: BOS or EOS is missing, which templates would write as nothing; or an option has no effect.
    """
    read = template.shape.names_read | tool_template.shape.names_read
    for name in ("bos_token", "eos_token"):
        if name in read and name not in named and name not in template_kwargs:
            near = [text for text in ("<s>" if name == "bos_token" else "</s>",) if text in backend.control_tokens]
            raise ConfigError(
                f"The chat template writes {name}, and none is given, so it would be left out. Give the model's "
                f"tokenizer_config, or template_kwargs: {{{name}: {near[0] if near else '...'}}} (null leaves it out)."
            )
    for name in template_kwargs:
        if name not in read and name not in ("pad_token", "strftime_now"):
            known = sorted(read - {"messages", "tools", "add_generation_prompt"})
            raise ConfigError(
                f"template_kwargs has {name!r}, which the chat template does not read.{did_you_mean(name, known)}"
            )


def as_template(template: str | ProvableTemplate) -> ProvableTemplate:
    """The template itself, or the one of that text.

    Raises:
        ConfigError: it is neither.
        TokenizerError: it is no valid jinja.
    """
    if isinstance(template, ProvableTemplate):
        return template
    if not isinstance(template, str):
        raise ConfigError(f"The chat template is a {type(template).__name__}. It must be the template's text.")
    return ProvableTemplate(template)


def template_options(template_kwargs: Mapping[str, Any] | None, *templates: ProvableTemplate) -> dict[str, Any]:
    """A copy of ``template_kwargs``, with a date under ``strftime_now`` as the function that templates call.

    Where one of the ``templates`` asks for the date and none is given, it is today's, from now on: a run that goes on
    past midnight, and its worker processes, write one date. The time of day is 0:00.

    Raises:
        ConfigError: they are no table, have a name that the conversation itself has in a template, or a text that is no
            date.
    """
    template_kwargs = {} if template_kwargs is None else template_kwargs
    if not isinstance(template_kwargs, Mapping) or not all(isinstance(name, str) for name in template_kwargs):
        raise ConfigError(
            f"template_kwargs is {template_kwargs!r}. It must be a table of names that the template reads."
        )
    taken = [name for name in ("messages", "tools", "add_generation_prompt", "self") if name in template_kwargs]
    if taken:
        raise ConfigError(
            f"template_kwargs has {listed(taken)}, which the template gets with each conversation. Leave it out."
        )
    asks = any("strftime_now" in template.shape.names_read for template in templates)
    given = template_kwargs.get("strftime_now", date.today().isoformat() if asks else None)
    if not isinstance(given, str):
        return dict(template_kwargs)
    try:
        return {**template_kwargs, "strftime_now": FixedDay(datetime.fromisoformat(given))}
    except ValueError:
        raise ConfigError(
            f"template_kwargs has strftime_now={given!r}. Give the day that the template writes, as 2024-07-26."
        ) from None


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
