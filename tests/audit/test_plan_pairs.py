"""The plan of a config whose data set gives pairs, labelled answers or prompts: items are called what they are."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig, OmegaConf

from torchpipe._shipped_files import configs_folder, configs_in, pairs_file, recipes_folder
from torchpipe.audit import plan_json
from torchpipe.audit.plan_report import PAIRS_BATCH_SIZE, SETTINGS, PlanReport, plan_config
from torchpipe.audit.plan_text import to_text
from torchpipe.data import padded_collate_dpo
from torchpipe.datasets import MixDataset, count_samples, instantiate_dataset, preference_dataset
from torchpipe.errors import ConfigError
from torchpipe.loading import StepLoader
from torchpipe.models.tiny import tiny_tokenizer

STORED: dict[str, Any] = {"cache": True, "num_proc": 1}


def config(**overrides: Any) -> DictConfig:
    """configs/tiny/dpo.yaml on the sample pairs; ``__`` stands for a dot."""
    cfg = OmegaConf.load(configs_folder() / "tiny" / "dpo.yaml")
    for key, value in {"data_file": str(pairs_file()), "dataset_val": None, **overrides}.items():
        OmegaConf.update(cfg, key.replace("__", "."), value, merge=False, force_add=True)
    assert isinstance(cfg, DictConfig)
    return cfg


def stored(tmp_path: Path, **overrides: Any) -> DictConfig:
    given = {**STORED, "cache_dir": str(tmp_path), **overrides}
    return config(**{f"dataset__{name}": value for name, value in given.items()})


def pairs_of(cfg: DictConfig) -> Any:
    return instantiate_dataset(cfg.dataset, tiny_tokenizer(cfg.tokenizer.max_seq_len, mask_policy="sampled"))


@pytest.mark.parametrize("world_size", [1, 2])
def test_pairs_sides_and_padding_are_those_of_the_batches(world_size: int) -> None:
    cfg = config()
    (section,) = plan_config(cfg, world_size=world_size).sections
    dataset = pairs_of(cfg)
    sides = np.array([[len(item["chosen_input_ids"]), len(item["rejected_input_ids"])] for item in dataset])
    assert section.tokens_of_sides == tuple(sides.sum(axis=0))
    assert (section.num_pairs, section.num_items, section.counts.rows) == (64, 64, 128)
    assert section.counts.longest == sides.max()
    assert section.ledger == {"read": 64, "stored": 64}
    positions = 0
    for rank in range(world_size):
        loader = StepLoader(
            dataset, section.steps, batch_size=4, collate_fn=padded_collate_dpo, rank=rank, world_size=world_size
        )
        positions += sum(tokens.numel() for step in loader for tokens, _ in step.micro_batches)
    assert section.num_positions == positions
    assert section.num_tokens == sides.sum()


def test_the_steps_are_those_of_the_recipe() -> None:
    keys = runpy.run_path(str(recipes_folder() / "dpo.py"))["KEYS"]
    own = {"batch_size": PAIRS_BATCH_SIZE}
    for name, setting in SETTINGS.items():
        if name in keys:
            assert keys[name].default == own.get(name, setting.default), name
    cfg = config()
    del cfg["batch_size"]
    report = plan_config(cfg)
    assert report.settings["batch_size"] == PAIRS_BATCH_SIZE
    (section,) = report.sections
    assert (len(section.steps), section.num_steps) == (16, 64)


def test_stored_pairs_are_planned_as_they_are_balanced(tmp_path: Path) -> None:
    alive, kept = (plan_config(cfg, world_size=2).sections[0] for cfg in (config(), stored(tmp_path)))
    assert alive.tokens_of_sides == kept.tokens_of_sides
    assert (kept.num_items, kept.num_documents) == (64, 128)
    assert kept.steps.costs is not None, "a run knows their lengths before it reads them"
    assert kept.spreads["within_step"].worst <= alive.spreads["none"].worst
    dataset = pairs_of(stored(tmp_path))
    assert kept.steps.costs.tolist() == dataset.lengths.tolist() == dataset.side_lengths.sum(axis=1).tolist()


def test_packs_of_pairs_are_compared_as_packs_of_pairs(tmp_path: Path) -> None:
    report = plan_config(stored(tmp_path, packed=True, pack_len=512), max_seq_lens=[256, 512, 1024])
    (section,) = report.sections
    dataset = pairs_of(stored(tmp_path, packed=True, pack_len=512))
    assert section.num_items == len(dataset)
    assert section.fill == dataset.plan.num_tokens.sum() / (512 * len(dataset))
    for one in report.alternatives:
        if one.max_seq_len == 256:
            assert one.num_refused == 1
            continue
        packed: Any = pairs_of(stored(tmp_path, packed=True, pack_len=one.max_seq_len, strategy=one.strategy))
        assert (one.num_packs, one.documents_a_pack) == (len(packed), 128 / len(packed))
    assert {one.strategy for one in report.alternatives} == {"next_fit", "first_fit", "best_fit_decreasing"}
    text = to_text(report)
    assert "pairs/pack" in text
    assert "longer pairs" in text
    assert "a run stops: overflow is error, and 1 pair too long" in text


def test_single_pairs_say_how_packs_are_compared(tmp_path: Path) -> None:
    report = plan_config(config())
    assert report.why_no_alternatives is not None
    assert "With packed=true of the data set, or lengths of a pack" in report.why_no_alternatives
    asked = plan_config(config(), max_seq_lens=[512], strategies=["next_fit"])
    packed = plan_config(stored(tmp_path, packed=True, pack_len=512), strategies=["next_fit"])
    assert [(one.num_packs, one.fill) for one in asked.alternatives] == [
        (one.num_packs, one.fill) for one in packed.alternatives
    ]


def described(report: PlanReport) -> str:
    return "\n".join(line for line in to_text(report).splitlines() if not line.startswith(("cost:", "dataset")))


@pytest.mark.parametrize("options", [{}, STORED, {"packed": True, "num_proc": 1}])
def test_no_pair_is_called_a_sample(options: dict[str, Any], tmp_path: Path) -> None:
    cfg = config(**{f"dataset__{name}": value for name, value in {**options, "cache_dir": str(tmp_path)}.items()})
    if not options:
        del cfg.dataset["cache_dir"]
    text = described(plan_config(cfg, world_size=2))
    assert "sample" not in text
    assert "document" not in text
    assert "  pairs    64 pairs, 13,235 tokens of both sides, 10,289 trained (78%); longest side 143\n" in text
    assert "  sides    6,703 tokens chosen (105 a pair), 6,532 tokens rejected (102 a pair)\n" in text


def test_lists_of_pairs_and_mixes_of_them_are_pairs(tmp_path: Path) -> None:
    section = OmegaConf.to_container(stored(tmp_path).dataset)
    one, two = ({**section, "split": split} for split in ("train[:50%]", "train[50%:]"))  # type: ignore[dict-item]
    joined = plan_config(config(dataset=[one, two])).sections[0]
    assert (joined.noun, joined.num_pairs) == ("pair", 80)
    mixed = plan_config(config(dataset=[{**one, "weight": 1}, {**two, "weight": 1}])).sections[0]
    assert mixed.noun == "pair"
    assert mixed.num_pairs == mixed.num_items
    given: Any = {"source": "json", "data_files": str(pairs_file())}
    mix = MixDataset([preference_dataset(tiny_tokenizer(), **given, **STORED, cache_dir=str(tmp_path))])
    alive = count_samples(preference_dataset(tiny_tokenizer(), **given))
    counts = count_samples(mix)
    assert (counts.rows, counts.tokens, counts.longest) == (alive.rows, alive.tokens, alive.longest)


def test_json_has_the_pairs_and_their_sides() -> None:
    (section,) = plan_json.to_dict(plan_config(config()))["sections"]
    assert (section["item"], section["num_pairs"]) == ("pair", 64)
    assert section["tokens_of_sides"] == {"chosen": 6703, "rejected": 6532}


@pytest.mark.parametrize("options", [{}, STORED])
def test_answers_and_prompts_are_planned_and_never_packed(options: dict[str, Any], tmp_path: Path) -> None:
    rows = [{"prompt": f"What is {n}?", "completion": str(n), "label": n % 2 == 0} for n in range(20)]
    options = {**options, "cache_dir": str(tmp_path)} if options else {}
    kto = {
        "_component_": "torchpipe.datasets.kto_dataset",
        "source": rows,
        "column_map": {name: name for name in ("prompt", "completion", "label")},
        **options,
    }
    report = plan_config(config(dataset=kto))
    assert "  samples  20 rows, " in to_text(report)
    assert report.why_no_alternatives is not None
    assert report.why_no_alternatives.startswith("Labelled answers (KTO) can't be packed")
    prompts = {"_component_": "torchpipe.datasets.prompt_dataset", "source": rows, **options}
    report = plan_config(config(dataset=prompts, batch_size=8), world_size=2)
    text = described(report)
    assert "  prompts  20 prompts, " in text
    assert "; 16 prompts a step" in text
    assert "trained" not in text
    assert report.why_no_alternatives is not None
    assert report.why_no_alternatives.startswith("Prompts can't be packed")
    with pytest.raises(ConfigError, match="Prompts can't be packed"):
        plan_config(config(dataset=prompts), max_seq_lens=[64])


def test_every_shipped_config_of_pairs_is_explained_and_planned(
    llama3_tokenizer_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from torchpipe.cli.main import main

    configs = [name for name in configs_in(configs_folder()) if name.endswith("dpo")]
    assert len(configs) == 2
    for name in configs:
        words = [name, f"data_file={pairs_file()}"]
        if "llama3_2" in name:
            words += ["model_dir=unused", f"tokenizer.path={llama3_tokenizer_file}"]
        assert main(["plan", *words]) == 0
        assert " pairs, " in capsys.readouterr().out
        assert main(["explain", *words]) == 0
        assert "\nrejected: " in capsys.readouterr().out
