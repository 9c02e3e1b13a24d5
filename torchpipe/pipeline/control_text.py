"""Control tokens that a tokenizer reads out of plain text, and the refusal of rows that spell one."""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from torchpipe.errors import ConfigError, UnwritableError


def check_allows(allow_control_text: object) -> None:
    """Refuses a setting that is neither True nor False: a text such as "false" would allow.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(allow_control_text, bool):
        raise ConfigError(f"allow_control_text is {allow_control_text!r}. It is True or False.")


class ControlText:
    """The control tokens that a tokenizer makes of text, which a row's own text must not spell.

    Torchpipe's tokenizers make none: what spells one stays text. A Hugging Face tokenizer turns every added token that
    it finds in a text into its id, so that a row could end a turn, or write one of the assistant's.

    Args:
        tokenizer: what encodes.

    Attributes:
        texts: those tokens, sorted.

    >>> class Bytes:
    ...     bos_id, eos_id = None, 300
    ...     def encode(self, text, add_bos, add_eos):
    ...         return [300] if text == "<end>" else list(text.encode())
    ...     def decode(self, ids):
    ...         return "<end>"
    >>> ControlText(Bytes()).texts
    ('<end>',)
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_pattern"})

    def __init__(self, tokenizer: Any) -> None:
        self.texts: tuple[str, ...] = tuple(
            sorted(
                text
                for text, token_id in known_controls(tokenizer).items()
                if list(tokenizer.encode(text, add_bos=False, add_eos=False)) == [token_id]
            )
        )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.texts, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)))

    def refuse(self, content: Any, where: str, *, instead: str) -> None:
        """None, where no text in it spells a control token.

        Args:
            content: a text, or tables and lists of texts at any depth.
            where: what errors call it.
            instead: what one can do about it, a sentence.

        Raises:
            DataError: a text does.
        """
        if not self.texts:
            return
        for text in _texts_in(content):
            found = self._pattern.search(text)
            if found is not None:
                raise UnwritableError(
                    f"{where} spells the control token {found.group()!r}, which the tokenizer would make of it. "
                    f"{instead}"
                )


def known_controls(tokenizer: Any) -> dict[str, int]:
    """The control tokens that a tokenizer tells of: ids by text. Beginning and end of a text are among them."""
    known: dict[str, int] = {}
    inner: Any = getattr(tokenizer, "tokenizer", None)
    if callable(getattr(inner, "get_added_tokens_decoder", None)):
        known |= {token.content: token_id for token_id, token in inner.get_added_tokens_decoder().items()}
    if isinstance(listed := getattr(tokenizer, "special_tokens", None), Mapping):
        known |= {text: token_id for text, token_id in listed.items() if isinstance(token_id, int)}
    for name in ("bos", "eos"):
        token_id = getattr(tokenizer, f"{name}_id", None)
        if not isinstance(token_id, int) or token_id < 0 or token_id in known.values():
            continue
        text = getattr(tokenizer, f"{name}_token", None)
        if not text and callable(
            decode := getattr(tokenizer, "decode", None)
        ):  # without it, no text is known to be one
            text = decode([token_id])
        if isinstance(text, str) and text:
            known[text] = token_id
    return known


def _texts_in(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from _texts_in(key)
            yield from _texts_in(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from _texts_in(value)
