"""``torchpipe ls``: the recipes and configs that come with torchpipe."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from torchpipe._shipped_files import configs_folder, configs_for, configs_in, recipes_folder, recipes_in

_NONE = "-"


def table(recipes: Path, configs: Path) -> str:
    """One line a config, under RECIPE and CONFIG; a recipe without configs and a config without recipe show a dash.

    Args:
        recipes: the folder of recipe files.
        configs: the folder of config files.
    """
    named = configs_in(configs)
    known = recipes_in(recipes)
    rows = [("RECIPE", "CONFIG")]
    for recipe in known:
        rows += [(recipe, name) for name in configs_for(recipe, named)] or [(recipe, _NONE)]
    of_a_recipe = {name for _, name in rows}
    rows += [(_NONE, name) for name in named if name not in of_a_recipe]
    width = max(len(recipe) for recipe, _ in rows)
    return "\n".join(f"{recipe:<{width}}  {name}" for recipe, name in rows)


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    description = "List the recipes and configs that come with torchpipe."
    argparse.ArgumentParser(prog="torchpipe ls", description=description).parse_args(argv)
    print(table(recipes_folder(), configs_folder()))
    return 0
