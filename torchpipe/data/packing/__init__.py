"""Packing: lengths to a plan, spans to packs, and the masks of packs."""

from torchpipe.data.packing.assemble import assemble
from torchpipe.data.packing.masks import (
    PackedMask,
    PackedMaskKind,
    dense_block_causal_mask,
    document_ids,
    ids_mask,
    varlen_mask,
)
from torchpipe.data.packing.plan import PackPlan, PackPlanner, Span, pack_planner, plan_packs

__all__ = [
    "PackPlan",
    "PackPlanner",
    "PackedMask",
    "PackedMaskKind",
    "Span",
    "assemble",
    "dense_block_causal_mask",
    "document_ids",
    "ids_mask",
    "pack_planner",
    "plan_packs",
    "varlen_mask",
]
