"""Where torchtune has its data sets of rows with images. None is here yet; each says what to use instead."""

from torchpipe._not_yet import refusing

__all__: list[str] = []

__getattr__ = refusing(__name__)
