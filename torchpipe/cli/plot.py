"""``torchpipe plot``: the losses of runs as a picture."""

import argparse
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    """Write the picture, print its path and return 0."""
    options = _parser().parse_args(argv)
    from torchpipe.training.plot import plot_losses

    print(plot_losses(options.runs, options.out))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchpipe plot",
        description="Draw the training and held-out losses of one run or several in one picture. Needs matplotlib: "
        "pip install 'torchpipe-data[plot]'.",
        allow_abbrev=False,
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a run's output_dir, or its log.jsonl")
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        type=Path,
        default=Path("losses.png"),
        help="the picture: .png, .svg or .pdf (default: losses.png)",
    )
    return parser
