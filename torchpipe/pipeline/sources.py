"""Where the rows of a graph come from."""

from typing import TYPE_CHECKING, Any, Protocol

from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.pipeline.types import DatasetIterationPolicy

if TYPE_CHECKING:
    import grain


class SourceConfig(Protocol):
    """A value that describes rows, such as a ``Configurable.Config``, and builds them."""

    def build(
        self, *, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "RandomAccessDataSource[Any] | grain.IterDataset[Any]":
        """The rows: read by number, or a stream that takes its share of them itself, as the policy says."""
        ...
