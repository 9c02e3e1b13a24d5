"""What a user of torchtune brings: a published Llama's folder with random weights, and configs of its recipes."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

TINY = {
    "vocab_size": 2304,
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
    "embed_dim": 32,
    "intermediate_dim": 64,
    "max_seq_len": 2048,
}
ONE_BILLION = {
    "vocab_size": 128_256,
    "num_layers": 16,
    "num_heads": 32,
    "num_kv_heads": 8,
    "embed_dim": 2048,
    "intermediate_dim": 8192,
    "max_seq_len": 131_072,
}
TINY_MODEL = [f"model.{name}={value}" for name, value in TINY.items()]

LORA = """\
output_dir: /tmp/torchtune/llama3_2_1B/lora_single_device
model:
  _component_: torchtune.models.llama3_2.lora_llama3_2_1b
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 64
  lora_alpha: 128
  lora_dropout: 0.0
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: /tmp/Llama-3.2-1B-Instruct/original/tokenizer.model
  max_seq_len: null
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: /tmp/Llama-3.2-1B-Instruct/
  checkpoint_files: [model.safetensors]
  recipe_checkpoint: null
  output_dir: ${output_dir}
  model_type: LLAMA3_2
resume_from_checkpoint: False
save_adapter_weights_only: False
dataset:
  _component_: torchtune.datasets.alpaca_cleaned_dataset
  packed: False
seed: null
shuffle: True
batch_size: 4
optimizer:
  _component_: torch.optim.AdamW
  fused: True
  weight_decay: 0.01
  lr: 3e-4
lr_scheduler:
  _component_: torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup
  num_warmup_steps: 100
loss:
  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss
epochs: 1
max_steps_per_epoch: null
gradient_accumulation_steps: 8
clip_grad_norm: null
compile: False
metric_logger:
  _component_: torchtune.training.metric_logging.DiskLogger
  log_dir: ${output_dir}/logs
log_every_n_steps: 1
log_peak_memory_stats: True
device: cuda
dtype: bf16
enable_activation_checkpointing: False
enable_activation_offloading: False
profiler:
  _component_: torchtune.training.setup_torch_profiler
  enabled: False
  output_dir: ${output_dir}/profiling_outputs
  cpu: True
  cuda: True
  profile_memory: False
  with_stack: False
  record_shapes: True
  with_flops: False
  wait_steps: 5
  warmup_steps: 3
  active_steps: 2
  num_cycles: 1
"""
"""Keys, order, names and values of llama3_2/1B_lora_single_device of torchtune 0.6.1."""

FULL = (
    LORA.replace("lora_single_device", "full_single_device")
    .replace(LORA[LORA.index("  _component_: torchtune.models") : LORA.index("tokenizer:")], "  _component_: MODEL\n")
    .replace("MODEL", "torchtune.models.llama3_2.llama3_2_1b")
    .replace("save_adapter_weights_only: False\n", "")
    .replace("alpaca_cleaned_dataset", "alpaca_dataset")
    .replace("torch.optim.AdamW\n  fused: True\n  weight_decay: 0.01\n", "bitsandbytes.optim.PagedAdamW8bit\n")
    .replace("lr: 3e-4", "lr: 2e-5")
    .replace(LORA[LORA.index("lr_scheduler:") : LORA.index("loss:")], "")
    .replace("accumulation_steps: 8\n", "accumulation_steps: 1\noptimizer_in_bwd: True\n")
)
"""Keys, names and values of llama3_2/1B_full_single_device."""


def write_llama(
    folder: Path, tokenizer: Path, sizes: dict[str, int] = TINY, *, seed: int = 0, std: float = 0.05
) -> Path:
    """The folder of a Llama 3.2 with random bfloat16 weights, as it is published; ``tokenizer`` is copied."""
    dim, head_dim = sizes["embed_dim"], sizes["embed_dim"] // sizes["num_heads"]
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.bfloat16).normal_(std=std, generator=generator)

    tensors = {"model.embed_tokens.weight": random(sizes["vocab_size"], dim), "model.norm.weight": torch.ones(dim)}
    for number in range(sizes["num_layers"]):
        tensors |= {
            f"model.layers.{number}.{name}.weight": random(*shape)
            for name, shape in {
                "self_attn.q_proj": (dim, dim),
                "self_attn.k_proj": (sizes["num_kv_heads"] * head_dim, dim),
                "self_attn.v_proj": (sizes["num_kv_heads"] * head_dim, dim),
                "self_attn.o_proj": (dim, dim),
                "mlp.gate_proj": (sizes["intermediate_dim"], dim),
                "mlp.up_proj": (sizes["intermediate_dim"], dim),
                "mlp.down_proj": (dim, sizes["intermediate_dim"]),
            }.items()
        }
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{number}.{norm}.weight"] = torch.ones(dim)
    (folder / "original").mkdir(parents=True)
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(tokenizer, folder / "original" / "tokenizer.model")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": sizes["vocab_size"],
        "hidden_size": dim,
        "head_dim": head_dim,
        "intermediate_size": sizes["intermediate_dim"],
        "num_hidden_layers": sizes["num_layers"],
        "num_attention_heads": sizes["num_heads"],
        "num_key_value_heads": sizes["num_kv_heads"],
        "max_position_embeddings": sizes["max_seq_len"],
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_alpaca(file: Path, num_rows: int) -> Path:
    """Rows as alpaca has them."""
    rows: list[dict[str, Any]] = [
        {"instruction": f"Add {n} and {n + 1}.", "input": "" if n % 2 else f"{n}", "output": f"It is {2 * n + 1}."}
        for n in range(num_rows)
    ]
    file.write_text(json.dumps(rows))
    return file
