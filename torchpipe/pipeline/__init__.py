"""The declarative pipeline: a graph of sources, processors, mixes and packing as values, and a loader that runs it.

Names are those of TorchTitan's ``components/data`` (see ``docs/differences_from_torchtitan.md``). Grain is imported
when a name that needs it is asked for.
"""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily
from torchpipe.config.configurable import Configurable
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.pipeline.chat.processor import ChatProcessor
from torchpipe.pipeline.chat.renderers import (
    RendererConfig,
    RenderersConfigAdapter,
    RenderersLibraryConfig,
    from_renderers,
)
from torchpipe.pipeline.collators import Collator, TextCollator, TrainerBatch
from torchpipe.pipeline.dataset import (
    DatasetConcatConfig,
    DatasetConfig,
    DatasetMixConfig,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchpipe.pipeline.graph_steps import FirstRows, GraphSteps
from torchpipe.pipeline.loader import BaseDataLoader, DataloaderExhaustedError, GrainDataLoader, exhausting
from torchpipe.pipeline.multimodal.collator import MultiModalCollator
from torchpipe.pipeline.multimodal.processor import MultiModalProcessor
from torchpipe.pipeline.packing import ConcatThenSplitPackingConfig, FirstFitPackingConfig, MMSamplePackingConfig
from torchpipe.pipeline.parallel import data_parallel_rank
from torchpipe.pipeline.processors import SampleProcessor
from torchpipe.pipeline.recipe_graph import check_graph_settings, graph_loader
from torchpipe.pipeline.sequences import TextSequence
from torchpipe.pipeline.sources import IndexedJsonlSource, SourceConfig
from torchpipe.pipeline.state import merged_states
from torchpipe.pipeline.text_processor import TextProcessor
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy

if TYPE_CHECKING:
    from torchpipe.pipeline.by_grain.reading import GrainDataset
    from torchpipe.pipeline.huggingface import HuggingFaceRandomAccessSource, HuggingFaceStreamingSource

_DEFINED_IN: dict[str, str] = {
    "GrainDataset": "torchpipe.pipeline.by_grain.reading",
    "HuggingFaceRandomAccessSource": "torchpipe.pipeline.huggingface",
    "HuggingFaceStreamingSource": "torchpipe.pipeline.huggingface",
}
"""Names that are looked up when they are asked for, and their modules."""

__all__ = [
    "BaseDataLoader",
    "ChatProcessor",
    "Collator",
    "ConcatThenSplitPackingConfig",
    "Configurable",
    "DataloaderExhaustedError",
    "DatasetBuildContext",
    "DatasetConcatConfig",
    "DatasetConfig",
    "DatasetIterationPolicy",
    "DatasetMixConfig",
    "FirstFitPackingConfig",
    "FirstRows",
    "GrainDataLoader",
    "GrainDataset",
    "GraphSteps",
    "HuggingFaceRandomAccessSource",
    "HuggingFaceStreamingSource",
    "IndexedJsonlSource",
    "MMSamplePackingConfig",
    "MultiModalCollator",
    "MultiModalProcessor",
    "RandomAccessDataSource",
    "RendererConfig",
    "RenderersConfigAdapter",
    "RenderersLibraryConfig",
    "SampleProcessor",
    "SingleDatasetConfig",
    "SourceConfig",
    "TextCollator",
    "TextProcessor",
    "TextSequence",
    "TrainerBatch",
    "WeightedDataset",
    "check_graph_settings",
    "data_parallel_rank",
    "exhausting",
    "from_renderers",
    "graph_loader",
    "merged_states",
]

__getattr__ = lazily(__name__, _DEFINED_IN)
