"""CPU milliseconds and peak memory of training steps of a 100M Llama: forward, backward and AdamW, float32, one thread.

    python train_step_transformers.py torchpipe|transformers full|lora whole|padded|packed [--small]

The same architecture in either package's environment, with torch's scaled dot-product attention and AdamW. ``full``
trains every weight, ``lora`` adapters of all of a layer's projections (transformers' are PEFT's). ``whole`` rows have
no padding; ``padded`` and ``packed`` hold the same documents, one a row or one after another. ``--small`` takes a model
of another size, to see that this runs.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from loss_memory import peak, resident

VOCAB_SIZE, MAX_SEQ_LEN, ROPE_BASE, NORM_EPS = 32_000, 1024, 10_000.0, 1e-5
RANK, ALPHA = 8, 16
WHOLE_ROWS = [256] * 4
DOCUMENTS = [37, 201, 64, 120, 31, 59]
"""Tokens of the documents, as different as chats are."""
NUM_STEPS = 1
"""Timed steps of a process, after one that is not."""

Step = Callable[[], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the two models of a process differ in: the measured one has 100 million parameters."""

    num_layers: int = 12
    num_heads: int = 12
    num_kv_heads: int = 4
    embed_dim: int = 768
    intermediate_dim: int = 2048


SMALL = Sizes(num_layers=1, num_heads=3, num_kv_heads=1, embed_dim=48, intermediate_dim=64)


def documents(form: str) -> list[torch.Tensor]:
    """The ids of each document, the same in every process."""
    generator = torch.Generator().manual_seed(0)
    lens = WHOLE_ROWS if form == "whole" else DOCUMENTS
    return [torch.randint(0, VOCAB_SIZE, (length,), generator=generator) for length in lens]


def torchpipe_loss(sizes: Sizes, job: str, form: str) -> tuple[torch.nn.Module, Step]:
    """torchpipe's model, and what computes the loss of its batch."""
    from torchpipe.data import next_token_labels, padded_collate_packed, padded_collate_sft
    from torchpipe.models import DecoderConfig, build_decoder
    from torchpipe.modules import LinearCrossEntropyLoss
    from torchpipe.training import batch_loss

    config = DecoderConfig(
        vocab_size=VOCAB_SIZE, max_seq_len=MAX_SEQ_LEN, rope_base=ROPE_BASE, norm_eps=NORM_EPS, tied_embeddings=True,
        **asdict(sizes),
    )  # fmt: skip
    model = build_decoder(config)
    if job == "lora":
        from torchpipe.modules.peft import LoRAConfig, add_lora

        attn_modules = ("q_proj", "k_proj", "v_proj", "output_proj")
        add_lora(model, LoRAConfig(attn_modules=attn_modules, mlp=True, output=False, rank=RANK, alpha=ALPHA))
    loss_fn = LinearCrossEntropyLoss()
    loss_fn.set_model_output(model)
    samples = []
    for tokens in documents(form):
        labels = torch.from_numpy(next_token_labels(tokens.tolist(), [False] * len(tokens)))
        samples.append({"tokens": tokens, "labels": labels})
    if form == "packed":
        pack = {key: torch.cat([sample[key] for sample in samples]) for key in ("tokens", "labels")}
        lens = torch.tensor([len(sample["tokens"]) for sample in samples])
        positions = torch.cat([torch.arange(int(length)) for length in lens])
        batch = padded_collate_packed([{**pack, "input_pos": positions, "seq_lens": lens}], mask=model.packed_mask)
    else:
        batch = padded_collate_sft([{key: tensor.tolist() for key, tensor in one.items()} for one in samples])
    return model, lambda: batch_loss(model, loss_fn, batch, torch.device("cpu"))


def transformers_loss(sizes: Sizes, job: str, form: str) -> tuple[torch.nn.Module, Step]:
    """The same for transformers, as its documentation says."""
    from transformers import LlamaConfig, LlamaForCausalLM

    options: dict[str, Any] = {"attn_implementation": "sdpa"}
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE, num_hidden_layers=sizes.num_layers, num_attention_heads=sizes.num_heads,
        num_key_value_heads=sizes.num_kv_heads, hidden_size=sizes.embed_dim, intermediate_size=sizes.intermediate_dim,
        max_position_embeddings=MAX_SEQ_LEN, rms_norm_eps=NORM_EPS, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE}, **options,
    )  # fmt: skip
    model: Any = LlamaForCausalLM(config).train()
    if job == "lora":
        from peft import LoraConfig, get_peft_model  # pyright: ignore[reportMissingImports]

        projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=projections))
    rows = torch.nn.utils.rnn.pad_sequence(documents(form), batch_first=True, padding_value=-1)
    batch = {"input_ids": rows.clamp(min=0), "labels": rows.masked_fill(rows < 0, -100)}
    if form == "padded":
        batch["attention_mask"] = (rows >= 0).long()
    return model, lambda: model(**batch, use_cache=False).loss


def measure(package: str, job: str, form: str, sizes: Sizes) -> dict[str, Any]:
    """Milliseconds of each timed step (CPU time of this process), and the bytes that model and steps add."""
    make = {"torchpipe": torchpipe_loss, "transformers": transformers_loss}[package]
    take_steps(*make(SMALL, job, form))  # brings in what is imported or allocated once
    before = resident()
    torch.manual_seed(0)
    model, loss_of_batch = make(sizes, job, form)
    milliseconds = take_steps(model, loss_of_batch)[1:]
    counts = [parameter.numel() for parameter in model.parameters()]
    trained = [parameter.numel() for parameter in model.parameters() if parameter.requires_grad]
    return {
        "milliseconds": milliseconds,
        "peak_bytes": peak() - before,
        "parameters": sum(counts),
        "trained_parameters": sum(trained),
        "tokens": sum(map(len, documents(form))),
    }


def take_steps(model: torch.nn.Module, loss_of_batch: Step) -> list[float]:
    """Milliseconds of each step."""
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4)
    milliseconds = []
    for _ in range(NUM_STEPS + 1):
        start = time.process_time()
        loss_of_batch().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        milliseconds.append(1000 * (time.process_time() - start))
    return milliseconds


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", choices=("torchpipe", "transformers"))
    parser.add_argument("job", choices=("full", "lora"))
    parser.add_argument("form", choices=("whole", "padded", "packed"))
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(measure(arguments.package, arguments.job, arguments.form, SMALL if arguments.small else Sizes())))


if __name__ == "__main__":
    main()
