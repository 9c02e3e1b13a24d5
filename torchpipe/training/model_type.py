"""torchtune's names of model families."""

from enum import Enum
from typing import Any

from torchpipe._suggest import did_you_mean
from torchpipe.errors import ConfigError


class ModelType(Enum):
    """torchtune's names of model families. The Llamas of text are read here; the others are known, and refused."""

    GEMMA = "gemma"
    GEMMA2 = "gemma2"
    LLAMA2 = "llama2"
    LLAMA3 = "llama3"
    LLAMA3_2 = "llama3_2"
    LLAMA3_VISION = "llama3_vision"
    MISTRAL = "mistral"
    PHI3_MINI = "phi3_mini"
    PHI4 = "phi4"
    REWARD = "reward"
    QWEN2 = "qwen2"
    CLIP_TEXT = "clip_text"
    T5_ENCODER = "t5_encoder"


_READ = (ModelType.LLAMA2, ModelType.LLAMA3, ModelType.LLAMA3_2)


def model_type_of(name: Any) -> ModelType:
    """The family that a config names.

    Raises:
        ConfigError: there is none of that name, or its weights are not read here.
    """
    known = [kind.name for kind in ModelType]
    given = str(name.name if isinstance(name, ModelType) else name)
    if given not in known:
        raise ConfigError(f"model_type is {given!r}, which is no model family.{did_you_mean(given, known)}")
    if ModelType[given] not in _READ:
        readable = ", ".join(kind.name for kind in _READ)
        raise ConfigError(f"model_type is {given!r}, whose weights torchpipe does not read. It reads {readable}.")
    return ModelType[given]
