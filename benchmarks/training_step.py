"""Milliseconds of packed training steps of the tiny model: forward, backward and AdamW, in float32 on one thread.

    python training_step.py prepare SHAPE OUT.pt [--data-file gsm8k.jsonl]
    python training_step.py torchpipe|torchtune MASKS BATCH.pt

``prepare`` packs real samples with torchpipe. The other form runs in either package's environment on that one batch,
torchtune's with its own modules and chunked loss. MASKS is ``varlen``, ``dense``, or both with a comma: then two equal
models take turns, step by step. Making the masks is not timed.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

SHAPES = {"config": (1, 2048), "long": (2, 2048), "longest": (1, 4096)}
"""Rows and tokens a row: those of configs/tiny/sft.yaml, and longer ones."""
NUM_STEPS = 2
"""Timed steps of a process, after one that is not."""


def prepare(shape: str, out: Path, data_file: str | None) -> None:
    """Saves a batch of packs: the embedded chats at the config's shape, gsm8k at the long one; tiny tokenizer."""
    from torchpipe.data.collate import padded_collate_packed
    from torchpipe.datasets import chat_dataset, instruct_dataset
    from torchpipe.models.tiny import TINY_LLAMA3, tiny_tokenizer

    batch_size, max_seq_len = SHAPES[shape]
    tokenizer = tiny_tokenizer(max_seq_len)
    if data_file is None:
        import torchpipe

        chats = Path(torchpipe.__file__).parent / "assets" / "sample_chats.json"
        packs = chat_dataset(
            tokenizer, source="json", data_files=str(chats), packed=True,
            conversation_column="messages", conversation_style="openai",
        )  # fmt: skip
    else:
        packs = instruct_dataset(
            tokenizer, source="json", data_files=data_file, split="train[:100]", packed=True,
            column_map={"input": "question", "output": "answer"},
        )  # fmt: skip
    samples = [packs[index] for index in range(batch_size)]
    seq_lens = [sample["seq_lens"] for sample in samples]
    batch = padded_collate_packed(samples)
    tensors = {key: batch[key] for key in ("tokens", "labels", "input_pos", "mask")}
    # torchtune's environment can't import torchpipe, so the sizes of its model travel with the batch.
    names = ("vocab_size", "num_layers", "num_heads", "num_kv_heads", "embed_dim", "intermediate_dim")
    sizes = {"max_seq_len": max_seq_len} | {name: getattr(TINY_LLAMA3, name) for name in names}
    torch.save({**tensors, "seq_lens": seq_lens, "sizes": sizes}, out)
    shape_and_tokens = {"shape": [batch_size, max_seq_len], "tokens": batch_size * max_seq_len}
    num_documents = sum(map(len, seq_lens))
    print(
        json.dumps({**shape_and_tokens, "documents": num_documents, "of": "gsm8k" if data_file else "the sample chats"})
    )


def torchpipe_loss(sizes: dict[str, int]) -> tuple[torch.nn.Module, Callable[..., torch.Tensor]]:
    """torchpipe's tiny model and the loss of its config."""
    from torchpipe.models.tiny import tiny_llama3
    from torchpipe.modules import LinearCrossEntropyLoss

    model = tiny_llama3(max_seq_len=sizes["max_seq_len"])
    loss = LinearCrossEntropyLoss()
    loss.set_model_output(model)
    return model, loss


def torchtune_loss(sizes: dict[str, int]) -> tuple[torch.nn.Module, Callable[..., torch.Tensor]]:
    """A Llama 3.2 of torchtune with the same sizes, and the loss of its recipes."""
    from torchtune.models.llama3_2 import llama3_2  # pyright: ignore[reportMissingImports]
    from torchtune.modules.loss import CEWithChunkedOutputLoss  # pyright: ignore[reportMissingImports]

    model = llama3_2(**sizes)
    loss = CEWithChunkedOutputLoss()
    model.set_num_output_chunks(loss.num_output_chunks)
    return model, loss


def step_times(package: str, masks: list[str], batch: dict[str, Any]) -> dict[str, list[float]]:
    """Milliseconds of each timed step (CPU time of this process), by mask."""
    make = {"torchpipe": torchpipe_loss, "torchtune": torchtune_loss}[package]
    steps: dict[str, Callable[[], float]] = {}
    for mask in masks:
        torch.manual_seed(0)
        model, loss_fn = make(batch["sizes"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
        steps[mask] = partial(timed_step, model, loss_fn, optimizer, batch, attention_mask(mask, batch))
    times: dict[str, list[float]] = {mask: [] for mask in masks}
    for number in range(NUM_STEPS + 1):
        for mask, step in steps.items():
            milliseconds = step()
            if number:
                times[mask].append(milliseconds)
    return times


def attention_mask(mask: str, batch: dict[str, Any]) -> Any:
    """The batch's mask in one of its forms."""
    if mask == "dense":
        return batch["mask"]
    from torchpipe.data.packing.masks import varlen_mask

    return varlen_mask(batch["seq_lens"])


def timed_step(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer,
    batch: dict[str, Any],
    mask: Any,
) -> float:
    """Milliseconds of one step."""
    start = time.process_time()
    loss_fn(model(batch["tokens"], mask=mask, input_pos=batch["input_pos"]), batch["labels"]).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return 1000 * (time.process_time() - start)


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("prepare", "torchpipe", "torchtune"))
    parser.add_argument("form", choices=(*SHAPES, "varlen", "dense", "varlen,dense"))
    parser.add_argument("batch", type=Path)
    parser.add_argument("--data-file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.what == "prepare":
        prepare(arguments.form, arguments.batch, arguments.data_file)
    else:
        print(json.dumps(step_times(arguments.what, arguments.form.split(","), torch.load(arguments.batch))))


if __name__ == "__main__":
    main()
