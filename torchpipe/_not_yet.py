"""Names that torchtune has and torchpipe has not yet, with what to use instead: they are never guessed at."""

import sys
from collections.abc import Callable
from typing import Any

_IMAGES = (
    "It reads rows with images. Until it is here, use torchpipe.datasets.sft_dataset with a message_transform that "
    "takes images (torchpipe.data.InputOutputToMessages, ShareGPTToMessages or OpenAIToMessages) and the model's "
    "transform as tokenizer"
)

NOT_YET: dict[str, dict[str, str]] = {
    "torchpipe.datasets.multimodal": dict.fromkeys(
        (
            "llava_instruct_dataset",
            "multimodal_chat_dataset",
            "the_cauldron_dataset",
            "the_cauldron_transform",
            "vqa_dataset",
        ),
        _IMAGES,
    ),
}
"""Module to name to what to do until the name is there."""


def not_yet(module: str, name: str) -> str | None:
    """What to tell who asks a module for such a name; None for any other name.

    >>> not_yet("torchpipe.datasets.multimodal", "vqa_dataset").partition(". ")[0]
    'torchpipe has no torchpipe.datasets.multimodal.vqa_dataset yet'
    """
    instead = NOT_YET.get(module, {}).get(name)
    return None if instead is None else f"torchpipe has no {module}.{name} yet. {instead}."


def refusing(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that lacks names of torchtune's.

    ``from package import name`` raises an ImportError with the sentence of :func:`not_yet`, ``package.name`` an
    AttributeError, so that ``hasattr`` still answers False.

    Args:
        module: its ``__name__``.

    >>> refusing("torchpipe.datasets")("vqa_datset")
    Traceback (most recent call last):
        ...
    AttributeError: module 'torchpipe.datasets' has no attribute 'vqa_datset'
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        sentence = not_yet(module, name)
        # Of an AttributeError the import statement would keep only "cannot import name". It asks by importlib.
        if sentence is not None and sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap":
            raise ImportError(sentence, name=module)
        raise AttributeError(sentence or f"module {module!r} has no attribute {name!r}")

    return __getattr__
