"""The config of a run, in its log, without its secrets."""

import itertools
import logging
import os
import re
import sys
from typing import Any

import yaml
from omegaconf import DictConfig

from torchpipe.config.merge import to_plain

_MASK = "********"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = {"password", "passwd", "passphrase", "pwd", "secret", "secrets", "credential", "credentials", "apikey"}
# A lone "token" is a secret, as hf_token is; pad_token, eos_token and tokens are not.
_TOKEN_OWNERS = {"hf", "hub", "huggingface", "auth", "access", "api", "bearer", "refresh", "session", "wandb", "github"}
_KEY_OWNERS = {"api", "access", "private", "secret", "encryption", "signing", "wandb"}
_LOGIN_IN_URL = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


def is_secret(key: str) -> bool:
    """True if a key's name says that its value is a secret.

    >>> [is_secret(key) for key in ("hf_token", "api_key", "tokenizer", "max_tokens", "pad_token")]
    [True, True, False, False, False]
    """
    words = [word.lower() for word in _WORD.findall(key)]
    if _SECRET_WORDS & set(words) or words == ["token"]:
        return True
    return any(
        (second == "token" and first in _TOKEN_OWNERS) or (second == "key" and first in _KEY_OWNERS)
        for first, second in itertools.pairwise(words)
    )


def log_config(recipe_name: str, cfg: DictConfig) -> str:
    """The config as YAML with sorted keys, resolved, secrets masked; rank 0 also logs it.

    It goes to the logger "torchpipe.config" at level DEBUG.

    Raises:
        InstantiationError: a ``${...}`` can't be resolved.
    """
    text = yaml.safe_dump(_masked(to_plain(cfg, to_be_given=[]), False), sort_keys=True, allow_unicode=True)
    if _rank() == 0:
        logging.getLogger("torchpipe.config").debug("Running %s with this config:\n\n%s", recipe_name, text)
    return text


def _rank() -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ.get("RANK", "0"))


def _masked(value: Any, secret: bool) -> Any:
    if isinstance(value, dict):
        return {key: _masked(item, secret or is_secret(str(key))) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, secret) for item in value]
    if secret and value is not None and not isinstance(value, bool):
        return _MASK
    if isinstance(value, str):
        return _LOGIN_IN_URL.sub(rf"\1{_MASK}@", value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
