"""``torchpipe migrate``: the same file with other names, and every difference said."""

import re
from pathlib import Path

import pytest
import yaml

from torchpipe.cli.main import main
from torchpipe.cli.migrate import migrate, renamed_text, write
from torchpipe.errors import SourceError

OLD = """\
# tune run lora_finetune_single_device --config mine   (torchtune.models in a comment stays)
output_dir: /tmp/torchtune/mine  # your folder

model:
    _component_: "torchtune.models.llama3_2.lora_llama3_2_1b"
    lora_attn_modules: ['q_proj',   'v_proj']
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, path: /tmp/torchtune.model}
dataset: &rows
    _component_: torchtune.datasets.alpaca_cleaned_dataset
dataset_val: *rows
optimizer: {_component_: torch.optim.AdamW, lr: 3e-4}
loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}
collate_fn: torchtune.data.padded_collate_sft
"""


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config of torchtune's in the working folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "old.yaml"
    file.write_text(OLD)
    return file


def test_only_names_change_and_each_once() -> None:
    new, renamed = renamed_text(OLD)
    kept = ["# tune run", "(torchtune.models in", "/tmp/torchtune/mine", "/tmp/torchtune.model"]
    assert all(text in new for text in kept)
    assert [line for line, _ in renamed] == [5, 7, 9, 12, 13]
    changed = [(a, b) for a, b in zip(OLD.splitlines(), new.splitlines(), strict=True) if a != b]
    assert len(changed) == 5
    assert all(a.replace("torchtune.", "torchpipe.").split("path")[0] == b.split("path")[0] for a, b in changed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a: &torchtune torchtune.data.X\nb: *torchtune\n", "a: &torchtune torchpipe.data.X\nb: *torchtune\n"),
        ("a: &x # torchtune.data.X\n  torchtune.data.X\n", "a: &x # torchtune.data.X\n  torchpipe.data.X\n"),
        ("a: !!str torchtune.data.X\n", "a: !!str torchpipe.data.X\n"),
        (
            "a: |- # torchtune.data.X\n  torchtune.data.X\nb: 1\n",
            "a: |- # torchtune.data.X\n  torchpipe.data.X\nb: 1\n",
        ),
        ('a: "torch\\u0074une.data.X"\nb: /tmp/torchtune/\n', 'a: "torchpipe.data.X"\nb: /tmp/torchtune/\n'),
        ("a: &b {c: torchtune.x, d: 'torchtune.y'}\n<<: *b\n", "a: &b {c: torchpipe.x, d: 'torchpipe.y'}\n<<: *b\n"),
        ("a: mytorchtune.data.X\ntorchtune.b: torchtune\nc: see torchtune.data\n", None),
    ],
    ids=["anchor", "comment", "tag", "block", "escape", "merge key", "no name"],
)
def test_a_value_is_found_wherever_yaml_lets_it_stand(old: str, new: str | None) -> None:
    assert renamed_text(old)[0] == (new or old)
    assert len(renamed_text(old)[1]) == (new or old).count("torchpipe")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_bytes_that_are_no_names_stay(tmp_path: Path, newline: str) -> None:
    text = OLD.replace("\n", newline).replace("your folder", "Größe, 数")
    (tmp_path / "old.yaml").write_bytes(text.encode())
    assert migrate(tmp_path / "old.yaml").text == renamed_text(text)[0]
    assert renamed_text(text)[0].count(newline) == text.count(newline)


def test_a_config_that_fits_is_written_and_said_to_train(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "old.yaml", "-o", "new/mine.yaml"]) == 0
    told = capsys.readouterr().out
    assert "new/mine.yaml: 5 names begin with torchpipe now; all else is as it was." in told
    assert "  line 5: torchpipe.models.llama3_2.lora_llama3_2_1b\n" in told
    assert told.endswith("It trains: torchpipe run sft --config new/mine.yaml\n")
    written = yaml.safe_load((old.parent / "new" / "mine.yaml").read_text())
    assert written["model"]["_component_"] == "torchpipe.models.llama3_2.lora_llama3_2_1b"


