"""``torchpipe run``: a recipe by name or path, in this process or under torchrun."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from torchpipe._shipped_files import configs_folder, configs_for, configs_in, recipes_folder, recipes_in
from torchpipe._suggest import did_you_mean, listed
from torchpipe.cli.torchtune_recipes import LEFT_OUT, SAME_AS
from torchpipe.errors import ConfigError

USAGE = """usage: torchpipe run [torchrun options] RECIPE --config CONFIG [key=value ...] [~key ...]

RECIPE is a shipped recipe's name or the path of a .py file, CONFIG a shipped config's name or the path of a YAML file
(torchpipe ls lists the names). torchtune's names of recipes lead to the recipe that does the same. With options before
RECIPE it runs under torchrun, on several devices:

  torchpipe run sft --config tiny/sft lr=1e-3
  torchpipe run --nproc_per_node 2 sft --config tiny/sft
  torchpipe run my_recipe.py --config my_config.yaml

torchpipe run --help-torchrun lists torchrun's options."""


def find_recipe(name: str, folder: Path) -> Path:
    """The file of a recipe that is named by its path or, if there is no such file, by a shipped recipe's name.

    torchtune's names of recipes lead to the recipe that does the same.

    Raises:
        ConfigError: neither is there; the sentence names the nearest, or what to do instead of a recipe of torchtune's.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    recipes = recipes_in(folder)
    shipped = SAME_AS.get(name.removesuffix(".py"), name.removesuffix(".py"))
    if shipped in recipes:
        return recipes[shipped]
    if shipped in LEFT_OUT:
        raise ConfigError(f"torchpipe has no recipe {name}. {LEFT_OUT[shipped]}. Shipped recipes: {listed(recipes)}.")
    beside = [str(path.parent / file.name) for file in path.parent.glob("*.py")] if path.suffix == ".py" else []
    raise ConfigError(
        f"There is no recipe {name}: no such file, and no shipped recipe of that name."
        f"{did_you_mean(name, [*recipes, *beside])} Shipped recipes: {listed(recipes)}."
    )


def check_config_given(recipe: Path, words: Sequence[str], recipes: Path, configs: Path) -> None:
    """Raise where a shipped recipe is run without ``--config``; a recipe of the user's own may need none.

    Raises:
        ConfigError: the sentence lists the configs for the recipe.
    """
    given = any(word in ("--config", "-h", "--help") or word.startswith("--config=") for word in words)
    if given or recipe.parent != recipes:
        return
    names = configs_for(recipe.stem, configs_in(configs))
    example = f" As in: torchpipe run {recipe.stem} --config {names[0]}" if names else ""
    raise ConfigError(f"{recipe.stem} needs --config. Shipped configs for it: {listed(names)}.{example}")


def run_here(recipe: Path, words: Sequence[str]) -> int:
    """Run a recipe file in this process, as ``python recipe.py words``; its ``sys.exit`` goes through."""
    before = sys.argv
    beside = str(recipe.resolve().parent)  # python adds it too: a recipe may import files beside it
    sys.argv = [str(recipe), *words]
    sys.path.insert(0, beside)
    try:
        runpy.run_path(str(recipe), run_name="__main__")
    finally:
        sys.argv = before
        if beside in sys.path:
            sys.path.remove(beside)
    return 0


def run_under_torchrun(argv: Sequence[str]) -> int:
    """Run a recipe under torchrun and return the exit status of the first worker that failed, or 0.

    Ended by a signal, which torchrun hands on to the workers and then waits for them, it is 128 + the signal's number.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import get_args_parser, run

    parser = get_args_parser()
    parser.prog = "torchpipe run"
    options = parser.parse_args(list(argv))
    if not (options.module or options.no_python):
        recipe = find_recipe(options.training_script, recipes_folder())
        check_config_given(recipe, options.training_script_args, recipes_folder(), configs_folder())
        options.training_script = str(recipe)
    try:
        run(options)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        print(error, file=sys.stderr)
        return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
    except SignalException as error:
        return 128 + error.sigval
    return 0


def main(argv: Sequence[str]) -> int:
    """Run the recipe and return its exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    if argv[0] == "--help-torchrun":
        argv = ["--help"]
    try:
        if argv[0].startswith("-"):
            return run_under_torchrun(argv)
        recipe = find_recipe(argv[0], recipes_folder())
        check_config_given(recipe, argv[1:], recipes_folder(), configs_folder())
    except ConfigError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return run_here(recipe, argv[1:])
