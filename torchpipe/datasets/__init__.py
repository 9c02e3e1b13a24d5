"""Map-style data sets, for a torch ``DataLoader``."""

from torchpipe._not_yet import refusing
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.datasets.builders import MaskedMessages, alpaca_dataset, chat_dataset, instruct_dataset, sft_dataset
from torchpipe.datasets.concat import ConcatDataset
from torchpipe.datasets.dataset_info import dataset_info, dataset_info_dataset
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.instantiate import (
    count_samples,
    describe_mix,
    describe_packing,
    instantiate_dataset,
    instantiate_held_out,
)
from torchpipe.datasets.item_samples import refuse_datasets_without_samples, refuse_other_than_samples
from torchpipe.datasets.kto import KTODataset, StoredKTODataset, kto_dataset
from torchpipe.datasets.messages import messages_dataset
from torchpipe.datasets.mix import MixDataset, over_epochs
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.pair_side import side_of
from torchpipe.datasets.preference import PreferenceDataset, StoredPreferenceDataset
from torchpipe.datasets.preference_builders import (
    hh_rlhf_helpful_dataset,
    preference_dataset,
    stack_exchange_paired_dataset,
)
from torchpipe.datasets.presets import (
    alpaca_cleaned_dataset,
    cnn_dailymail_articles_dataset,
    grammar_dataset,
    samsum_dataset,
    slimorca_dataset,
    wikitext_dataset,
)
from torchpipe.datasets.prompts import PromptDataset, StoredPromptDataset, prompt_dataset
from torchpipe.datasets.segments import segments_dataset
from torchpipe.datasets.sft import SFTDataset
from torchpipe.datasets.source_rows import describe_rows, rows_of
from torchpipe.datasets.stored import StoredDataset
from torchpipe.datasets.streamed import StreamedDataset
from torchpipe.datasets.text_completion import TextCompletionDataset, text_completion_dataset

__all__ = [
    "ConcatDataset",
    "GrowingPackedDataset",
    "KTODataset",
    "MaskedMessages",
    "MixDataset",
    "PackedDataset",
    "PreferenceDataset",
    "PromptDataset",
    "SFTDataset",
    "SFTTransform",
    "StoredDataset",
    "StoredKTODataset",
    "StoredPreferenceDataset",
    "StoredPromptDataset",
    "StreamedDataset",
    "TextCompletionDataset",
    "alpaca_cleaned_dataset",
    "alpaca_dataset",
    "chat_dataset",
    "cnn_dailymail_articles_dataset",
    "count_samples",
    "dataset_info",
    "dataset_info_dataset",
    "describe_mix",
    "describe_packing",
    "describe_rows",
    "grammar_dataset",
    "hh_rlhf_helpful_dataset",
    "instantiate_dataset",
    "instantiate_held_out",
    "instruct_dataset",
    "kto_dataset",
    "messages_dataset",
    "over_epochs",
    "preference_dataset",
    "prompt_dataset",
    "refuse_datasets_without_samples",
    "refuse_other_than_samples",
    "rows_of",
    "samsum_dataset",
    "segments_dataset",
    "sft_dataset",
    "side_of",
    "slimorca_dataset",
    "stack_exchange_paired_dataset",
    "text_completion_dataset",
    "wikitext_dataset",
]

__getattr__ = refusing(__name__)
