"""The top-level keys of torchtune's configs that the recipe does not read under that name: what becomes of each.

A key that changes nothing in what is learned, only memory or speed, is left out with a note. One that asks for another
training job than the recipe does is refused. Where its value asks for nothing (``False``, null), nothing is said.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from torchpipe.errors import ConfigError

Fate = Literal["alias", "silent", "left out", "refused"]


@dataclass(frozen=True, kw_only=True)
class TorchtuneKey:
    """A key of torchtune's recipes.

    Attributes:
        fate: ``alias``: it is read under our name. ``silent``: it asks for nothing by itself. ``left out``: training
            does the same without it, and a note says so. ``refused``.
        says: what is told where the value asks for something, as a sentence.
        same_as: our name of it.
        quiet: values that ask for nothing, beside null, False, an empty list, and mappings of nothing but these.
    """

    fate: Fate
    says: str
    same_as: str | None = None
    quiet: tuple[Any, ...] = ()

    def asks(self, value: Any) -> bool:
        """Whether a value asks for something.

        >>> TORCHTUNE_KEYS["fsdp"].asks({"cpu_offload": False}), TORCHTUNE_KEYS["tensor_parallel_dim"].asks(2)
        (False, True)
        """
        if isinstance(value, Mapping):
            return any(self.asks(inner) for inner in value.values())
        if isinstance(value, Sequence) and not isinstance(value, str):
            return len(value) > 0
        return not (value is None or value is False or value in self.quiet)


def _left_out(says: str, *quiet: Any) -> TorchtuneKey:
    return TorchtuneKey(fate="left out", says=says, quiet=quiet)


def _refused(says: str, *quiet: Any) -> TorchtuneKey:
    return TorchtuneKey(fate="refused", says=says, quiet=quiet)


_WHOLE_MODEL = "Every rank holds the whole model, so nothing is cut into pieces or moved to the CPU"
_OTHER_RECIPE = (
    "torchpipe trains on given replies (recipe sft) and on pairs of them (recipe dpo), and leaves the rest out"
)

TORCHTUNE_KEYS: dict[str, TorchtuneKey] = {
    "resume_from_checkpoint": TorchtuneKey(
        fate="alias", same_as="resume", says="It is read as resume, which goes on from the newest checkpoint."
    ),
    # Memory and speed: the same weights come out without it.
    "optimizer_in_bwd": _left_out("The optimizer steps after the backward pass: the same weights, but more memory."),
    "enable_activation_offloading": _left_out(
        "Activations stay on the device. enable_activation_checkpointing is what saves their memory."
    ),
    "fsdp_cpu_offload": _left_out(f"{_WHOLE_MODEL}."),
    "fsdp_reshard_after_forward": _left_out(f"{_WHOLE_MODEL}.", True),  # what torchtune does without it
    "fsdp": _left_out(f"{_WHOLE_MODEL}."),
    "memory_efficient_fsdp_wrap": _left_out(f"{_WHOLE_MODEL}."),
    "custom_sharded_layers": _left_out(f"{_WHOLE_MODEL}."),
    "low_cpu_ram": _left_out("Weights are read one tensor at a time in any case."),
    "enable_async_checkpointing": _left_out("Checkpoints are written before the next step begins."),
    "ac_mode": _left_out("enable_activation_checkpointing is for every layer."),
    "ac_option": _left_out("enable_activation_checkpointing is for every layer.", 0),
    "tensor_parallel_plan": TorchtuneKey(fate="silent", says="It says how tensor_parallel_dim cuts the model."),
    "log_level": _left_out("What a run prints does not depend on it.", "INFO"),
    # Another job.
    "tensor_parallel_dim": _refused(
        "There is no tensor parallelism: each rank trains on packs of its own. Set tensor_parallel_dim=1.", 1
    ),
    "cudnn_deterministic_mode": _refused(
        "Call torch.use_deterministic_algorithms in a copy of the recipe (torchpipe cp sft)."
    ),
    "quantizer": _refused(f"Training with quantization is not here. {_OTHER_RECIPE}."),
    "fake_quant_after_n_steps": _refused(f"Training with quantization is not here. {_OTHER_RECIPE}."),
    "datasets": _refused("Write the list under dataset: its sections are joined, in order."),
    "ref_checkpointer": _refused("It is for training on pairs of answers: recipe dpo reads it."),
    "dataloader": _refused("Its keys stand at the top here: shuffle, collate_fn, num_workers, pin_memory."),
    **dict.fromkeys(
        ("teacher_model", "teacher_checkpointer", "kd_loss", "kd_ratio"),
        _refused(f"Knowledge distillation is not here. {_OTHER_RECIPE}."),
    ),
    **dict.fromkeys(
        (
            "policy_model",
            "reward_and_value_model",
            "ref_policy_checkpointer",
            "value_checkpointer",
            "reward_checkpointer",
            "num_steps",
            "ppo_epochs",
            "ppo_batch_size",
            "forward_batch_size",
            "min_response_length",
            "penalise_no_eos",
            "reward_penalty",
            "stop_token_ids",
            "whiten_rewards",
            "gamma",
            "lmbda",
            "kl_coeff",
        ),
        _refused(f"Training on rewards (PPO) is not here. {_OTHER_RECIPE}."),
    ),
    **dict.fromkeys(
        ("tasks", "limit", "max_seq_length"),
        _refused("Evaluation harnesses are not here: run one on the folder that a run exports."),
    ),
    **dict.fromkeys(
        ("prompt", "max_new_tokens", "temperature", "top_k", "enable_kv_cache"),
        _refused(
            "A config of the generate recipe: serve the folder that a run exports, or call torchpipe.models.generate."
        ),
    ),
}
"""torchtune's name of a key to what becomes of it. Keys that the recipe reads under the same name are its own."""


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """A config without torchtune's own keys.

    Attributes:
        cfg: the config with our keys alone, and those that neither knows.
        aliases: keys that were read under another name, a sentence each.
        notes: keys that asked for something and were left out, a sentence each.
        refused: keys that ask for what is not here, a sentence each.
    """

    cfg: DictConfig
    aliases: tuple[str, ...]
    notes: tuple[str, ...]
    refused: tuple[str, ...]


