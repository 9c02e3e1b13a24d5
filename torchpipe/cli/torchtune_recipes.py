"""torchtune's recipes by name: which recipe here does the same, and what to do where none does."""

SAME_AS: dict[str, str] = {
    **dict.fromkeys(
        (
            "full_finetune_single_device",
            "full_finetune_distributed",
            "lora_finetune_single_device",
            "lora_finetune_distributed",
            "dev/lora_finetune_distributed_multi_dataset",
        ),
        "sft",
    ),
    **dict.fromkeys(("full_dpo_distributed", "lora_dpo_single_device", "lora_dpo_distributed"), "dpo"),
}
"""torchtune's recipe to ours."""

_REWARDS = (
    "Training on rewards of answers that the model samples (PPO) is not here. Recipe dpo trains on pairs of answers, "
    "one of them preferred"
)
_QUANTIZATION = (
    "Training with quantization, and quantizing a model, are not here. Train with sft, and quantize the folder that it "
    "exports with a library for that"
)
_DISTILLATION = "Knowledge distillation is not here. Recipe sft trains on replies that another model wrote"
_GENERATE = (
    "Generating is not a recipe here. Serve the folder that sft exports, or call torchpipe.models.generate.generate "
    "in Python"
)

LEFT_OUT: dict[str, str] = {
    "ppo_full_finetune_single_device": _REWARDS,
    **dict.fromkeys(("qat_distributed", "qat_lora_finetune_distributed", "quantize"), _QUANTIZATION),
    **dict.fromkeys(("knowledge_distillation_single_device", "knowledge_distillation_distributed"), _DISTILLATION),
    **dict.fromkeys(("generate", "dev/generate_v2", "dev/generate_v2_distributed"), _GENERATE),
    "eleuther_eval": (
        "Evaluation harnesses are not here. Run lm_eval, which that recipe calls, on the folder that sft exports"
    ),
    "dev/early_exit_finetune_distributed": "Training with early exits is not here. Recipe sft trains the whole model",
}
"""torchtune's recipe that has none here to what to do instead."""
