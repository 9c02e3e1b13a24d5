"""Conversations to tokens and masks by a tokenizer with ``apply_chat_template``, as torchtitan's has it."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe.data.messages import Message
from torchpipe.data.openai_dicts import as_openai
from torchpipe.errors import ConfigError, DataError, UnwritableError
from torchpipe.pipeline.control_text import ControlText


class TemplatedChat:
    """A model transform: a row's ``messages`` to ``tokens`` and ``mask``, by rendering its beginnings and comparing.

    The conversation is rendered as a whole, up to each answer, and up to the prompt of each answer. An answer is what
    the tokens of its beginning have after those of its prompt, which both must be exact beginnings of the whole: a
    template that writes an earlier turn in another way once there is a later one is refused.

    Args:
        tokenizer: has ``apply_chat_template(messages, add_generation_prompt=)``, which gives text,
            ``encode(text, add_bos=, add_eos=)``, ``bos_id`` and ``eos_id``.
        allow_control_text: whether a row may spell control tokens.

    Attributes:
        stop_tokens: ids at which sampling stops: the EOS.

    Raises:
        ConfigError: the tokenizer has no EOS.
    """

    def __init__(self, tokenizer: Any, *, allow_control_text: bool) -> None:
        if getattr(tokenizer, "eos_id", None) is None:
            raise ConfigError(
                "Tokenizer does not have an eos_id set. ChatProcessor ends each conversation with it, so that the "
                "model learns to stop. Give the tokenizer's config, which names it."
            )
        self.tokenizer = tokenizer
        self.stop_tokens = [tokenizer.eos_id]
        self._controls = None if allow_control_text else ControlText(tokenizer)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The sample of a conversation whose turns alternate (:func:`check_alternation`).

        Raises:
            DataError: a message holds more than text, or spells a control token; or a beginning's tokens are no
                beginning of the whole.
        """
        messages: Sequence[Message] = sample["messages"]
        turns = [self._turn(index, message) for index, message in enumerate(messages)]
        tokens = self._tokens(turns)
        if tokens[-1] != self.tokenizer.eos_id:
            tokens = [*tokens, self.tokenizer.eos_id]
        mask = [True] * len(tokens)
        for index in range(1, len(turns), 2):
            prompt = self._tokens(turns[:index], prompt=True)
            _require_token_prefix(prompt, tokens, f"The prompt of message {index}")
            end = len(tokens)
            if index < len(turns) - 1:
                beginning = self._tokens(turns[: index + 1])
                _require_token_prefix(beginning, tokens, f"The conversation up to message {index}")
                end = len(beginning)
            if not messages[index].masked:
                mask[len(prompt) : end] = [False] * (end - len(prompt))
        return {"tokens": tokens, "mask": mask}

    def _tokens(self, turns: list[dict[str, Any]], *, prompt: bool = False) -> list[int]:
        text = self.tokenizer.apply_chat_template(turns, add_generation_prompt=prompt)
        tokens = list(self.tokenizer.encode(text if prompt else text.rstrip("\n"), add_bos=True, add_eos=False))
        bos_id = getattr(self.tokenizer, "bos_id", None)
        # Many templates write the BOS that encoding adds.
        return tokens[1:] if bos_id is not None and tokens[:2] == [bos_id, bos_id] else tokens

    def _turn(self, index: int, message: Message) -> dict[str, Any]:
        if message.contains_media:
            raise UnwritableError("ChatProcessor supports text-only samples. Use MultiModalProcessor for pictures.")
        if message.role == "user" and not message.masked:
            raise UnwritableError(
                f"Message {index} (user) is to be trained, and apply_chat_template tells only where answers begin. "
                "Mask it, or use a tokenizer of torchpipe's."
            )
        turn = as_openai(message)
        if self._controls is not None:
            said = {key: value for key, value in turn.items() if key != "role"}
            self._controls.refuse(
                said,
                f"Message {index} ({message.role})",
                instead="Take it out in messages_fn, use a tokenizer of torchpipe's, to which it stays text, or set "
                "allow_control_text=True.",
            )
        return turn


def check_alternation(messages: Sequence[Message]) -> None:
    """None, where the user and the assistant take turns, and the assistant has the last word.

    Raises:
        DataError: they don't.

    >>> check_alternation([Message("user", "Hi"), Message("user", "Hi?")])
    Traceback (most recent call last):
    torchpipe.errors.DataError: Second message must be 'assistant', got 'user'. ...
    """
    ending = (
        "A tokenizer with apply_chat_template alone takes turns of the user and the assistant. Mend the row in "
        "messages_fn, or use a renderer or a tokenizer of torchpipe's, which take system messages, tools and calls."
    )
    num = len(messages)
    if num < 2:
        raise DataError(
            f"Expected single-turn [user, assistant], got {num} messages. {ending}",
            reason="bad_role_order" if num else "empty",
        )
    if num % 2:
        raise DataError(
            f"Expected single-turn [user, assistant], got {num} messages, and several turns are an even-length "
            f"conversation. {ending}",
            reason="bad_role_order",
        )
    for index, message in enumerate(messages):
        wanted = ("user", "assistant")[index % 2]
        if message.role != wanted:
            place = ("First message", "Second message")[index] if index < 2 else f"Message {index}"
            raise DataError(f"{place} must be {wanted!r}, got {message.role!r}. {ending}", reason="bad_role_order")


def _require_token_prefix(prefix: Sequence[int], tokens: Sequence[int], what: str) -> None:
    """None, where the tokens begin with the prefix.

    Raises:
        DataError: they don't, so that it can't be told where the answer begins.
    """
    if list(tokens[: len(prefix)]) != list(prefix):
        same = next((n for n, (a, b) in enumerate(zip(prefix, tokens, strict=False)) if a != b), len(tokens))
        raise DataError(
            f"{what} is not an exact prefix of the whole conversation: of its {len(prefix)} tokens the first {same} "
            "are. The template writes a turn in another way once there is a later one, or tokens join across its "
            "end. Use a renderer, or a tokenizer of torchpipe's with the same template, which proves or splits such "
            "conversations.",
            reason="unproved",
        )