def sort_torchtune_keys(cfg: DictConfig, known: Collection[str]) -> Adopted:
    """What becomes of a config's keys. The config stays as it is.

    Args:
        known: keys that the recipe reads; they are left alone.

    Raises:
        ConfigError: a key is given under both names, and the two values differ.
    """
    adopted = cfg.copy()
    told: dict[str, list[str]] = {"alias": [], "left out": [], "refused": []}
    for key in [key for key in map(str, cfg) if key in TORCHTUNE_KEYS and key not in known]:
        row = TORCHTUNE_KEYS[key]
        value = None if OmegaConf.is_missing(cfg, key) else cfg[key]
        adopted.pop(key)
        if row.same_as is not None:
            told["alias"].append(f"{key}: {row.says}")
            if row.same_as in cfg and not row.asks(value):
                continue  # torchtune's files write the default out, and the command line says ours
            if row.same_as in cfg and cfg[row.same_as] != value:
                raise ConfigError(f"{key} is {value!r} and {row.same_as} is {cfg[row.same_as]!r}; both mean the same.")
            adopted[row.same_as] = value
        elif row.fate == "refused" and row.asks(value):
            told["refused"].append(f"{key} can't be used here. {row.says}")
        elif row.fate == "left out" and row.asks(value):
            told["left out"].append(f"{key} is left out. {row.says}")
    if OmegaConf.select(cfg, "model.quantize_base") is True:
        told["refused"].append("model.quantize_base is True. The base's weights are not quantized here: leave it out.")
    return Adopted(
        cfg=adopted,
        aliases=tuple(told["alias"]),
        notes=tuple(told["left out"]),
        refused=tuple(told["refused"]),
    )


def adopt_torchtune_keys(cfg: DictConfig, known: Collection[str]) -> tuple[DictConfig, tuple[str, ...]]:
    """The config with torchtune's keys renamed or removed, and a note for each that was left out.

    Args:
        known: keys that the recipe reads; they are left alone.

    Raises:
        ConfigError: keys ask for what is not here (all of them in one error, a line each), or a key is given under
            both names, and the two values differ.

    >>> adopt_torchtune_keys(OmegaConf.create({"resume_from_checkpoint": True}), {"resume"})
    ({'resume': True}, ())
    """
    found = sort_torchtune_keys(cfg, known)
    if found.refused:
        many = [f"{len(found.refused)} keys can't be used:"] if len(found.refused) > 1 else []
        raise ConfigError("\n  - ".join([*many, *found.refused]))
    return found.cfg, found.notes
