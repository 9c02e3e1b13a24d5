"""The declarative pipeline: a graph of sources, processors, mixes and packing as values, and a loader that runs it.

Names are those of TorchTitan's ``components/data`` (see ``docs/differences_from_torchtitan.md``). Grain is imported
when a name that needs it is asked for.
"""

from torchpipe._reexport import lazily
from torchpipe.config.configurable import Configurable
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.pipeline.chat_processor import ChatProcessor
from torchpipe.pipeline.collators import Collator, TextCollator, TrainerBatch
from torchpipe.pipeline.multimodal import MultiModalProcessor
from torchpipe.pipeline.multimodal_collator import MultiModalCollator
from torchpipe.pipeline.processors import SampleProcessor
from torchpipe.pipeline.renderers import RenderersConfigAdapter, RenderersLibraryConfig, from_renderers
from torchpipe.pipeline.sequences import TextSequence
from torchpipe.pipeline.text_processor import TextProcessor
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy

_DEFINED_IN: dict[str, str] = {}
"""Names that are looked up when they are asked for, and their modules."""

__all__ = [
    "ChatProcessor",
    "Collator",
    "Configurable",
    "DatasetBuildContext",
    "DatasetIterationPolicy",
    "MultiModalCollator",
    "MultiModalProcessor",
    "RandomAccessDataSource",
    "RenderersConfigAdapter",
    "RenderersLibraryConfig",
    "SampleProcessor",
    "TextCollator",
    "TextProcessor",
    "TextSequence",
    "TrainerBatch",
    "from_renderers",
]

__getattr__ = lazily(__name__, _DEFINED_IN)
