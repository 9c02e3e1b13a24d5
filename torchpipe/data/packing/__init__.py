"""Packing: lengths to a plan, spans to packs, and the masks of packs."""

from torchpipe.data.packing.assemble import SampleTokens, assemble, padding_pack
from torchpipe.data.packing.cost import LLAMA3_8B_COST, CostModel
from torchpipe.data.packing.masks import (
    PackedMask,
    PackedMaskKind,
    dense_block_causal_mask,
    document_ids,
    ids_mask,
    varlen_mask,
)
from torchpipe.data.packing.pack_plan import PackPlan, Span
from torchpipe.data.packing.plan import PackPlanner, Strategy, pack_planner, plan_packs

__all__ = [
    "LLAMA3_8B_COST",
    "CostModel",
    "PackPlan",
    "PackPlanner",
    "PackedMask",
    "PackedMaskKind",
    "SampleTokens",
    "Span",
    "Strategy",
    "assemble",
    "dense_block_causal_mask",
    "document_ids",
    "ids_mask",
    "pack_planner",
    "padding_pack",
    "plan_packs",
    "varlen_mask",
]
