"""The declarative pipeline: a graph of sources, processors, mixes and packing as values, and a loader that runs it.

Names are those of TorchTitan's ``components/data`` (see ``docs/differences_from_torchtitan.md``). Grain is imported
when a name that needs it is asked for.
"""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily
from torchpipe.config.configurable import Configurable
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.pipeline.dataset import (
    DatasetConcatConfig,
    DatasetConfig,
    DatasetMixConfig,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchpipe.pipeline.packing import ConcatThenSplitPackingConfig, FirstFitPackingConfig, MMSamplePackingConfig
from torchpipe.pipeline.sequences import TextSequence
from torchpipe.pipeline.sources import SourceConfig
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy

if TYPE_CHECKING:
    from torchpipe.pipeline.grain_reading import GrainDataset

_DEFINED_IN: dict[str, str] = {"GrainDataset": "torchpipe.pipeline.grain_reading"}
"""Names that are looked up when they are asked for, and their modules."""

__all__ = [
    "ConcatThenSplitPackingConfig",
    "Configurable",
    "DatasetBuildContext",
    "DatasetConcatConfig",
    "DatasetConfig",
    "DatasetIterationPolicy",
    "DatasetMixConfig",
    "FirstFitPackingConfig",
    "GrainDataset",
    "MMSamplePackingConfig",
    "RandomAccessDataSource",
    "SingleDatasetConfig",
    "SourceConfig",
    "TextSequence",
    "WeightedDataset",
]

__getattr__ = lazily(__name__, _DEFINED_IN)
