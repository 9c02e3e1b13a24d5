"""``torchpipe cp``: a recipe, a config or a sample as a file of your own."""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchpipe._shipped_files import configs_folder, configs_in, pairs_file, recipes_folder, recipes_in, sample_file
from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, SourceError


def copyable(recipes: Path, configs: Path, *samples: Path) -> dict[str, Path]:
    """What can be copied, by name: recipes (``sft``), configs (``tiny/sft``) and samples (their file names)."""
    return {**recipes_in(recipes), **configs_in(configs), **{sample.name: sample for sample in samples}}


def find(name: str, files: Mapping[str, Path]) -> Path:
    """The file of that name; its suffix may be written out.

    Raises:
        ConfigError: there is none; the sentence names the nearest.
    """
    if name in files:
        return files[name]
    for suffix in (".py", ".yaml", ".yml"):
        bare = name.removesuffix(suffix)
        if bare != name and bare in files and files[bare].suffix == suffix.replace("yml", "yaml"):
            return files[bare]
    raise ConfigError(
        f"There is no recipe, config or sample called '{name}'.{did_you_mean(name, files)} There are: {listed(files)}."
    )


def destination(source: Path, text: str | None) -> str:
    """Where a copy goes, spelled as the user spelled it.

    Without a destination it is the file's name in the working folder; a folder, or a text that ends in a slash, gets
    the file's name; a name without a suffix gets the file's.

    >>> destination(Path("configs/tiny/sft.yaml"), "no_such_folder/mine")
    'no_such_folder/mine.yaml'
    >>> destination(Path("configs/tiny/sft.yaml"), "new/")
    'new/sft.yaml'
    """
    if not text:
        return source.name
    if text.endswith("/") or Path(text).expanduser().is_dir():
        return f"{text.rstrip('/') or '/'}/{source.name}".replace("//", "/")
    return text if Path(text).suffix else text + source.suffix


def copy(source: Path, target: str, *, force: bool = False, no_clobber: bool = False) -> bool:
    """True if the file was written; its folders are made.

    Raises:
        SourceError: the target exists and neither ``force`` nor ``no_clobber`` is set, or it can't be written.
    """
    path = Path(target).expanduser()
    if path.exists() or path.is_symlink():
        if no_clobber:
            return False
        if not force:
            raise SourceError(
                f"{target} exists already and is left as it is. Give another name, or --force to replace it."
            )
        if path.exists() and path.samefile(source):
            raise SourceError(f"{target} is the file that would be copied. Give another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    except OSError as error:
        raise SourceError(f"{target} can't be written: {error.strerror or error}.") from error
    return True


def main(argv: Sequence[str]) -> int:
    """Copy one file and print where it is."""
    parser = argparse.ArgumentParser(
        prog="torchpipe cp",
        description="Copy a recipe, a config or a sample. Folders on the way are made.",
        epilog="torchpipe ls lists the names; the samples are sample_chats.json and sample_pairs.json.",
    )
    parser.add_argument("name", metavar="NAME", help="a recipe, a config, or a sample such as sample_chats.json")
    parser.add_argument(
        "destination", metavar="DEST", nargs="?", help="a file or folder; the working folder by default"
    )
    clash = parser.add_mutually_exclusive_group()
    clash.add_argument("--force", action="store_true", help="replace a file that exists")
    clash.add_argument("--no-clobber", action="store_true", help="leave a file that exists, without an error")
    options = parser.parse_args(argv)
    try:
        source = find(options.name, copyable(recipes_folder(), configs_folder(), sample_file(), pairs_file()))
    except ConfigError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    target = destination(source, options.destination)
    if copy(source, target, force=options.force, no_clobber=options.no_clobber):
        print(target)
    else:
        print(f"{target} exists already and is left as it is.", file=sys.stderr)
    return 0
