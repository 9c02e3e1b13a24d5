"""torchpipe: from raw conversations to training batches, with proof of what will be trained on."""

from importlib import metadata as _metadata
from pathlib import Path as _Path

__version__ = "0.1.0"
__all__ = ["__version__"]


def _refuse_mixed_installation() -> None:
    """Another project on the package index is called torchpipe. In this folder its files would be among ours."""
    try:
        other = _metadata.distribution("torchpipe")
    except _metadata.PackageNotFoundError:
        return
    here = _Path(__file__).resolve().parent
    if _Path(str(other.locate_file("torchpipe"))).resolve() == here:
        raise ImportError(
            f"Another project called torchpipe ({other.version}) is installed in the same folder, {here}, so files of "
            "both are mixed there. Run `pip uninstall torchpipe torchpipe-data`, then install this project from its "
            "clone again."
        )


_refuse_mixed_installation()
