"""Recipe sft trains on a graph of real rows: sums, calls of tools and text, mixed by tokens and packed."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from omegaconf import OmegaConf

CONFIG = """
output_dir: {folder}/out
tokenizer: {{_component_: torchpipe.models.tiny.tiny_tokenizer, max_seq_len: 1024, mask_policy: sampled}}
dataloader:
  _component_: torchpipe.pipeline.GrainDataLoader.Config
  num_proc: 1
  dataset:
    _component_: torchpipe.pipeline.FirstFitPackingConfig
    dataset:
      _component_: torchpipe.pipeline.DatasetMixConfig
      by: tokens
      datasets:
        - _component_: torchpipe.pipeline.WeightedDataset
          name: gsm8k
          weight: 0.4
          dataset:
            _component_: torchpipe.pipeline.SingleDatasetConfig
            source: {{_component_: torchpipe.pipeline.IndexedJsonlSource.Config, patterns: ['{folder}/gsm8k.jsonl']}}
            processor:
              _component_: torchpipe.pipeline.ChatProcessor.Config
              messages_fn: users_components.question_and_answer
        - _component_: torchpipe.pipeline.WeightedDataset
          name: glaive
          weight: 0.3
          dataset:
            _component_: torchpipe.pipeline.SingleDatasetConfig
            source:
              _component_: torchpipe.pipeline.HuggingFaceRandomAccessSource.Config
              path: json
              split: train
              load_dataset_kwargs: {{data_files: '{data}/llamafactory/glaive_toolcall_en_demo.json'}}
            processor:
              _component_: torchpipe.pipeline.ChatProcessor.Config
              messages_fn: users_components.plain_turns
        - _component_: torchpipe.pipeline.WeightedDataset
          name: c4
          weight: 0.3
          dataset:
            _component_: torchpipe.pipeline.SingleDatasetConfig
            source:
              _component_: torchpipe.pipeline.IndexedJsonlSource.Config
              patterns: ['{data}/llamafactory/c4_demo.jsonl']
            processor: {{_component_: torchpipe.pipeline.TextProcessor.Config}}
model: {{_component_: torchpipe.models.tiny.tiny_llama3, num_layers: 1, embed_dim: 32, intermediate_dim: 64}}
loss: {{_component_: torchpipe.modules.losses.LinearCrossEntropyLoss}}
optimizer: {{_component_: torch.optim.AdamW, lr: 3.0e-2}}
device: cpu
max_steps: 20
num_rows_for_training_loss: 8
max_generated_tokens: 4
"""


@pytest.mark.filterwarnings("ignore:.*are dropped, in documents that are too long")
def test_sums_calls_and_text_are_mixed_by_tokens_packed_and_learnt(
    sft: ModuleType,
    shared_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()[:500]
    (tmp_path / "gsm8k.jsonl").write_text("\n".join(rows), encoding="utf-8")
    config: Any = OmegaConf.create(CONFIG.format(folder=tmp_path, data=shared_data))
    sft.main(config)
    printed = capsys.readouterr().out
    assert "more rows left out, longer than max_seq_len" in printed
    line = next(line for line in printed.splitlines() if line.startswith("training loss: "))
    before, after = (float(word) for word in line.split() if word.replace(".", "").isdigit())
    assert after < before - 1
