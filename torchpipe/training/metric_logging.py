"""Where a run's numbers go: a file, the terminal, TensorBoard, or a service.

Every logger is used by rank 0 alone: give the others none. Those of a service need its library, which is no part of
torchpipe.
"""

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from torchpipe._optional import import_optional
from torchpipe.config import log_config as config_text
from torchpipe.errors import ConfigError

Scalar = torch.Tensor | np.ndarray | int | float

CONFIG_FILE = "torchpipe_config.yaml"


class MetricLoggerInterface(Protocol):
    """What a logger can do."""

    def log(self, name: str, data: Scalar, step: int) -> None:
        """Records one number of a step."""
        ...

    def log_dict(self, payload: Mapping[str, Scalar], step: int) -> None:
        """Records several numbers of a step, by their names."""
        ...

    def log_config(self, config: DictConfig) -> None:
        """Records the config of the run, secrets masked; as a file ``output_dir/torchpipe_config.yaml`` too."""
        ...

    def close(self) -> None:
        """Writes what is left. Nothing is recorded afterwards."""
        ...


def save_config(config: DictConfig) -> Path:
    """The path of the file that the config was written to: ``output_dir/torchpipe_config.yaml``, secrets masked.

    Raises:
        ConfigError: the config has no ``output_dir``.
    """
    if not config.get("output_dir"):
        raise ConfigError("The config has no output_dir, where it would be saved. Set output_dir.")
    path = Path(config.output_dir) / CONFIG_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config_text("run", config), encoding="utf-8")
    return path


class DiskLogger(MetricLoggerInterface):
    """Lines of text in a file: ``Step 3 | loss:1.25 lr:0.0002``.

    Args:
        log_dir: the folder.
        filename: None: ``log_<unix time>.txt``. A file that is there is continued.
        kwargs: have no effect; a warning says so.
    """

    def __init__(self, log_dir: str | Path, filename: str | None = None, **kwargs: Any) -> None:
        _warn_of("DiskLogger", kwargs)
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / (filename or f"log_{int(time.time())}.txt")
        self._file = self._path.open("a", encoding="utf-8")
        print(f"Writing logs to {self._path}", flush=True)

    def path_to_log_file(self) -> Path:
        """The file."""
        return self._path

    def log(self, name: str, data: Scalar, step: int) -> None:
        """Writes ``Step <step> | <name>:<data>``."""
        self._write(f"Step {step} | {name}:{data}\n")

    def log_dict(self, payload: Mapping[str, Scalar], step: int) -> None:
        """Writes ``Step <step> |`` and each ``<name>:<data>`` in one line."""
        self._write(_line(payload, step))

    def log_config(self, config: DictConfig) -> None:
        """Saves the config beside the checkpoints; see :func:`save_config`."""
        save_config(config)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, line: str) -> None:
        self._file.write(line)
        self._file.flush()


class StdoutLogger(MetricLoggerInterface):
    """The lines of :class:`DiskLogger`, printed.

    Args:
        kwargs: have no effect; a warning says so.

    >>> StdoutLogger().log("loss", 1.25, step=3)
    Step 3 | loss:1.25
    """

    def __init__(self, **kwargs: Any) -> None:
        _warn_of("StdoutLogger", kwargs)

    def log(self, name: str, data: Scalar, step: int) -> None:
        """Prints ``Step <step> | <name>:<data>``."""
        print(f"Step {step} | {name}:{data}", flush=True)

    def log_dict(self, payload: Mapping[str, Scalar], step: int) -> None:
        """Prints ``Step <step> |`` and each ``<name>:<data>`` in one line."""
        print(_line(payload, step), end="", flush=True)

    def log_config(self, config: DictConfig) -> None:
        """Saves the config beside the checkpoints; see :func:`save_config`."""
        save_config(config)

    def close(self) -> None:
        """Has nothing to close."""


class TensorBoardLogger(MetricLoggerInterface):
    """Event files for TensorBoard: ``tensorboard --logdir <log_dir>`` shows them.

    Args:
        log_dir: the folder.
        organize_logs: each run has a folder of its own in it, ``run_0_<unix time>``, so that TensorBoard compares them.
        kwargs: have no effect; a warning says so.

    Raises:
        MissingLibraryError: tensorboard is not installed.
    """

    def __init__(self, log_dir: str | Path, organize_logs: bool = True, **kwargs: Any) -> None:
        _warn_of("TensorBoardLogger", kwargs)
        import_optional("tensorboard", needed_by="TensorBoardLogger", install="'torchpipe-data[tensorboard]'")
        from torch.utils.tensorboard import SummaryWriter

        self.log_dir = Path(log_dir) / f"run_0_{time.time()}" if organize_logs else Path(log_dir)
        self._writer = SummaryWriter(log_dir=str(self.log_dir))

    def log(self, name: str, data: Scalar, step: int) -> None:
        """Adds a point to the curve of that name."""
        self._writer.add_scalar(name, data, global_step=step, new_style=True)

    def log_dict(self, payload: Mapping[str, Scalar], step: int) -> None:
        """Adds a point to the curve of each name."""
        for name, data in payload.items():
            self.log(name, data, step)

    def log_config(self, config: DictConfig) -> None:
        """Saves the config beside the checkpoints; see :func:`save_config`."""
        save_config(config)

    def close(self) -> None:
        """Writes the rest of the file and closes it."""
        self._writer.close()


