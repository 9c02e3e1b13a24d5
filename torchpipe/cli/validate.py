"""``torchpipe validate``: is every component of a config there, and does it take what it is given."""

import argparse
import sys
from collections.abc import Sequence

from torchpipe.cli.command_line import add_config, parsed, read_config
from torchpipe.config.validate import overview, validate
from torchpipe.errors import ConfigError


def main(argv: Sequence[str]) -> int:
    """Print OK and return 0, or print every problem and return 1."""
    parser = argparse.ArgumentParser(
        prog="torchpipe validate",
        usage="%(prog)s CONFIG [key=value ...] [~key ...] [--no-import]",
        description="Check a config's components, nested ones too, without building them.",
        epilog="Importing a module runs it. For a config that you don't trust yet, use --no-import, and read it.",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.add_argument(
        "--no-import",
        action="store_true",
        help="import nothing: check only how names are spelled, ${...}, and what is refused by its spelling",
    )
    options, words = parsed(parser, argv)
    read = read_config(options.config, words)
    if read is None:
        return 2
    file, cfg = read
    try:
        validate(cfg, import_components=not options.no_import)
    except ConfigError as error:
        for problem in getattr(error, "errors", [error]):
            print(problem, file=sys.stderr)
        return 1
    checked = "spelling checked, nothing imported" if options.no_import else "all found and callable as written"
    num_components, to_be_given = overview(cfg)
    if not num_components:
        print(
            f"{file} has no _component_, so there is nothing to check. A config names what it builds by _component_ "
            "(torchpipe ls shows some); docs/coming_from.md has the dataset options of axolotl, TRL and LLaMA-Factory.",
            file=sys.stderr,
        )
        return 1
    still = f"; still to be given: {', '.join(to_be_given)}" if to_be_given else ""
    print(f"OK {file}: {num_components} component{'' if num_components == 1 else 's'}, {checked}{still}")
    return 0
