"""Gradients of one step, however its documents are split; run by path, in the test's process and in those of ranks."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data import padded_collate_packed, padded_collate_sft
from torchpipe.loading import Step
from torchpipe.models import DecoderConfig, build_decoder
from torchpipe.modules import LinearCrossEntropyLoss, TransformerDecoder
from torchpipe.modules.peft import LoRAConfig, add_lora
from torchpipe.training import Ranks, batch_loss, step_totals, trained_weight

Kind = Literal["full", "lora"]
Split = Sequence[Sequence[int]]
"""Which documents stand in each micro-batch."""

PACK_LEN = 32
LENS = (2, 17, 5, 9, 1, 30, 12, 3)
CPU = torch.device("cpu")


def documents() -> list[dict[str, Any]]:
    """Documents with very different numbers of trained tokens; one has none."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for number, length in enumerate(LENS):
        tokens, labels = (torch.randint(0, 40, (length,), generator=generator) for _ in range(2))
        masked = torch.rand(length, generator=generator) < (1.0 if number == 3 else 0.4)
        made.append({"tokens": tokens, "labels": labels.masked_fill(masked, IGNORE_INDEX)})
    return made


def build(kind: Kind) -> TransformerDecoder:
    """The same model in every process."""
    torch.manual_seed(0)
    config = DecoderConfig(
        vocab_size=40,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        embed_dim=16,
        intermediate_dim=24,
        max_seq_len=PACK_LEN,
        rope_base=10_000.0,
        tied_embeddings=True,
    )
    model = build_decoder(config)
    if kind == "lora":
        add_lora(model, LoRAConfig(attn_modules=("q_proj", "v_proj", "output_proj"), mlp=True, rank=2, alpha=4))
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.2)
    return model


def micro_batch(members: Sequence[int], packed: bool) -> dict[str, Any]:
    """The documents as padded rows, or one after another in packs."""
    chosen = [documents()[number] for number in members]
    if not packed:
        return padded_collate_sft([{key: value.tolist() for key, value in one.items()} for one in chosen])
    packs: list[list[dict[str, Any]]] = [[]]
    for document in chosen:
        if sum(len(one["tokens"]) for one in packs[-1]) + len(document["tokens"]) > PACK_LEN:
            packs.append([])
        packs[-1].append(document)
    return {**padded_collate_packed([_pack(pack) for pack in packs], mask="varlen")}


def _pack(pack: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    num_padding = PACK_LEN - sum(len(one["tokens"]) for one in pack)
    padding = {"tokens": torch.zeros(num_padding).long(), "labels": torch.full((num_padding,), IGNORE_INDEX)}
    lens = [len(one["tokens"]) for one in (*pack, padding)]
    return {
        **{key: torch.cat([one[key] for one in (*pack, padding)]) for key in ("tokens", "labels")},
        "input_pos": torch.cat([torch.arange(length) for length in lens]),
        "seq_lens": torch.tensor(lens),
    }


def gradients(kind: Kind, split: Split, ranks: Ranks, *, packed: bool) -> dict[str, torch.Tensor]:
    """The gradient of each trained parameter after one step over this rank's micro-batches."""
    model, loss_fn = build(kind), LinearCrossEntropyLoss()
    loss_fn.set_model_output(model)
    batches = tuple(micro_batch(members, packed) for members in split if members)
    step = Step(epoch=0, number=0, micro_batches=batches, num_packs=len(LENS), trained_tokens=None, trained_weight=None)
    _, weight = step_totals(step, ranks.sum)
    for batch in batches:
        (batch_loss(model, loss_fn, batch, CPU) * (trained_weight(batch) / weight)).backward()
    ranks.sum_gradients(model)
    return {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


def expected_gradients(kind: Kind) -> dict[str, torch.Tensor]:
    """Those of torch's own loss on the logits of each document alone, over all trained tokens."""
    model = build(kind)
    losses, num_trained = [], 0
    for document in documents():
        logits, labels = model(document["tokens"].unsqueeze(0))[0], document["labels"]
        losses.append(nn.functional.cross_entropy(logits, labels, ignore_index=IGNORE_INDEX, reduction="sum"))
        num_trained += int((labels != IGNORE_INDEX).sum())
    (torch.stack(losses).sum() / num_trained).backward()
    return {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
