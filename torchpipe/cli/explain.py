"""``torchpipe explain``: which tokens of a config's rows are trained, and why."""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence

from torchpipe.cli.command_line import above_0, add_config, parsed, print_anywhere, read_config


def main(argv: Sequence[str]) -> int:
    """Print the rows and return 0; 1 where one of them is refused; 2 for a command line or a config's name that can't
    be used.
    """
    parser = _parser()
    options, words = parsed(parser, argv)
    if options.rows and options.num_rows is not None:
        parser.error("-n takes the first rows and --row names single ones: give one of them")
    if options.inference and options.labels:
        parser.error("--labels are of the training row, and --inference compares contexts: give one of them")
    read = read_config(options.config, words)
    if read is None:
        return 2
    _, cfg = read
    rows, num_rows = options.rows, options.num_rows or 1
    color, columns = wants_color(options.color), shutil.get_terminal_size((100, 24)).columns
    if options.inference:
        from torchpipe.audit import inference_text
        from torchpipe.audit.inference import compare_config

        report = compare_config(cfg, rows=rows, num_rows=num_rows, section=options.section)
        text = report.to_text(color=color, width=columns, max_tokens=options.max_tokens)
        print_anywhere(inference_text.to_json(report) if options.json else text)
        return _status([row.index for row in report.rows if row.refused])
    from torchpipe.audit.explain import explain_config
    from torchpipe.audit.explain_json import to_json

    found = explain_config(cfg, rows=rows, num_rows=num_rows, section=options.section)
    text = found.to_text(color=color, labels=options.labels, width=columns, max_tokens=options.max_tokens)
    print_anywhere(to_json(found) if options.json else text)
    return _status([row.index for row in found.rows if row.refused])


def _status(refused: Sequence[int]) -> int:
    """0, or 1 and a sentence where rows are refused, so that a script notices."""
    if not refused:
        return 0
    names = f"Row {refused[0]} is" if len(refused) == 1 else f"Rows {', '.join(map(str, refused))} are"
    print(f"Error: {names} refused; the output says why.", file=sys.stderr)
    return 1


def wants_color(asked: bool | None) -> bool:
    """Whether to colour: as asked, else on a terminal where NO_COLOR (https://no-color.org) isn't set."""
    if asked is not None:
        return asked
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_SECTION = "the data set's key (default: dataset); of a graph: dataloader, or a node's name (default: its first source)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchpipe explain",
        usage="%(prog)s CONFIG [-n N | --row K ...] [options] [key=value ...] [~key ...]",
        description="Show rows of a config's data set: the messages, and then each token, whether it is trained, and "
        "why. Builds the tokenizer and the data set or graph, and no model.",
        epilog="Building runs what the config names. Read a stranger's config first.",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.add_argument("-n", dest="num_rows", metavar="N", type=above_0, help="the first N rows or packs (default 1)")
    parser.add_argument(
        "--row", dest="rows", metavar="K", type=int, action="append", help="row K, from 0; -1 is the last; repeatable"
    )
    parser.add_argument("--section", metavar="KEY", default="dataset", help=_SECTION)
    parser.add_argument(
        "--inference",
        action="store_true",
        help="instead: where each reply's training context differs from what a server would feed",
    )
    parser.add_argument("--labels", action="store_true", help="each token's id, label and characters below it")
    parser.add_argument(
        "--max-tokens",
        metavar="N",
        type=above_0,
        help="show at most N tokens of a row (with --inference: of a context)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead (docs/explain.md has the schema)")
    parser.add_argument(
        "--color",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="colours, or none (default: on a terminal, unless NO_COLOR is set)",
    )
    return parser
