"""The loader of the tests of planned graphs."""

from functools import partial

import pytest
from numbered_graphs import Loader


@pytest.fixture
def loader(loader: Loader) -> Loader:
    """The same; its graphs have to be planned, and it gives one pass where nothing else is said."""
    return partial(loader, planned=True, repeat=False)
