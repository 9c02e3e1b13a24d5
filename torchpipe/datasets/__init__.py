"""Map-style data sets, for a torch ``DataLoader``."""

from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.datasets.builders import MaskedMessages, alpaca_dataset, chat_dataset, instruct_dataset, sft_dataset
from torchpipe.datasets.concat import ConcatDataset
from torchpipe.datasets.instantiate import count_samples, instantiate_dataset
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.sft import SFTDataset

__all__ = [
    "ConcatDataset",
    "MaskedMessages",
    "PackedDataset",
    "SFTDataset",
    "SFTTransform",
    "alpaca_dataset",
    "chat_dataset",
    "count_samples",
    "instantiate_dataset",
    "instruct_dataset",
    "sft_dataset",
]
