"""The top-level keys of torchtune's recipes: each is read, read under another name, left out or refused by name."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from omegaconf import OmegaConf

from torchpipe.config import adopt_torchtune_keys
from torchpipe.config.torchtune_keys import TORCHTUNE_KEYS, sort_torchtune_keys
from torchpipe.errors import ConfigError

# Every top-level key in the 156 configs of torchtune 0.6.1, and those that its full and LoRA recipes ask for besides.
OF_FINETUNING = """
    batch_size checkpointer clip_grad_norm collate_fn compile custom_sharded_layers dataset device dtype
    enable_activation_checkpointing enable_activation_offloading epochs fsdp fsdp_cpu_offload
    gradient_accumulation_steps log_every_n_steps log_peak_memory_stats loss low_cpu_ram lr_scheduler
    max_steps_per_epoch metric_logger model optimizer optimizer_in_bwd output_dir profiler resume_from_checkpoint
    save_adapter_weights_only seed shuffle tensor_parallel_dim tensor_parallel_plan tokenizer
    ac_mode ac_option cudnn_deterministic_mode enable_async_checkpointing fsdp_reshard_after_forward
""".split()  # noqa: SIM905
OF_OTHERS = """
    dataloader datasets enable_kv_cache fake_quant_after_n_steps forward_batch_size gamma kd_loss kd_ratio kl_coeff
    limit lmbda log_level max_generated_tokens max_new_tokens max_seq_length memory_efficient_fsdp_wrap
    min_response_length num_steps penalise_no_eos policy_model ppo_batch_size ppo_epochs prompt quantizer
    ref_checkpointer ref_policy_checkpointer reward_and_value_model reward_checkpointer reward_penalty stop_token_ids
    tasks teacher_checkpointer teacher_model temperature top_k value_checkpointer whiten_rewards
""".split()  # noqa: SIM905


@pytest.mark.parametrize("key", [*OF_FINETUNING, *OF_OTHERS])
def test_every_key_of_torchtunes_is_answered(sft: ModuleType, key: str) -> None:
    # Recipe sft has a section of that name, and says so where it is given torchtune's (check_graph_settings).
    assert (key in sft.KEYS) != (key in TORCHTUNE_KEYS) or key == "dataloader"


def test_the_table_holds_keys_of_torchtunes_alone(sft: ModuleType) -> None:
    assert set(TORCHTUNE_KEYS) <= {*OF_FINETUNING, *OF_OTHERS}
    assert all(row.says.endswith(".") for row in TORCHTUNE_KEYS.values())
    assert {row.same_as for row in TORCHTUNE_KEYS.values() if row.fate == "alias"} <= set(sft.KEYS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("optimizer_in_bwd", False),
        ("enable_activation_offloading", False),
        ("fsdp", {"cpu_offload": False}),
        ("quantizer", None),
        ("tensor_parallel_dim", 1),
        ("tensor_parallel_plan", {"_component_": "torchtune.models.llama3.base_llama_tp_plan"}),
        ("custom_sharded_layers", []),
    ],
)
def test_what_asks_for_nothing_is_silent(key: str, value: Any) -> None:
    assert adopt_torchtune_keys(OmegaConf.create({key: value, "seed": 1}), {"seed"}) == ({"seed": 1}, ())


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("optimizer_in_bwd", True, "optimizer_in_bwd is left out. The optimizer steps after the backward pass"),
        ("enable_activation_offloading", True, "enable_activation_offloading is left out. Activations stay"),
        ("custom_sharded_layers", ["output"], "custom_sharded_layers is left out. Every rank holds the whole model"),
        ("fsdp", {"cpu_offload": True}, "fsdp is left out."),
    ],
)
def test_what_changes_memory_alone_is_left_out_with_a_note(key: str, value: Any, sentence: str) -> None:
    cfg, (note,) = adopt_torchtune_keys(OmegaConf.create({key: value}), {"seed"})
    assert note.startswith(sentence)
    assert cfg == {}


def test_what_asks_for_another_job_is_refused_all_at_once() -> None:
    cfg = OmegaConf.create({"tensor_parallel_dim": 2, "kd_ratio": 0.5, "seed": 1})
    sentence = r"2 keys can't be used:\n  - tensor_parallel_dim .* Set tensor_parallel_dim=1\.\n  - kd_ratio .*istill"
    with pytest.raises(ConfigError, match=sentence):
        adopt_torchtune_keys(cfg, {"seed"})


def test_an_alias_is_read_under_our_name_and_not_beside_another_value() -> None:
    cfg = OmegaConf.create({"resume_from_checkpoint": True})
    assert adopt_torchtune_keys(cfg, {"resume"}) == ({"resume": True}, ())
    assert cfg == {"resume_from_checkpoint": True}
    cfg = OmegaConf.create({"resume_from_checkpoint": False, "resume": True})  # the file, and the command line
    assert adopt_torchtune_keys(cfg, {"resume"}) == ({"resume": True}, ())
    with pytest.raises(ConfigError, match="resume_from_checkpoint is True and resume is False; both mean the same"):
        adopt_torchtune_keys(OmegaConf.create({"resume_from_checkpoint": True, "resume": False}), {"resume"})


def test_keys_that_nobody_knows_are_left_to_the_recipe() -> None:
    assert sort_torchtune_keys(OmegaConf.create({"batchsize": 3}), {"batch_size"}).cfg == {"batchsize": 3}


def test_the_page_about_torchtune_has_a_row_for_each(repository: Path, sft: ModuleType) -> None:
    page = (repository / "docs" / "from_torchtune.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| `")}
    for key, row in TORCHTUNE_KEYS.items():
        assert f"| {row.fate} | {row.says} |" in rows[f"`{key}`"], key
    missing = [key for key in OF_FINETUNING if key in sft.KEYS and f"`{key}`" not in page]
    assert missing == []
