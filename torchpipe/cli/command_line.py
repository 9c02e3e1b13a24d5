"""What the commands that take a config have in common: their words, and what they print."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchpipe._sentences import print_error
from torchpipe._shipped_files import find_config
from torchpipe.errors import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig


def add_config(parser: argparse.ArgumentParser) -> None:
    """Gives a command the argument CONFIG."""
    parser.add_argument("config", metavar="CONFIG", help="a YAML file, or a shipped config's name (torchpipe ls)")


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the words ``key=value`` and ``~key``; ends the process where an option is unknown."""
    options, words = parser.parse_known_args(argv)
    unknown = [word for word in words if word.startswith("-")]
    if unknown:
        parser.error(f"unknown option{'s' if len(unknown) > 1 else ''}: {' '.join(unknown)}")
    return options, words


def read_config(name: str, words: Sequence[str]) -> "tuple[Path, DictConfig] | None":
    """The file of a config and the config with its overrides; None, after a sentence, where a word can't be used.

    Raises:
        ConfigError: the file can't be read as a config.
    """
    from torchpipe.config.load import load_config
    from torchpipe.config.overrides import apply_overrides, check_override

    try:
        for word in words:
            check_override(word)
        file = find_config(name)
    except ConfigError as error:
        print_error(error)
        return None
    return file, apply_overrides(load_config(file), list(words))


def print_anywhere(text: str) -> None:
    """Print text; what the terminal's encoding doesn't have is escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def above_0(text: str) -> int:
    """A whole number above 0, of the command line."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value
