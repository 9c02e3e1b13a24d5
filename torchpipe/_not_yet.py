"""Names that torchtune has and torchpipe has not yet, with what to use instead: they are never guessed at."""

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_IMAGES = (
    "It reads rows with images. Until it is here, use torchpipe.datasets.sft_dataset with a message_transform that "
    "takes images (torchpipe.data.InputOutputToMessages, ShareGPTToMessages or OpenAIToMessages) and the model's "
    "transform as tokenizer"
)

_FOUR_BITS = (
    "It keeps the base weights in 4 bits. Use the builder whose name begins with lora_ and not with qlora_; "
    "dtype: bf16 halves the memory of float32 weights"
)
_QAT = "It trains adapters under simulated quantisation. torchpipe.modules.peft.LoRALinear trains them without"
_TENSOR_PARALLEL = (
    "It splits each matrix over several devices, and torchpipe gives every device whole matrices and rows of its own"
)
_DECODERS = (
    "The decoders that are built and trained here are those of Llama 3 to 3.3 (torchpipe.models.llama3, llama3_1, "
    "llama3_2 and llama3_3)"
)
_DECODERS_BUT_TOKENIZER = f"{_DECODERS}. The family's tokenizer is here, for a model of your own"
_VISION = (
    "The family's transform is here (tokens and tiles), and its vision model is not. It makes the batches for a model "
    "of your own"
)
_REWARDS = (
    "It trains on rewards of answers that the model samples (PPO), which no recipe here does. Recipe dpo trains on "
    "pairs of answers, with torchpipe.rlhf.loss.DPOLoss"
)
_OTHER_PAIR_LOSS = (
    "It trains on pairs with a hinge. torchpipe.rlhf.loss.DPOLoss is here, and recipe dpo takes any loss that is "
    "called like it"
)
_QUANTIZATION = "Quantization is not here. Train without it, and quantize the folder that the run exports"


def _sizes(family: str, *sizes: str, says: str, others: tuple[str, ...] = ()) -> dict[str, str]:
    """Rows for a family's builders: of its architecture, of its sizes, and of both with adapters."""
    plain = [family, *(f"{family}_{size}" for size in sizes)]
    names = [prefix + name for name in plain for prefix in ("", "lora_", "qlora_")]
    return dict.fromkeys((*names, *others), says)


_QWEN2_5 = ("7b", "14b", "1_5b", "32b", "72b")

NOT_YET: dict[str, dict[str, str]] = {
    "torchpipe.rlhf": dict.fromkeys(
        (
            "PPOStats",
            "Trajectory",
            "estimate_advantages",
            "get_reward_penalty_mask",
            "get_rewards_ppo",
            "masked_mean",
            "masked_var",
            "truncate_sequence_at_first_stop_token",
            "truncate_sequence_for_logprobs",
            "whiten",
        ),
        _REWARDS,
    ),
    "torchpipe.rlhf.loss": {"PPOLoss": _REWARDS, "RSOLoss": _OTHER_PAIR_LOSS},
    "torchpipe.models": {
        **dict.fromkeys(("gemma2", "code_llama2"), _DECODERS),
        "flux": "Models that make images are not here",
    },
    "torchpipe.models.gemma": _sizes("gemma", "2b", "7b", says=_DECODERS_BUT_TOKENIZER),
    "torchpipe.models.llama2": _sizes("llama2", "7b", "13b", "70b", "classifier", says=_DECODERS_BUT_TOKENIZER),
    "torchpipe.models.mistral": _sizes("mistral", "7b", "classifier", says=_DECODERS_BUT_TOKENIZER),
    "torchpipe.models.phi3": _sizes("phi3", "mini", says=_DECODERS_BUT_TOKENIZER),
    "torchpipe.models.phi4": _sizes("phi4", "14b", says=_DECODERS_BUT_TOKENIZER),
    "torchpipe.models.qwen2": _sizes("qwen2", "0_5b", "1_5b", "7b", says=_DECODERS_BUT_TOKENIZER),
    "torchpipe.models.qwen2_5": _sizes(
        "qwen2_5",
        "0_5b",
        "3b",
        *(f"{size}_{kind}" for size in _QWEN2_5 for kind in ("base", "instruct")),
        says=_DECODERS_BUT_TOKENIZER,
    ),
    "torchpipe.models.llama3_2_vision": _sizes(
        "llama3_2_vision",
        "11b",
        "90b",
        "decoder",
        "encoder",
        says=_VISION,
        others=("Llama3VisionEncoder", "Llama3VisionProjectionHead"),
    ),
    "torchpipe.training": {"quantization": _QUANTIZATION},
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
    "torchpipe.models.llama3": {
        **dict.fromkeys(("qlora_llama3_8b", "qlora_llama3_70b"), _FOUR_BITS),
        "base_llama_tp_plan": _TENSOR_PARALLEL,
    },
    "torchpipe.models.llama3_1": dict.fromkeys(
        ("qlora_llama3_1_8b", "qlora_llama3_1_70b", "qlora_llama3_1_405b"), _FOUR_BITS
    ),
    "torchpipe.models.llama3_2": dict.fromkeys(("qlora_llama3_2_1b", "qlora_llama3_2_3b"), _FOUR_BITS),
    "torchpipe.models.llama3_3": {"qlora_llama3_3_70b": _FOUR_BITS},
    "torchpipe.modules.peft": {"QATLoRALinear": _QAT},
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
    """The ``__getattr__`` of a module that lacks names of torchtune's.

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
        # Of an AttributeError the import statement would keep only "cannot import name".
        if sentence is not None and _is_import(sys._getframe(1)):
            raise ImportError(sentence, name=module)
        raise AttributeError(sentence or f"module {module!r} has no attribute {name!r}")

    return __getattr__


def _is_import(caller: FrameType) -> bool:
    """Whether an import statement asks: of a package by way of importlib, of a file's module itself."""
    if caller.f_globals.get("__name__") == "importlib._bootstrap":
        return True
    return caller.f_code.co_code[caller.f_lasti] == dis.opmap["IMPORT_FROM"]
