"""Writes the configs and the table of docs/recipes_for_data.md: what became of every row of each file.

    python tools/data_recipes.py DATA          # write them
    python tools/data_recipes.py DATA --check  # exit status 1 when the page holds others

DATA is the folder of the files. Each config is a file of tests/configs/data; the page has it behind a line that names
it.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from torchpipe.config import validate
from torchpipe.constants import IGNORE_INDEX
from torchpipe.datasets import instantiate_dataset
from torchpipe.models.llama3_2_vision import llama3_2_vision_transform
from torchpipe.tokenizers import ChatTemplateTokenizer
from torchpipe.tokenizers.families import QWEN3

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "recipes_for_data.md"
CONFIGS = ROOT / "tests" / "configs" / "data"
BEGIN, END = "<!-- table of rows: begin -->", "<!-- table of rows: end -->"
_RECIPE = re.compile(r"(<!-- (\w+)\.yaml -->\n```yaml\n)(.*?)(```)", re.DOTALL)
_SHOWN = 60
_TINY = ROOT / "torchpipe" / "assets" / "tiny_llama3"
VISION = ("torchtune_vqa",)
"""Configs of rows with pictures."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a config gives.

    Attributes:
        name: of the config.
        section: its dataset section.
        dataset: what that builds.
        data: the folder of the files.
    """

    name: str
    section: Any
    dataset: Any
    data: Path

    @property
    def file(self) -> str:
        """The file that is read, as the section or what it hands to a source of its own names it."""
        source = self.section.get("source")
        if source is None:
            return f"{self.section.path}, {self.section.name}"
        return source if isinstance(source, str) else source.file

    def trained(self, row: int, *, side: str = "chosen") -> str:
        """The text that a sample trains, with its control tokens; of a pair that of a side; of a prompt all of it."""
        with among(self.data):
            sample = self.dataset[row]
        key = next(key for key in ("labels", f"{side}_labels", "tokens") if key in sample)
        ids = [int(token) for token in sample[key] if token != IGNORE_INDEX]
        return tokenizer(self.data, self.name).decode(ids, truncate_at_eos=False, skip_special_tokens=False)


@cache
def tokenizer(data: Path, name: str = "") -> Any:
    """Qwen3's chat template, which has a place for tools, calls and reasoning, over the vocabulary that ships.

    For a config of ``VISION`` it is Llama 3.2 Vision's transform.
    """
    if name in VISION:
        return llama3_2_vision_transform(str(_TINY / "tokenizer.model"), image_size=56)
    return ChatTemplateTokenizer.from_files(
        data / "templates" / "llama_cpp" / "Qwen-Qwen3-0.6B.jinja",
        tokenizer_json=_TINY / "tokenizer.json",
        special_tokens={text: 4096 + place for place, text in enumerate(QWEN3.control_tokens)},
        template_kwargs={"eos_token": "<|im_end|>"},
        on_unproved="common_prefix",
    )


@contextmanager
def among(data: Path) -> Iterator[None]:
    """In the folder of the data, where the configs' files are, with their own module to be imported."""
    before = Path.cwd()
    os.chdir(data)
    sys.path.insert(0, str(CONFIGS))
    try:
        yield
    finally:
        sys.path.remove(str(CONFIGS))
        os.chdir(before)


def outcome(name: str, data: Path) -> Outcome:
    """What the config of this name gives; all of its rows are read."""
    cfg: Any = OmegaConf.load(CONFIGS / f"{name}.yaml")
    with among(data):
        validate(cfg)
        dataset = instantiate_dataset(cfg.dataset, tokenizer(data, name))
        dataset.ledger.as_dict()
    return Outcome(name=name, section=cfg.dataset, dataset=dataset, data=data)


def table(outcomes: Iterable[Outcome]) -> str:
    """A line for each config."""
    lines = ["| config | file | read | used | left out, and the first such rows | of the first sample is trained |"]
    lines.append("|---|---|--:|--:|---|---|")
    for made in outcomes:
        ledger = made.dataset.ledger
        counts = dict(ledger.as_dict())
        read, used = counts.pop("read"), counts.pop("used")
        rows = {reason: ", ".join(map(str, ledger.examples.get(reason, ()))) for reason in counts}
        left_out = [
            f"`{reason}` {n:,}" + (f" ({rows[reason]})" if rows[reason] else "") for reason, n in counts.items()
        ]
        cells = [f"`{made.name}`", f"`{made.file}`", f"{read:,}", f"{used:,}", "; ".join(left_out)]
        lines.append(f"| {' | '.join(cells)} | `{_shown(made.trained(0))}` |")
    return "\n".join(lines)


def _shown(text: str) -> str:
    """The beginning of a text, as a cell of a table in Markdown can hold it."""
    begin = text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."
    return begin.replace("\n", "\\n").replace("|", "\\|").replace("`", "'")


def names_on(page: str) -> list[str]:
    """The configs that the page has, in its order."""
    return [name for _, name, _, _ in _RECIPE.findall(page)]


def page_with(page: str, outcomes: Iterable[Outcome]) -> str:
    """The page with the configs as they are in their files, and the table between its marks."""

    def config(found: re.Match[str]) -> str:
        return f"{found[1]}{(CONFIGS / f'{found[2]}.yaml').read_text(encoding='utf-8')}{found[4]}"

    before, _, rest = _RECIPE.sub(config, page).partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}"


def main() -> int:
    """Writes or checks the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of the files")
    parser.add_argument("--check", action="store_true", help="compare with the page instead of writing it")
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    wanted = page_with(page, [outcome(name, given.data.resolve()) for name in names_on(page)])
    if given.check:
        return int(wanted != page)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
