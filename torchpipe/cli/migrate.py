"""``torchpipe migrate``: a config of torchtune's as one of torchpipe's, and what differs."""

import argparse
import re
import runpy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from torchpipe._shipped_files import recipes_folder, recipes_in
from torchpipe._suggest import did_you_mean
from torchpipe.cli.command_line import print_anywhere
from torchpipe.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from torchpipe.config import Setting

_DOTTED = re.compile(r"torchtune(?:\.[A-Za-z_]\w*)+")


@dataclass(frozen=True, kw_only=True)
class Migration:
    """What became of a config.

    Attributes:
        text: of the new file: the old one with other package names, to the letter.
        renamed: line and new name of each value that was changed.
        notes: keys that are read under another name or left out, a sentence each.
        problems: what has to be changed before it trains, a sentence each.
        recipe: the one whose keys it was held against.
    """

    text: str
    renamed: tuple[tuple[int, str], ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    recipe: str

    def describe(self, file: str) -> str:
        """The differences as text.

        Args:
            file: as the new file is called.
        """
        names = "1 name begins" if len(self.renamed) == 1 else f"{len(self.renamed)} names begin"
        lines = [f"{file}: {names} with torchpipe now; all else is as it was."]
        lines += [f"  line {line}: {name}" for line, name in self.renamed]
        if self.notes:
            lines += ["", "Keys that mean something else, or nothing, here:", *(f"  {note}" for note in self.notes)]
        if self.problems:
            lines += ["", "To be changed before it trains:", *(f"  {problem}" for problem in self.problems)]
        else:
            lines += ["", f"Every key and name is known. It trains: torchpipe run {self.recipe} --config {file}"]
        return "\n".join(lines)


def renamed_text(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The YAML with each value that is a dotted name of torchtune's as torchpipe's; line and name of each.

    Comments, paths that hold the word, order and layout stay.

    >>> renamed_text("# torchtune\\nloss:\\n  _component_: torchtune.modules.loss.X\\nout: /tmp/torchtune/a")
    ('# torchtune\\nloss:\\n  _component_: torchpipe.modules.loss.X\\nout: /tmp/torchtune/a', \
[(3, 'torchpipe.modules.loss.X')])
    """
    pieces, renamed, end = [], [], 0
    values = [node for node in _scalars(yaml.compose(text, Loader=yaml.SafeLoader)) if _DOTTED.fullmatch(node.value)]
    # A node begins at its anchor or tag, and a token at the value itself; both end with it. An alias (*name) leads to
    # its anchor's node again, so that places are met more than once.
    ends = {node.end_mark.index for node in values}
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.ScalarToken) and token.end_mark.index in ends:
            start, stop = token.start_mark.index, token.end_mark.index
            new = "torchpipe" + token.value.removeprefix("torchtune")
            place = text.rfind(token.value, start, stop)  # behind a quote, or a block's sign and comment
            written = f'"{new}"' if place < 0 else text[start:place] + new + text[place + len(token.value) : stop]
            pieces += [text[end:start], written]
            end = stop
            renamed.append((token.start_mark.line + 1, new))
    return "".join([*pieces, text[end:]]), renamed


def migrate(file: str | Path, known: "Mapping[str, Setting] | None" = None) -> Migration:
    """The config of a YAML file with torchpipe's names, and how it fits the recipe. Its components are not built.

    Args:
        known: the keys that the recipe reads; None: those of the recipe that :func:`recipe_of` finds.

    Raises:
        ConfigError: the file is no config.
    """
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from torchpipe.config import validate
    from torchpipe.config.load import load_config
    from torchpipe.config.torchtune_keys import sort_torchtune_keys

    load_config(file)  # says what is wrong with it, if anything is
    text, renamed = renamed_text(Path(file).read_bytes().decode("utf-8-sig"))
    cfg = OmegaConf.create(text)
    assert isinstance(cfg, DictConfig)
    recipe = recipe_of(cfg)
    known = recipe_keys(recipe) if known is None else known
    found = sort_torchtune_keys(cfg, known)
    problems = list(found.refused)
    for key in found.cfg:
        if key not in known:
            problems.append(f"{key} is not a key of recipe {recipe}.{did_you_mean(str(key), known)}")
            continue
        if OmegaConf.is_missing(found.cfg, key):
            continue
        try:
            value = found.cfg[key]
        except OmegaConfBaseException as error:  # an interpolation that leads nowhere
            problems.append(f"{key} can't be told: {str(error).splitlines()[0]}")
            continue
        needed = known[str(key)].default is ...
        if value is None and needed:
            problems.append(f"{key} is null, and recipe {recipe} needs it.")
        elif value is not None and (fault := known[str(key)].fault_of(value)):
            problems.append(f"{key} is {value!r}. {fault}")
    given = set(map(str, found.cfg))  # "in" would leave out what is ??? and comes on the command line
    absent = [key for key, setting in known.items() if setting.default is ... and key not in given]
    if "dataloader" in known and given.isdisjoint(("dataset", "dataloader")):  # one of the two has the rows
        absent.append("dataset")
    problems += [f"The config has no {key!r}, which recipe {recipe} needs." for key in absent]
    try:
        validate(found.cfg)
    except ConfigError as error:
        problems += map(str, getattr(error, "errors", [error]))
    return Migration(
        text=text,
        renamed=tuple(renamed),
        notes=(*found.aliases, *found.notes),
        problems=tuple(problems),
        recipe=recipe,
    )


def recipe_of(cfg: Mapping[str, Any]) -> str:
    """The shipped recipe that a config is for, by its loss: ``dpo`` where that is over pairs, else ``sft``.

    >>> recipe_of({"loss": {"_component_": "torchpipe.rlhf.loss.DPOLoss"}})
    'dpo'
    """
    loss = cfg.get("loss")
    component = loss.get("_component_") if isinstance(loss, Mapping) else loss
    return "dpo" if ".rlhf.loss." in str(component) else "sft"


def recipe_keys(recipe: str) -> "Mapping[str, Setting]":
    """The keys that a shipped recipe reads, and what each may hold."""
    return runpy.run_path(str(recipes_in(recipes_folder())[recipe]), run_name=recipe)["KEYS"]


def write(text: str, target: str, *, force: bool) -> None:
    """Writes the new file; its folders are made.

    Raises:
        SourceError: it exists and ``force`` isn't set, or it can't be written.
    """
    path = Path(target).expanduser()
    if (path.exists() or path.is_symlink()) and not force:
        raise SourceError(f"{target} exists already and is left as it is. Give another name, or --force to replace it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    except OSError as error:
        raise SourceError(f"{target} can't be written: {error.strerror or error}.") from error


def main(argv: Sequence[str]) -> int:
    """Write the new file and print the differences; 1 where something has to be changed before it trains."""
    parser = argparse.ArgumentParser(
        prog="torchpipe migrate",
        description="Write a config of torchtune's with torchpipe's names, and say what differs. Comments, order and "
        "all other values stay.",
        epilog="Finding the names imports what the config names. Read a stranger's config first.",
    )
    parser.add_argument("file", metavar="OLD.yaml", help="torchtune's config")
    parser.add_argument("-o", "--output", metavar="NEW.yaml", help="the new file; OLD.torchpipe.yaml by default")
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    options = parser.parse_args(argv)
    old = Path(options.file).expanduser()
    target = options.output or f"{old.stem}.torchpipe.yaml"
    found = migrate(old)
    write(found.text, target, force=options.force)
    print_anywhere(found.describe(target))
    return 1 if found.problems else 0


def _scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """The values of a YAML text that are no mappings or lists."""
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item)
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _scalars(value)