def test_a_config_of_pairs_is_held_against_recipe_dpo(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = re.sub(r"torchtune\.modules\.loss\.\w+", "torchtune.rlhf.loss.DPOLoss", OLD)
    old.write_text(text.replace("alpaca_cleaned", "stack_exchange_paired").replace("collate_sft", "collate_dpo"))
    assert main(["migrate", "old.yaml"]) == 0
    told = capsys.readouterr().out
    assert told.endswith("It trains: torchpipe run dpo --config old.torchpipe.yaml\n")


def test_what_does_not_fit_is_named_and_the_file_is_written(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = OLD.replace("lora_llama3_2_1b", "qlora_llama3_2_1b").replace("alpaca_cleaned", "multimodal.vqa")
    more = "optimizer_in_bwd: True\nresume_from_checkpoint: False\nkd_ratio: 0.5\nbatchsize: 3\nepochs: 0\nseed: null\n"
    old.write_text(text + more)
    assert main(["migrate", "old.yaml"]) == 1
    told = capsys.readouterr().out
    for sentence in (
        "resume_from_checkpoint: It is read as resume",
        "optimizer_in_bwd is left out. The optimizer steps after the backward pass",
        "kd_ratio can't be used here. Knowledge distillation is not here",
        "epochs is 0. Give a whole number, 1 or more.",
        "batchsize is not a key of recipe sft. Did you mean 'batch_size'?",
        "torchpipe has no torchpipe.models.llama3_2.qlora_llama3_2_1b yet. It keeps the base weights in 4 bits",
        "torchpipe has no torchpipe.datasets.multimodal.vqa_dataset yet. It reads rows with images",
    ):
        assert sentence in told
    assert (old.parent / "old.torchpipe.yaml").is_file()


def test_a_config_without_what_the_recipe_needs_is_not_said_to_train(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old.write_text("model:\n  _component_: torchtune.models.llama3.llama3_8b\noptimizer: null\nloss: ???\n")
    assert main(["migrate", "old.yaml"]) == 1
    told = capsys.readouterr().out
    assert "old.torchpipe.yaml: 1 name begins with torchpipe now" in told
    for key in ("tokenizer", "dataset", "output_dir"):
        assert f"The config has no '{key}', which recipe sft needs." in told
    assert "optimizer is null, and recipe sft needs it." in told
    assert "'loss'" not in told  # the command line will give it
    assert "It trains" not in told


def test_what_the_recipe_needs_and_values_that_lead_nowhere_are_named(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = OLD.replace("output_dir: /tmp/torchtune/mine", "output_dir: ${nowhere}").replace("optimizer:", "1:")
    old.write_text(text.replace("loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}", "loss: null"))
    assert main(["migrate", "old.yaml"]) == 1
    told = capsys.readouterr().out
    for sentence in (
        "output_dir can't be told: Interpolation key 'nowhere' not found",
        "1 is not a key of recipe sft.",
        "The config has no 'optimizer', which recipe sft needs.",
        "loss is null, and recipe sft needs it.",
    ):
        assert sentence in told


def test_a_file_that_exists_stays_unless_forced(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "old.yaml", "-o", "old.yaml"]) == 1
    assert "old.yaml exists already and is left as it is" in capsys.readouterr().err
    assert old.read_text() == OLD
    assert main(["migrate", "old.yaml", "-o", "old.yaml", "--force"]) == 0
    assert old.read_text() == renamed_text(OLD)[0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("a: [", "line 1"), ("", "the file is empty"), ("- 1", "holds a list"), ("a: " + 5000 * "9", "4300 digits")],
)
def test_a_file_that_is_no_config_is_one_sentence(
    old: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    old.write_text(text)
    assert main(["migrate", "old.yaml"]) == 1
    assert sentence in capsys.readouterr().err


def test_a_place_that_can_not_be_written_is_one_sentence(old: Path) -> None:
    with pytest.raises(SourceError, match=r"old.yaml/new.yaml can't be written"):
        write("text", "old.yaml/new.yaml", force=False)
