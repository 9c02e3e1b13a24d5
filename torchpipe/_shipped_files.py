"""The recipes, configs and sample that come with torchpipe: where they are and what they are called.

In a clone they are the folders ``recipes`` and ``configs`` beside the package, in a wheel they are inside it. A folder
``recipes`` beside an installed package is somebody else's (torchtune installs one).
"""

from itertools import takewhile
from pathlib import Path

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent


def recipes_folder() -> Path:
    """The folder of the shipped recipes; it may not exist."""
    return _folder("recipes")


def configs_folder() -> Path:
    """The folder of the shipped configs; it may not exist."""
    return _folder("configs")


def sample_file() -> Path:
    """The embedded chats, ``sample_chats.json``."""
    return _PACKAGE / "assets" / "sample_chats.json"


def pairs_file() -> Path:
    """The embedded pairs of preferred and rejected answers, ``sample_pairs.json``."""
    return _PACKAGE / "assets" / "sample_pairs.json"


def _folder(name: str) -> Path:
    clone = _PACKAGE.parent
    if not (_PACKAGE / "_shipped").is_dir() and (clone / "pyproject.toml").is_file():
        return clone / name
    return _PACKAGE / "_shipped" / name


def recipes_in(folder: Path) -> dict[str, Path]:
    """Recipe files by name: ``sft`` is ``sft.py``. Names that begin with an underscore are left out."""
    return {file.stem: file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_")}


def configs_in(folder: Path) -> dict[str, Path]:
    """Config files by name: ``tiny/sft`` is ``tiny/sft.yaml``."""
    return {
        file.relative_to(folder).with_suffix("").as_posix(): file
        for file in sorted(folder.rglob("*.yaml"))
        if not file.name.startswith("_")
    }


def configs_for(recipe: str, configs: dict[str, Path]) -> list[str]:
    """The names of the configs that are for a recipe: those whose last part is the recipe's name, or whose first lines
    show how to run the recipe with them.

    >>> configs_for("sft", {"tiny/sft": Path("sft.yaml"), "tiny/dpo": Path("dpo.yaml")})
    ['tiny/sft']
    """
    return [
        name
        for name, file in configs.items()
        if name.rpartition("/")[2] == recipe or f"torchpipe run {recipe} --config {name} " in _first_comment(file)
    ]


def _first_comment(file: Path) -> str:
    """The comment that a file begins with; "" where there is no file."""
    if not file.is_file():
        return ""
    with file.open(encoding="utf-8") as opened:
        return "".join(takewhile(lambda line: line.startswith("#"), opened))


def find_config(name: str, folder: Path | None = None) -> Path:
    """The file of a config that is named by its path or, if there is no such file, by a shipped config's name.

    Args:
        name: a path, or a name such as ``tiny/sft`` (``tiny/sft.yaml`` will do).
        folder: the shipped configs; those of this installation by default.

    Raises:
        ConfigError: neither is there; the sentence names the nearest.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    configs = configs_in(configs_folder() if folder is None else folder)
    shipped = configs.get(name.removesuffix(".yaml").removesuffix(".yml"))
    if shipped is not None and not path.is_dir():
        return shipped
    if path.is_dir():
        raise ConfigError(f"The config {name} is a folder. Name one of its files: {listed(_yaml_files(path))}.")
    hint = did_you_mean(name, configs)
    beside = _yaml_files(path.parent)
    if not hint and path.parent.is_dir():
        near = did_you_mean(path.name, beside)
        hint = near and did_you_mean(name, [str(path.parent / file) for file in beside])
    told = f" Shipped configs: {listed(configs)}." if configs and not hint else ""
    raise ConfigError(f"There is no config {name}: no such file, and no shipped config of that name.{hint}{told}")


def _yaml_files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.y*ml"))
