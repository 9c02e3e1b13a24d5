"""``torchpipe plan``: what a run of a config would do, without doing it."""

import argparse
from collections.abc import Sequence

from torchpipe.cli.command_line import above_0, add_config, parsed, print_anywhere, read_config


def main(argv: Sequence[str]) -> int:
    """Print the plan and return 0; 2 for a command line or a config's name that can't be used."""
    parser = _parser()
    options, words = parsed(parser, argv)
    read = read_config(options.config, words)
    if read is None:
        return 2
    _, cfg = read
    from torchpipe.audit import plan_json, plan_text
    from torchpipe.audit.plan_report import plan_config

    report = plan_config(
        cfg, world_size=options.ranks, strategies=options.strategies, max_seq_lens=options.max_seq_lens
    )
    print_anywhere(plan_json.to_json(report) if options.json else plan_text.to_text(report))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchpipe plan",
        usage="%(prog)s CONFIG [--ranks N] [--strategies A,B] [--max-seq-len N,M] [--json] [key=value ...] [~key ...]",
        description="Show what a run would do: rows and what becomes of them, packs, steps, and how even the ranks "
        "are; and other strategies and lengths of packs beside it. Trains nothing, and builds no model's weights.",
        epilog="Building runs what the config names. Read a stranger's config first.",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.add_argument("--ranks", metavar="N", type=above_0, default=1, help="processes that train (default: 1)")
    parser.add_argument(
        "--strategies",
        metavar="A,B",
        type=_names,
        help="ways to fill packs that are compared; also the dotted path of your own (default: next_fit, "
        "concat_then_split, first_fit, best_fit_decreasing and the config's)",
    )
    parser.add_argument(
        "--max-seq-len",
        dest="max_seq_lens",
        metavar="N,M",
        type=_numbers,
        help="lengths of a pack that are compared (default: the config's)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead (docs/plan.md has the schema)")
    return parser


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing")
    return list(dict.fromkeys(names))


def _numbers(text: str) -> list[int]:
    return list(dict.fromkeys(above_0(number.strip()) for number in text.split(",")))
