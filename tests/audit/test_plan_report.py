"""The plan of a config: what it says is what the data sets, packs and layouts are."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig, OmegaConf

from torchpipe.audit.plan_compare import STRATEGIES, Alternative
from torchpipe.audit.plan_cost import cost_of_config
from torchpipe.audit.plan_report import plan_config
from torchpipe.data import padded_collate_sft
from torchpipe.data.ledger import REASONS
from torchpipe.data.packing import LLAMA3_8B_COST, CostModel
from torchpipe.datasets import instantiate_dataset
from torchpipe.errors import ConfigError, DataError
from torchpipe.loading import StepLoader
from torchpipe.models.llama3_1 import LLAMA3_1_405B
from torchpipe.models.tiny import TINY_LLAMA3, tiny_tokenizer

Build = Callable[..., DictConfig]


def is_long_answer(row: dict[str, Any]) -> bool:
    """A filter."""
    return len(row["messages"][-1]["content"]) > 300


@pytest.fixture
def config(repository: Path) -> Build:
    """Function (**overrides) -> configs/tiny/sft.yaml on the sample chats; ``__`` stands for a dot."""

    def build(**overrides: Any) -> DictConfig:
        cfg = OmegaConf.load(repository / "configs" / "tiny" / "sft.yaml")
        small = {"data_file": str(repository / "torchpipe" / "assets" / "sample_chats.json"), "dataset_val": None}
        for key, value in {**small, **{k.replace("__", "."): v for k, v in overrides.items()}}.items():
            OmegaConf.update(cfg, key, value)
        assert isinstance(cfg, DictConfig)
        return cfg

    return build


def dataset_of(cfg: DictConfig) -> Any:
    return instantiate_dataset(cfg.dataset, tiny_tokenizer(cfg.tokenizer.max_seq_len, mask_policy="sampled"))


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, set()),
        ({"dataset__filter_fn": f"{__name__}.is_long_answer"}, {"filtered"}),
        ({"dataset__overflow": "drop", "dataset__max_seq_len": 128}, {"too_long"}),
        ({"dataset__overflow": "truncate", "dataset__max_seq_len": 24}, {"nothing_trained"}),
        ({"dataset__packed": False, "dataset__filter_fn": f"{__name__}.is_long_answer"}, {"filtered"}),
    ],
    ids=["whole", "filter", "drop", "truncate", "unpacked"],
)
def test_every_row_has_one_fate(config: Build, options: dict[str, Any], left_out: set[str]) -> None:
    section = plan_config(config(**options)).sections[0]
    assert section.ledger["read"] == 252
    assert {reason for reason in REASONS if section.ledger.get(reason)} == left_out
    assert section.ledger["stored"] + sum(section.ledger.get(reason, 0) for reason in REASONS) == 252
    assert section.counts.rows == section.ledger["stored"]


@pytest.mark.parametrize("balance", ["none", "within_step", "steps"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_ratio_over_ranks_is_that_of_the_packs_that_loaders_give_them(
    config: Build, balance: str, batch_size: int
) -> None:
    cfg = config(balance=balance, batch_size=batch_size, tokenizer__max_seq_len=512, gradient_accumulation_steps=3)
    section = plan_config(cfg, world_size=4).sections[0]
    packs = dataset_of(cfg)
    costs = packs.costs_of(CostModel.of_decoder(TINY_LLAMA3)).tolist()
    numbered = [{"labels": [index]} for index in range(len(packs))]  # of which a padding pack's label is -100
    loaders = [
        StepLoader(
            numbered,
            section.steps,
            batch_size=batch_size,
            rank=rank,
            world_size=4,
            collate_fn=lambda items: [item["labels"][0] for item in items],
        )
        for rank in range(4)
    ]
    ratios, num_padding, seen = [], 0, []
    for of_ranks in zip(*loaders, strict=True):
        given = [[pack for batch in step.micro_batches for pack in batch] for step in of_ranks]
        num_padding += sum(pack < 0 for rank in given for pack in rank)
        seen += [pack for rank in given for pack in rank if pack >= 0]
        totals = [sum(costs[pack] for pack in rank if pack >= 0) for rank in given]
        if of_ranks[0].num_packs == section.steps.global_batch_size:
            ratios.append(max(totals) * 4 / sum(totals))
        assert {len(step.micro_batches) for step in of_ranks} == {section.micro_batches}
    assert sorted(seen) == list(range(len(packs)))
    assert section.num_padding_items == num_padding
    assert section.spreads[balance].worst == pytest.approx(max(ratios), rel=1e-12)
    assert section.spreads[balance].num_steps == len(ratios)


def test_packs_are_those_of_the_data_set(config: Build) -> None:
    cfg = config(dataset__strategy="best_fit_decreasing", tokenizer__max_seq_len=512)
    section, packs = plan_config(cfg, world_size=64).sections[0], dataset_of(cfg)
    assert section.num_items == len(packs)
    assert section.fill == packs.plan.fill
    assert section.num_documents == len(packs.plan.sample)
    assert section.steps.plan == packs.fingerprint
    assert len(section.steps) == -(-len(packs) // 64)


def test_padding_of_rows_is_that_of_their_batches(config: Build) -> None:
    cfg = config(dataset__packed=False, batch_size=4)
    section = plan_config(cfg, world_size=2).sections[0]
    rows = dataset_of(cfg)
    num_positions = 0
    for rank in range(2):
        loader = StepLoader(rows, section.steps, batch_size=4, rank=rank, world_size=2, collate_fn=list)
        for step in loader:
            for batch in step.micro_batches:
                real = [item for item in batch if any(label >= 0 for label in item["labels"])]
                num_positions += padded_collate_sft(real)["tokens"].numel() if real else 0
    assert (section.num_tokens, section.num_positions) == (36_477, num_positions)


@pytest.mark.parametrize(
    ("policy", "is_exact"),
    [
        ({}, True),
        ({"tokenizer__truncation_type": "left"}, True),
        ({"dataset__overflow": "drop"}, True),
        ({"dataset__overflow": "truncate"}, False),
        ({"dataset__overflow": "truncate", "dataset__truncation_type": "left"}, False),
        ({"dataset__overflow": "split"}, False),
    ],
    ids=["tokenizer", "tokenizer left", "drop", "truncate", "truncate left", "split"],
)
@pytest.mark.parametrize("own", [64, 2048])
def test_another_length_gives_what_a_config_with_that_length_gives(
    config: Build, policy: dict[str, Any], is_exact: bool, own: int
) -> None:
    if "tokenizer__truncation_type" in policy:
        component = {"_component_": "torchpipe.models.llama3.llama3_tokenizer", "path": tiny_tokenizer_file()}
        policy = {"tokenizer": {**component, "max_seq_len": own, "truncation_type": "left"}}
    predicted = plan_config(config(**policy, tokenizer__max_seq_len=own), max_seq_lens=[96]).alternatives
    there = plan_config(config(**policy, tokenizer__max_seq_len=96)).alternatives
    assert [one.strategy for one in predicted] == list(STRATEGIES)
    for guess, one in zip(predicted, there, strict=True):
        assert one.is_exact
        assert guess.is_exact is is_exact
        if policy.get("dataset__overflow") == "split":  # where turns begin isn't known
            assert guess.num_split == one.num_split > 100
            assert guess.num_packs == pytest.approx(one.num_packs, rel=0.1)
        else:  # these rows have neither calls nor pictures
            assert replace(guess, is_exact=True, is_of_config=one.is_of_config) == one
            assert guess.num_cut + guess.num_left_out > 100


def tiny_tokenizer_file() -> str:
    import torchpipe

    return str(Path(torchpipe.__path__[0]) / "assets" / "tiny_llama3" / "tokenizer.model")


def test_rows_of_which_nothing_trained_is_kept_are_foreseen(config: Build) -> None:
    truncate = {"dataset__overflow": "truncate"}
    guess = plan_config(config(**truncate), max_seq_lens=[24]).alternatives[0]
    there = plan_config(config(**truncate, tokenizer__max_seq_len=24)).alternatives[0]
    assert guess.num_left_out == there.num_left_out > 0
    assert guess.num_tokens_cut == there.num_tokens_cut
    assert guess.num_packs == there.num_packs


def test_rows_that_a_tokenizer_cuts_to_nothing_trained_are_foreseen(config: Build) -> None:
    guess = plan_config(config(), max_seq_lens=[24]).alternatives[0]
    there = plan_config(config(tokenizer__max_seq_len=24)).alternatives[0]
    # The tokenizer writes an end of its own in the last place, so that a few more rows lose their last trained token.
    assert 0 < guess.num_left_out <= there.num_left_out
    assert not guess.is_exact


def test_turns_that_leave_are_counted_by_rows(config: Build) -> None:
    turns = {"dataset__overflow": "truncate", "dataset__truncation_type": "turns"}
    guess = plan_config(config(**turns), max_seq_lens=[96]).alternatives[0]
    there = plan_config(config(**turns, tokenizer__max_seq_len=96)).alternatives[0]
    assert not guess.is_exact
    assert guess.num_cut == there.num_cut + there.num_left_out > 100


def pictures(tokenizer: Any) -> list[dict[str, Any]]:
    """Rows with images, of a data set that is a list."""
    return [{"tokens": [1, 2, 3], "labels": [2, 3, -100], "encoder_input": {}}] * 4


def test_rows_with_images_are_planned_and_packs_of_them_are_not(config: Build) -> None:
    cfg = config()
    cfg.dataset = {"_component_": f"{__name__}.pictures"}
    section = plan_config(cfg, world_size=2).sections[0]
    assert (section.num_items, section.num_tokens, len(section.steps)) == (4, 12, 2)
    with pytest.raises(ConfigError, match="rows of list hold images, and packs hold text alone"):
        plan_config(cfg, max_seq_lens=[16])


def one_token(tokenizer: Any) -> list[dict[str, Any]]:
    """Rows that were cut before they came here."""
    return [{"tokens": [1, 2, 3], "labels": [2, 3, -100], "num_truncated": 5}] * 4


def test_rows_that_others_cut_are_compared_by_strategy_alone(config: Build) -> None:
    cfg = config()
    cfg.dataset = {"_component_": f"{__name__}.one_token"}
    with pytest.raises(
        ConfigError, match="how they are tokenised isn't known, so that other lengths can't be compared"
    ):
        plan_config(cfg, max_seq_lens=[16])


def test_a_length_with_which_a_run_stops_says_so(config: Build) -> None:
    with pytest.raises(DataError, match=r"more than max_seq_len=96\. Raise it"):
        plan_config(config(dataset__overflow="error", tokenizer__max_seq_len=96))
    refused, whole = plan_config(
        config(dataset__overflow="error", dataset__strategy="next_fit"),
        strategies=["next_fit"],
        max_seq_lens=[96, 2048],
    ).alternatives
    assert refused.num_refused > 100
    assert refused.num_packs is None
    assert (whole.num_refused, whole.num_packs, whole.is_of_config) == (0, 19, True)
    (dropped,) = plan_config(config(dataset__overflow="drop"), strategies=["next_fit"], max_seq_lens=[3]).alternatives
    assert (dropped.num_left_out, dropped.num_packs) == (252, None)


def test_a_list_of_sections_is_the_sum_of_them_and_is_balanced(config: Build) -> None:
    cfg = config(tokenizer__max_seq_len=256)
    OmegaConf.resolve(cfg)
    parts = [{**cfg.dataset, "split": "train[:100]"}, {**cfg.dataset, "split": "train[100:252]"}]
    separate = []
    for part in parts:
        cfg.dataset = part
        separate.append(plan_config(cfg, world_size=2))
    cfg.dataset = parts
    cfg.gradient_accumulation_steps = 4
    both = plan_config(cfg, world_size=2)
    section = both.sections[0]
    assert len(section.names) == 2
    for name in ("num_items", "num_documents", "num_tokens", "num_positions"):
        assert getattr(section, name) == sum(getattr(one.sections[0], name) for one in separate)
    assert section.ledger["read"] == 252
    assert [one.num_packs for one in both.alternatives] == [
        sum(one.num_packs or 0 for one in pair) for pair in zip(*(one.alternatives for one in separate), strict=True)
    ]
    assert section.spreads["within_step"].worst < section.spreads["none"].worst


def test_held_out_rows_are_planned_in_order(config: Build) -> None:
    cfg = config(tokenizer__max_seq_len=256)
    OmegaConf.resolve(cfg)
    cfg.dataset_val = {**cfg.dataset, "split": "train[-28:]"}
    held_out = plan_config(cfg, world_size=4).sections[1]
    assert (held_out.section, held_out.num_steps, held_out.counts.rows) == ("dataset_val", None, 28)
    assert held_out.steps.packs(0, 0).tolist() == [0, 1, 2, 3]
    assert set(held_out.spreads) == {"none", "within_step"}


def test_rows_without_a_length_are_planned_and_packs_are_not_compared_until_one_is_given(config: Build) -> None:
    cfg = config(dataset__packed=False, tokenizer__max_seq_len=None)
    report = plan_config(cfg)
    assert report.alternatives == ()
    assert report.why_no_alternatives == (
        "Packs are not compared: the data sets have no one max_seq_len. Give one, or several (--max-seq-len)."
    )
    assert [one.num_packs for one in plan_config(cfg, max_seq_lens=[2048]).alternatives] == [19, 18, 19, 18]
    with pytest.raises(ConfigError, match="no one max_seq_len"):
        plan_config(cfg, strategies=["next_fit"])


class TestCost:
    def test_it_has_the_sizes_of_the_configs_model(self) -> None:
        found = cost_of_config({"model": {"_component_": "torchpipe.models.tiny.tiny_llama3", "embed_dim": 64}})
        assert found.model == CostModel.of_decoder(replace(TINY_LLAMA3, embed_dim=64))
        assert found.told == "torchpipe.models.tiny.tiny_llama3"

    def test_a_model_of_a_terabyte_costs_no_memory(self) -> None:
        found = cost_of_config({"model": {"_component_": "torchpipe.models.llama3_1.llama3_1_405b"}})
        assert found.model == CostModel.of_decoder(LLAMA3_1_405B)

    @pytest.mark.parametrize(
        ("model", "why"),
        [
            (None, "the config has no model section"),
            ({"_component_": "torch.nn.Identity"}, "torch.nn.Identity is not one of torchpipe's models"),
            ({"_component_": "torchpipe.models.tiny.tiny_lama3"}, "the config's model can't be built: .*tiny_llama3"),
            ({"_component_": "torchpipe.models.tiny.tiny_llama3", "embed_dim": 3}, "the config's model can't be built"),
            ({"_component_": "torchpipe.models.tiny.tiny_tokenizer"}, "is no decoder with layers of one kind"),
        ],
    )
    def test_it_is_llama_3_8b_where_the_model_cant_be_told(self, model: Any, why: str) -> None:
        found = cost_of_config({"model": model})
        assert (found.model, found.of) == (LLAMA3_8B_COST, "Llama 3 8B")
        assert re.search(why, found.told)


@pytest.mark.parametrize(
    ("options", "asked", "sentence"),
    [
        ({"tokenizer": None}, {}, "The config has no tokenizer section"),
        ({"dataset": None}, {}, "The config has no dataset section"),
        ({"batch_size": 0}, {}, "batch_size is 0. Give a whole number, 1 or more."),
        ({"global_batch_size": 4, "gradient_accumulation_steps": 2}, {}, "Set one."),
        ({"dataset__start": "by_shard"}, {}, "has start='by_shard', which plans each shard on its own while it trains"),
        ({"balance": "step"}, {}, "balance is 'step'. It is one of .* Did you mean 'steps'"),
        ({}, {"world_size": 0}, "ranks is 0. Give a whole number, 1 or more."),
        ({}, {"max_seq_lens": [0]}, "max_seq_len is 0. Give a whole number, 1 or more."),
        ({}, {"strategies": ["best_fit_decreasin"]}, "Did you mean 'best_fit_decreasing'"),
    ],
)
def test_what_cant_be_planned_is_a_sentence(
    config: Build, options: dict[str, Any], asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        plan_config(config(**options), **asked)


def reversed_pairs(lengths: np.ndarray, capacity: int) -> Any:
    """A planner of one's own: every sample in a pack of its own, the last first."""
    from torchpipe.data.packing import PackPlan, Span

    packs = [[Span(sample, 0, int(lengths[sample]))] for sample in range(len(lengths) - 1, -1, -1)]
    return PackPlan.from_packs(packs, capacity=capacity)


