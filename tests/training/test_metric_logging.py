"""Loggers: the lines of files, TensorBoard's events as its own reader sees them, and what the services are sent."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from torchpipe.errors import ConfigError, MissingLibraryError
from torchpipe.training.metric_logging import (
    CometLogger,
    DiskLogger,
    MetricLoggerInterface,
    MLFlowLogger,
    StdoutLogger,
    TensorBoardLogger,
    WandBLogger,
)

PAYLOAD = {"loss": torch.tensor(0.5), "lr": 2e-5, "tokens": 7}
# What torchtune 0.6.1 writes for log("loss", 1.25, 3) and log_dict(PAYLOAD, 4), in both of its loggers of lines.
LINES = "Step 3 | loss:1.25\nStep 4 | loss:0.5 lr:2e-05 tokens:7 \n"


@pytest.fixture
def cfg(tmp_path: Path) -> DictConfig:
    return OmegaConf.create(
        {"output_dir": str(tmp_path / "run"), "name": "${output_dir}/x", "hf_token": "secret", "optimizer": {"lr": 0.1}}
    )


def log_twice(logger: MetricLoggerInterface) -> None:
    logger.log("loss", 1.25, 3)
    logger.log_dict(PAYLOAD, 4)


def test_the_lines_of_a_file_are_torchtunes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = DiskLogger(str(tmp_path / "logs"), "run.txt")
    log_twice(logger)
    assert logger.path_to_log_file().read_text(encoding="utf-8") == LINES  # before it is closed
    logger.close()
    again = DiskLogger(tmp_path / "logs", filename="run.txt")
    again.log("loss", 1, 5)
    again.close()
    assert logger.path_to_log_file().read_text(encoding="utf-8") == LINES + "Step 5 | loss:1\n"
    assert capsys.readouterr().out == f"Writing logs to {tmp_path / 'logs' / 'run.txt'}\n" * 2


def test_without_a_name_a_file_is_called_after_the_time(tmp_path: Path) -> None:
    logger = DiskLogger(tmp_path)
    logger.close()
    assert logger.path_to_log_file().name.removeprefix("log_").removesuffix(".txt").isdigit()


def test_the_printed_lines_are_torchtunes(capsys: pytest.CaptureFixture[str]) -> None:
    logger = StdoutLogger()
    log_twice(logger)
    logger.close()
    assert capsys.readouterr().out == LINES


def test_an_option_of_another_logger_is_warned_of(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"^StdoutLogger does not use project, group\. Leave it out"):
        StdoutLogger(project="mine", group="x")
    with pytest.warns(UserWarning, match=r"^DiskLogger does not use project"):
        DiskLogger(tmp_path, project="mine").close()


@pytest.mark.parametrize("organize_logs", [True, False])
def test_tensorboard_reads_what_was_logged(tmp_path: Path, organize_logs: bool) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    logger = TensorBoardLogger(log_dir=str(tmp_path), organize_logs=organize_logs)
    log_twice(logger)
    logger.close()
    folder = next(tmp_path.glob("run_0_*")) if organize_logs else tmp_path
    events = EventAccumulator(str(folder))
    events.Reload()
    read = {
        name: [(event.step, float(make_ndarray(event.tensor_proto))) for event in events.Tensors(name)]
        for name in events.Tags()["tensors"]
    }
    assert read == {"loss": [(3, 1.25), (4, 0.5)], "lr": [(4, pytest.approx(2e-5))], "tokens": [(4, 7.0)]}


def test_a_config_is_saved_beside_the_run_without_its_secrets(cfg: DictConfig) -> None:
    StdoutLogger().log_config(cfg)
    saved = OmegaConf.load(Path(cfg.output_dir) / "torchpipe_config.yaml")
    assert saved == {
        "output_dir": cfg.output_dir, "name": f"{cfg.output_dir}/x", "hf_token": "********", "optimizer": {"lr": 0.1}
    }  # fmt: skip


def test_a_config_without_a_place_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"The config has no output_dir, where it would be saved"):
        StdoutLogger().log_config(OmegaConf.create({"seed": 1}))


@pytest.mark.parametrize(
    ("logger", "library", "install"),
    [
        (lambda folder: TensorBoardLogger(folder), "tensorboard", "'torchpipe-data[tensorboard]'"),
        (lambda folder: WandBLogger(project="mine", log_dir=folder), "wandb", "wandb"),
        (lambda folder: CometLogger(api_key="x", project="mine"), "comet_ml", "comet_ml"),
        (lambda folder: MLFlowLogger(experiment_name="mine", tracking_uri=folder), "mlflow", "mlflow"),
    ],
)
def test_a_library_that_is_missing_is_one_sentence(
    logger: Any, library: str, install: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it was not installed
    with pytest.raises(MissingLibraryError) as told:
        logger(str(tmp_path))
    name = str(told.value).split()[0]
    assert str(told.value) == f"{name} needs {library}, which is not installed. Run: pip install {install}"
    assert isinstance(told.value, ImportError)


def test_importing_the_loggers_loads_no_library_of_theirs() -> None:
    code = (
        "import sys, torchpipe.training; print([m for m in ('tensorboard', 'matplotlib', 'wandb') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


class Recorder(ModuleType):
    """A library of a service that notes what it is called with, by dotted name."""

    def __init__(self, name: str, calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]], **values: Any) -> None:
        super().__init__(name)
        self.__dict__.update(calls=calls, values=values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.values:
            return self.values[name]

        def call(*args: Any, **options: Any) -> Any:
            self.calls.append((name, args, options))
            return Recorder(name, self.calls, config=Recorder("config", self.calls), info=SimpleNamespace(run_id="r1"))

        return call


def recorded(name: str, monkeypatch: pytest.MonkeyPatch, **values: Any) -> list[tuple[str, tuple[Any, ...], dict]]:
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    monkeypatch.setitem(sys.modules, name, Recorder(name, calls, **values))
    return calls


def test_wandb_is_given_the_run_the_numbers_and_the_config(
    monkeypatch: pytest.MonkeyPatch, cfg: DictConfig, tmp_path: Path
) -> None:
    calls = recorded("wandb", monkeypatch, run=None)
    logger = WandBLogger(project="mine", entity="me", log_dir=tmp_path / "w", tags=["a"])
    log_twice(logger)
    logger.log_config(cfg)
    logger.close()
    options = {"project": "mine", "entity": "me", "group": None, "dir": tmp_path / "w", "tags": ["a"]}
    assert calls[0] == ("init", (), options)
    assert [call[1][0] for call in calls if call[0] == "log"] == [
        {"loss": 1.25, "global_step": 3},
        {**PAYLOAD, "global_step": 4},
    ]
    sent = next(call[1][0] for call in calls if call[0] == "update")
    assert (sent["optimizer"], sent["hf_token"]) == ({"lr": 0.1}, "********")
    assert calls[-1][0] == "finish"
    assert (tmp_path / "w").is_dir()


def test_comet_is_given_the_experiment_the_numbers_and_the_config(
    monkeypatch: pytest.MonkeyPatch, cfg: DictConfig
) -> None:
    calls = recorded("comet_ml", monkeypatch)
    logger = CometLogger(workspace="us", project="mine", experiment_name="first", tags=["a"], log_dir="left out")
    log_twice(logger)
    logger.log_config(cfg)
    logger.close()
    assert calls[0] == ("ExperimentConfig", (), {"log_code": True, "tags": ["a"], "name": "first"})
    assert calls[1][2]["workspace"] == "us"
    assert ("log_metric", ("loss", 1.25), {"step": 3}) in calls
    assert ("log_metrics", (PAYLOAD,), {"step": 4}) in calls
    assert "secret" not in str(calls)
    assert calls[-1] == ("end", (), {})


def test_mlflow_is_given_flat_parameters_and_numbers(monkeypatch: pytest.MonkeyPatch, cfg: DictConfig) -> None:
    calls = recorded("mlflow", monkeypatch, active_run=lambda: None)
    logger = MLFlowLogger(experiment_name="mine", tracking_uri="file:x", run_name="first")
    log_twice(logger)
    logger.log_config(cfg)
    logger.close()
    assert calls[:3] == [
        ("set_tracking_uri", ("file:x",), {}),
        ("set_experiment", ("mine",), {}),
        ("start_run", (), {"run_id": None, "run_name": "first"}),
    ]
    assert ("log_metrics", ({"loss": 0.5, "lr": 2e-5, "tokens": 7.0},), {"step": 4, "run_id": "r1"}) in calls
    assert next(call[1][0] for call in calls if call[0] == "log_params")["optimizer.lr"] == 0.1
    assert calls[-1] == ("end_run", (), {})
