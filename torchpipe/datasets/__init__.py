"""Map-style data sets, for a torch ``DataLoader``."""

from torchpipe._not_yet import refusing
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.datasets.builders import MaskedMessages, alpaca_dataset, chat_dataset, instruct_dataset, sft_dataset
from torchpipe.datasets.concat import ConcatDataset
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.instantiate import (
    count_samples,
    describe_mix,
    describe_packing,
    instantiate_dataset,
    instantiate_held_out,
)
from torchpipe.datasets.mix import MixDataset
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.presets import alpaca_cleaned_dataset, grammar_dataset, samsum_dataset, slimorca_dataset
from torchpipe.datasets.sft import SFTDataset
from torchpipe.datasets.source_rows import describe_rows, rows_of
from torchpipe.datasets.stored import StoredDataset

__all__ = [
    "ConcatDataset",
    "GrowingPackedDataset",
    "MaskedMessages",
    "MixDataset",
    "PackedDataset",
    "SFTDataset",
    "SFTTransform",
    "StoredDataset",
    "alpaca_cleaned_dataset",
    "alpaca_dataset",
    "chat_dataset",
    "count_samples",
    "describe_mix",
    "describe_packing",
    "describe_rows",
    "grammar_dataset",
    "instantiate_dataset",
    "instantiate_held_out",
    "instruct_dataset",
    "rows_of",
    "samsum_dataset",
    "sft_dataset",
    "slimorca_dataset",
]

__getattr__ = refusing(__name__)