def test_a_planner_of_ones_own_is_compared_too(config: Build) -> None:
    found = plan_config(config(), strategies=["next_fit", f"{__name__}.reversed_pairs"]).alternatives
    assert [one.num_packs for one in found] == [19, 252]
    own = plan_config(config(dataset__strategy=f"{__name__}.reversed_pairs")).alternatives
    assert [one.strategy for one in own if one.is_of_config] == [f"{__name__}.reversed_pairs"]
    assert len(own) == 5


def test_gsm8k_is_planned_as_it_is(config: Build, shared_data: Path) -> None:
    cfg = config(tokenizer__max_seq_len=1024, gradient_accumulation_steps=8)
    cfg.dataset = {
        "_component_": "torchpipe.datasets.instruct_dataset",
        "source": "json",
        "data_files": str(shared_data / "gsm8k" / "train.jsonl"),
        "column_map": {"input": "question", "output": "answer"},
        "packed": True,
        "strategy": "best_fit_decreasing",
    }
    report = plan_config(cfg, world_size=64)
    section = report.sections[0]
    assert (section.ledger["read"], section.ledger["stored"], section.counts.rows) == (7473, 7473, 7473)
    by_strategy: dict[str, Alternative] = {one.strategy: one for one in report.alternatives}
    assert by_strategy["concat_then_split"].num_packs == -(-section.counts.tokens // 1024)
    assert by_strategy["best_fit_decreasing"].num_packs == section.num_items < by_strategy["next_fit"].num_packs  # pyright: ignore
    assert section.num_tokens == section.counts.tokens
    assert section.spreads["within_step"].worst < 1.03 < section.spreads["none"].worst


def rows_of_text(tokenizer: Any) -> list[dict[str, str]]:
    """A component whose items are no samples."""
    return [{"text": "a"}]


def test_items_of_no_known_kind_are_refused_in_words(config: Build) -> None:
    cfg = config()
    cfg.dataset = {"_component_": f"{__name__}.rows_of_text"}
    with pytest.raises(DataError, match="The items of the data set are dicts with the keys 'text'"):
        plan_config(cfg)
