"""Fixtures of the recipe tests: the recipe as a function, and a command line in a fresh process."""

import importlib.util
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf


@pytest.fixture(scope="session")
def sft(repository: Path) -> ModuleType:
    """recipes/sft.py as a module; ``sft.main(cfg)`` trains."""
    spec = importlib.util.spec_from_file_location("sft_recipe", repository / "recipes" / "sft.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def torchtune_llama(repository: Path) -> SimpleNamespace:
    """The names of tests/recipes/torchtune_llama.py."""
    return SimpleNamespace(**runpy.run_path(str(repository / "tests" / "recipes" / "torchtune_llama.py")))


@pytest.fixture
def torchtune_job(repository: Path, torchtune_llama: SimpleNamespace, tmp_path: Path) -> Callable[..., list[str]]:
    """Function (text of a config, *overrides, rows=, sizes=) -> the words after ``torchpipe run <recipe>``.

    The file is the config with the package's name replaced. The words say where things are: paths, device, data; and,
    for tiny sizes, the model's sizes.
    """

    def job(text: str, *overrides: str, rows: int = 24, sizes: dict[str, int] | None = None) -> list[str]:
        tokenizer = repository / "torchpipe" / "assets" / "tiny_llama3" / "tokenizer.model"
        folder = tmp_path / "Llama-3.2-1B-Instruct"
        if not folder.exists():
            torchtune_llama.write_llama(folder, tokenizer, sizes or torchtune_llama.TINY)
            torchtune_llama.write_alpaca(tmp_path / "alpaca.json", rows)
        (tmp_path / "config.yaml").write_text(text.replace("torchtune.", "torchpipe."))
        lora = "lora_" if "lora_attn_modules" in text else ""
        tiny = [f"model=torchpipe.models.llama3_2.{lora}llama3_2", *torchtune_llama.TINY_MODEL, "model.scale_factor=32"]
        return [
            "--config",
            str(tmp_path / "config.yaml"),
            f"output_dir={tmp_path / 'out'}",
            f"tokenizer.path={folder / 'original' / 'tokenizer.model'}",
            f"checkpointer.checkpoint_dir={folder}",
            "device=cpu",
            "dataset.source=json",
            f"dataset.data_files={tmp_path / 'alpaca.json'}",
            "optimizer.fused=False",
            *(tiny if sizes is None else []),
            *overrides,
        ]

    return job


@pytest.fixture
def tiny_config(repository: Path, tmp_path: Path) -> Callable[..., DictConfig]:
    """Function (**overrides) -> configs/tiny/sft.yaml on the sample chats, small enough for a test.

    A double underscore stands for a dot: ``dataset__packed=False``.
    """

    def build(**overrides: Any) -> DictConfig:
        config = OmegaConf.load(repository / "configs" / "tiny" / "sft.yaml")
        small = {
            "data_file": str(repository / "torchpipe" / "assets" / "sample_chats.json"),
            "output_dir": str(tmp_path / "out"),
            "dataset.split": "train[:24]",
            "dataset_val.split": "train[-8:]",
            "run_val_every_n_steps": None,
            "save_every_n_steps": None,
            "tokenizer.max_seq_len": 512,
            "batch_size": 4,
            "model.num_layers": 1,
            "model.embed_dim": 32,
            "model.intermediate_dim": 64,
            "num_rows_for_training_loss": 8,
            "max_generated_tokens": 4,
        }
        for key, value in {**small, **{k.replace("__", "."): v for k, v in overrides.items()}}.items():
            OmegaConf.update(config, key, value)
        assert isinstance(config, DictConfig)
        return config

    return build


@pytest.fixture
def graph_config(repository: Path, tmp_path: Path) -> Callable[..., DictConfig]:
    """Function (**overrides) -> configs/tiny/graph.yaml on the sample chats, small enough for a test."""

    def build(**overrides: Any) -> DictConfig:
        config = OmegaConf.load(repository / "configs" / "tiny" / "graph.yaml")
        small = {
            "data_file": str(repository / "torchpipe" / "assets" / "sample_chats.json"),
            "output_dir": str(tmp_path / "out"),
            "tokenizer.max_seq_len": 256,
            "dataloader.cache_dir": str(tmp_path / "cache"),
            "dataloader.num_proc": 1,
            "save_every_n_steps": None,
            "model.num_layers": 1,
            "model.embed_dim": 32,
            "model.intermediate_dim": 64,
            "num_rows_for_training_loss": 8,
            "max_generated_tokens": 4,
            "max_steps": 6,
        }
        for key, value in {**small, **{k.replace("__", "."): v for k, v in overrides.items()}}.items():
            OmegaConf.update(config, key, value)
        mix = OmegaConf.select(config, "dataloader.dataset.dataset") or {"datasets": []}
        for child in mix["datasets"]:
            child.dataset.source.split = "train[:24]"
        assert isinstance(config, DictConfig)
        return config

    return build


@pytest.fixture
def random_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The section of a graph whose processor draws random numbers, so that Grain runs it; also in new processes."""
    (tmp_path / "random_rows.py").write_text(
        "from torchpipe.pipeline import SampleProcessor, TextSequence\n"
        "class RandomIds(SampleProcessor):\n"
        "    def __call__(self, sample, rng):\n"
        "        ids = rng.integers(0, 500, size=sample)\n"
        "        return TextSequence(input_ids=ids[:-1], labels=ids[1:])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    single = {
        "_component_": "torchpipe.pipeline.SingleDatasetConfig",
        "source": list(range(2, 40)),
        "processor": {"_component_": "random_rows.RandomIds.Config"},
    }
    return {"_component_": "torchpipe.pipeline.ConcatThenSplitPackingConfig", "dataset": single}


@pytest.fixture
def torchpipe_command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Function (*words, cwd=, timeout=) -> the finished `torchpipe ...` process, its output as text."""

    def run(*words: str | Path, cwd: Path = tmp_path, timeout: int = 300) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "torchpipe.cli.main", *map(str, words)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout)

    return run


@pytest.fixture
def ended_run() -> Callable[..., int]:
    """Function (*words, folder=, steps=, delay=, number=) -> exit status of a run that got a signal (SIGKILL).

    It starts or resumes `torchpipe run <words>`, waits until ``folder/log.jsonl`` has ``steps`` lines and then
    ``delay`` seconds, and sends the signal. What it prints is added to ``folder/out.txt``.
    """

    def logged_steps(folder: Path) -> int:
        log = folder / "log.jsonl"
        return log.read_text().count("\n") if log.exists() else 0

    def children_of(process: int) -> list[int]:
        file = Path(f"/proc/{process}/task/{process}/children")
        return [int(child) for child in file.read_text().split()] if file.exists() else []

    def run(
        *words: str | Path, folder: Path, steps: int, delay: float = 0.0, number: signal.Signals = signal.SIGKILL
    ) -> int:
        command = [sys.executable, "-m", "torchpipe.cli.main", "run", *map(str, words), "resume=true"]
        with (folder / "out.txt").open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        while process.poll() is None and logged_steps(folder) < steps:
            time.sleep(0.005)
        time.sleep(delay)
        if number == signal.SIGKILL:  # a launcher that is killed can't end its ranks
            for rank in children_of(process.pid):
                with suppress(ProcessLookupError):  # it may have ended just now
                    os.kill(rank, number)
        process.send_signal(number)
        return process.wait()

    return run