class WandBLogger(MetricLoggerInterface):
    """A run of Weights & Biases (https://docs.wandb.ai). ``wandb login`` comes first.

    Args:
        project, entity, group: of the run; ``entity`` None: your own.
        log_dir: the folder of its local files.
        kwargs: for ``wandb.init``; ``dir`` is the same as ``log_dir``, and counts.

    Raises:
        MissingLibraryError: wandb is not installed.
    """

    def __init__(
        self,
        project: str = "torchpipe",
        entity: str | None = None,
        group: str | None = None,
        log_dir: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        wandb = import_optional("wandb", needed_by="WandBLogger", install="wandb")
        folder = kwargs.pop("dir", log_dir)
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._may_change = bool(kwargs.get("allow_val_change", False))
        self._run = wandb.run or wandb.init(project=project, entity=entity, group=group, dir=folder, **kwargs)
        self._run.define_metric("global_step")
        self._run.define_metric("*", step_metric="global_step", step_sync=True)

    def log(self, name: str, data: Scalar, step: int) -> None:
        """Adds a point to the chart of that name."""
        self.log_dict({name: data}, step)

    def log_dict(self, payload: Mapping[str, Scalar], step: int) -> None:
        """Adds a point to the chart of each name."""
        self._run.log({**payload, "global_step": step})

    def log_config(self, config: DictConfig) -> None:
        """Sends the config, secrets masked, as the run's config and as a file."""
        path = save_config(config)
        self._run.config.update(_as_saved(path), allow_val_change=self._may_change)
        self._run.save(str(path), base_path=str(path.parent))

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()


class CometLogger(MetricLoggerInterface):
    """An experiment of Comet (https://www.comet.com/docs). ``comet login`` or COMET_API_KEY comes first.

    Args:
        api_key, workspace, project, experiment_key, mode, online: of ``comet_ml.start``.
        experiment_name, tags, log_code: of ``comet_ml.ExperimentConfig``.
        kwargs: for it too; ``log_dir``, which other loggers have, is left out.

    Raises:
        MissingLibraryError: comet_ml is not installed.
    """

    def __init__(
        self,
        api_key: str | None = None,
        workspace: str | None = None,
        project: str | None = None,
        experiment_key: str | None = None,
        mode: str | None = None,
        online: bool | None = None,
        experiment_name: str | None = None,
        tags: list[str] | None = None,
        log_code: bool = True,
        **kwargs: Any,
    ) -> None:
        comet_ml = import_optional("comet_ml", needed_by="CometLogger", install="comet_ml")
        kwargs.pop("log_dir", None)
        self._experiment = comet_ml.start(
            api_key=api_key,
            workspace=workspace,
            project=project,
            experiment_key=experiment_key,
            mode=mode,
            online=online,
            experiment_config=comet_ml.ExperimentConfig(log_code=log_code, tags=tags, name=experiment_name, **kwargs),
        )

    def log(self, name: str, data: Scalar, step: int) -> None:
        """Records one number of a step."""
        self._experiment.log_metric(name, data, step=step)

    def log_dict(self, payload: Mapping[str, Scalar], step: int) -> None:
        """Records several numbers of a step."""
        self._experiment.log_metrics(payload, step=step)

    def log_config(self, config: DictConfig) -> None:
        """Sends the config, secrets masked, as parameters and as a file."""
        path = save_config(config)
        self._experiment.log_parameters(_as_saved(path))
        self._experiment.log_asset(str(path), file_name=path.name)

    def close(self) -> None:
        """Ends the experiment."""
        self._experiment.end()


class MLFlowLogger(MetricLoggerInterface):
    """A run of MLflow (https://mlflow.org/docs).

    Args:
        experiment_name: None: MLFLOW_EXPERIMENT_NAME, or MLflow's default.
        tracking_uri: None: MLFLOW_TRACKING_URI, or MLflow's default.
        run_id: of a run to go on with; None: MLFLOW_RUN_ID, or a new run.
        run_name: of a new run.

    Raises:
        MissingLibraryError: mlflow is not installed.
    """

    def __init__(
        self,
        experiment_name: str | None = None,
        tracking_uri: str | None = None,
        run_id: str | None = None,
        run_name: str | None = None,
    ) -> None:
        self._mlflow = import_optional("mlflow", needed_by="MLFlowLogger", install="mlflow")
        # What is None here MLflow takes from the environment itself.
        if tracking_uri is not None:
            self._mlflow.set_tracking_uri(tracking_uri)
        if experiment_name is not None:
            self._mlflow.set_experiment(experiment_name)
        run = self._mlflow.active_run() or self._mlflow.start_run(run_id=run_id, run_name=run_name)
        self._run_id = run.info.run_id

    def log(self, name: str, data: Scalar, step: int) -> None:
        """Records one number of a step."""
        self.log_dict({name: data}, step)

    def log_dict(self, payload: Mapping[str, Scalar], step: int) -> None:
        """Records several numbers of a step."""
        numbers = {name: float(data) for name, data in payload.items()}
        self._mlflow.log_metrics(numbers, step=step, run_id=self._run_id)

    def log_config(self, config: DictConfig) -> None:
        """Records the config, secrets masked, as parameters (``optimizer.lr``) and as a file."""
        path = save_config(config)
        self._mlflow.log_params(dict(_flat(_as_saved(path))))
        self._mlflow.log_artifact(str(path))

    def close(self) -> None:
        """Ends the run."""
        self._mlflow.end_run()


def _line(payload: Mapping[str, Scalar], step: int) -> str:
    """The names and numbers of a step, in torchtune's format, with its blank before the end."""
    return f"Step {step} | " + "".join(f"{name}:{data} " for name, data in payload.items()) + "\n"


def _as_saved(path: Path) -> dict[str, Any]:
    saved: Any = OmegaConf.to_container(OmegaConf.load(path))
    return saved


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Each value of nested dicts, with its dotted path."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        found += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return found


def _warn_of(name: str, kwargs: Mapping[str, Any]) -> None:
    if kwargs:
        warnings.warn(f"{name} does not use {', '.join(kwargs)}. Leave it out of metric_logger.", stacklevel=3)
