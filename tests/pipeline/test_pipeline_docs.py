"""docs/pipeline.md: its code runs and prints what it says, and its YAML is the same graph."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
import yaml
from torch.testing._internal.distributed.fake_pg import FakeStore

from torchpipe.config import instantiate
from torchpipe.errors import LoaderStateError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.pipeline import (
    FirstFitPackingConfig,
    GrainDataLoader,
    SampleProcessor,
    SingleDatasetConfig,
    TextSequence,
)


class Cropped(SampleProcessor):
    """A row's tokens from a random one on."""

    def __call__(self, sample: Any, rng: np.random.Generator) -> TextSequence:
        ids = np.arange(int(rng.integers(5)), 9)
        return TextSequence(input_ids=ids[:-1], labels=ids[1:])


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "pipeline.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(shared_data: Path, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's files, in the folder that is worked in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHPIPE_CACHE", str(tmp_path / "cache"))
    rows = (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    chats = json.loads((repository / "torchpipe" / "assets" / "sample_chats.json").read_text(encoding="utf-8"))
    Path("math.jsonl").write_text("".join(rows[:40]), encoding="utf-8")
    Path("chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats[:60]), encoding="utf-8")
    return tmp_path


@pytest.fixture
def four_ranks() -> Any:
    """This process as rank 3 of 4."""
    dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=4)
    yield
    dist.destroy_process_group()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.usefixtures("folder", "four_ranks")
def test_the_code_prints_what_the_page_says_and_the_yaml_is_the_same_graph(page: str) -> None:
    names: dict[str, Any] = {}
    for code in blocks(page, "python"):
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "pipeline.md", "exec"), names)
        assert f"```python\n{code}```\n" + f"\n```text\n{out.getvalue()}```\n" * bool(out.getvalue()) in page
        names["loaders"] = [names["loader"]]
    assert (names["dp_rank"], names["dp_world_size"]) == (1, 2)
    assert names["state"] == names["loader"].state_dict()
    (text,) = blocks(page, "yaml")
    same = instantiate(yaml.safe_load(text)).build(
        tokenizer=tiny_tokenizer(mask_policy="sampled"), max_context_length=1024, num_tokens_per_batch=1024
    )
    same.load_state_dict(names["state"])
    assert same.state_dict() == names["state"]
    processor = names["TokensToTextSequence"].Config().build(context=names["context"])
    assert processor({"tokens": [5, 6, 7]}, None).labels.tolist() == [6, 7]
    names["loader"].close()


def test_the_sentences_that_it_shows_are_said(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def loader(seed: int) -> GrainDataLoader:
        graph = FirstFitPackingConfig(dataset=SingleDatasetConfig(source=[1, 2], processor=Cropped.Config()))
        config = GrainDataLoader.Config(dataset=graph, seed=seed, cache_dir=str(tmp_path), num_proc=1)
        return config.build(tokenizer=None, max_context_length=8, num_tokens_per_batch=8)

    state = loader(42).state_dict()
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Grain runs")]
    with pytest.raises(LoaderStateError) as refused:
        loader(7).load_state_dict(state)
    shown = blocks(page, "text")
    assert {f"{line}\n", f"{refused.value}\n"} <= set(shown)
