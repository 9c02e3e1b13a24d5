"""Packing: lengths to a plan, spans to packs, and the masks of packs."""

from typing import TYPE_CHECKING

from torchpipe._reexport import lazily
from torchpipe.data.packing.cost import LLAMA3_8B_COST, CostModel
from torchpipe.data.packing.pack_plan import PackPlan, Span, describe_packs
from torchpipe.data.packing.plan import PackPlanner, Strategy, pack_planner, plan_packs

if TYPE_CHECKING:
    from torchpipe.data.packing.assembly import SampleTokens, assemble, padding_pack
    from torchpipe.data.packing.masks import (
        PackedMask,
        PackedMaskKind,
        dense_block_causal_mask,
        document_ids,
        ids_mask,
        varlen_mask,
    )

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
    "describe_packs",
    "document_ids",
    "ids_mask",
    "pack_planner",
    "padding_pack",
    "plan_packs",
    "varlen_mask",
]

# Plans need no torch; packs and masks are tensors.
__getattr__ = lazily(
    __name__,
    {
        **dict.fromkeys(("SampleTokens", "assemble", "padding_pack"), "torchpipe.data.packing.assembly"),
        **dict.fromkeys(
            ("PackedMask", "PackedMaskKind", "dense_block_causal_mask", "document_ids", "ids_mask", "varlen_mask"),
            "torchpipe.data.packing.masks",
        ),
    },
)
