"""The decorator that turns a recipe's ``main(cfg)`` into a command."""

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from torchpipe._sentences import print_error
from torchpipe._shipped_files import find_config
from torchpipe.config.load import load_config
from torchpipe.config.overrides import apply_overrides, check_override
from torchpipe.errors import ConfigError, TorchpipeError


class RecipeArgumentParser(argparse.ArgumentParser):
    """Reads ``--config FILE key=value ~key`` and gives the config they mean."""

    def __init__(self, description: str | None = None) -> None:
        super().__init__(
            description=description,
            usage="%(prog)s --config FILE [key=value ...] [~key ...]",
            epilog="key=value sets a key (a.b=1, lr=1e-3, sizes=[1,2], name=null), ~key removes one.",
            allow_abbrev=False,
        )
        self.add_argument(
            "--config", metavar="FILE", help="a YAML file, or the name of a shipped config (torchpipe ls)"
        )

    def parse_config(self, argv: Sequence[str]) -> DictConfig:
        """The config of the file that ``--config`` names, with the overrides applied.

        A command line that can't be read, or that names no config, exits with status 2 and one sentence.

        Raises:
            ConfigError: the file, or an override of it, can't be used.
        """
        options, words = self.parse_known_args(argv)
        unknown = [word for word in words if word.startswith("-") and word != "--"]
        if unknown:
            first = unknown[0].lstrip("-").partition("=")[0]
            self.error(
                f"unknown option{'s' if len(unknown) > 1 else ''}: {' '.join(unknown)}. A config's keys are set "
                f"without dashes, as {first or 'key'}=value."
            )
        if options.config is None:
            self.error("--config is missing. Name a YAML file or a shipped config, as --config tiny/sft.")
        overrides = [word for word in words if word != "--"]
        try:
            for word in overrides:
                check_override(word)
            file = find_config(options.config)
        except ConfigError as error:
            self.error(str(error))
        return apply_overrides(load_config(file), overrides)


def parse(recipe_main: Callable[[DictConfig], Any]) -> Callable[..., Any]:
    """The recipe's main function as a command: called without arguments it reads the command line, runs and exits.

    What the function returns is the exit status (None is 0). An error that torchpipe raises on purpose is printed as
    a sentence and exits with 1; TORCHPIPE_TRACEBACK=1 adds its traceback, and other exceptions keep theirs. Called
    with a config, it is the plain function again (also at ``__wrapped__``).

    >>> @parse
    ... def main(cfg: DictConfig) -> int:
    ...     return cfg.seed
    >>> main(DictConfig({"seed": 3}))
    3
    """

    @functools.wraps(recipe_main)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            return recipe_main(*args, **kwargs)
        parser = RecipeArgumentParser((recipe_main.__doc__ or "").strip().partition("\n")[0] or None)
        try:
            status = recipe_main(parser.parse_config(sys.argv[1:]))
        except TorchpipeError as error:
            print_error(error)
            status = 1
        except OmegaConfBaseException as error:
            print_error(ConfigError(f"The config can't be read at {error.full_key}: {str(error).splitlines()[0]}"))
            status = 1
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            status = 130
        sys.exit(status)

    return wrapper
