import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchpipe._shipped_files import (
    configs_folder,
    configs_in,
    find_config,
    pairs_file,
    recipes_folder,
    sample_file,
)
from torchpipe.cli import ls
from torchpipe.cli.cp import copy, copyable, destination, find
from torchpipe.cli.main import COMMANDS, main
from torchpipe.cli.run import check_config_given, find_recipe
from torchpipe.cli.torchtune_recipes import LEFT_OUT, SAME_AS
from torchpipe.errors import ConfigError, SourceError

RECIPE = """
import sys
from torchpipe.config import parse

@parse
def main(cfg):
    rank = __import__("os").environ.get("RANK", "none")
    sys.stdout.write(f"rank {rank} seed {cfg.seed} file {sys.argv[0]}\\n")  # one write: two workers share the pipe
    return cfg.get("status")

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with recipes and configs such as torchpipe ships; it is the working folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "recipes/sft.py": RECIPE,
        "recipes/dpo.py": RECIPE,
        "recipes/_shared.py": "",
        "configs/tiny/sft.yaml": "seed: 1\n",
        "configs/llama3_2/1B/sft.yaml": "seed: 2\n",
        "configs/tiny/other.yaml": "seed: 3\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run_python(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=120)


def torchpipe(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "torchpipe.cli.main", *words, folder=folder)


def test_alone_it_prints_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"\n  {command} " in told for command in COMMANDS)


def test_python_m_torchpipe_is_the_command(tmp_path: Path) -> None:
    told = run_python("-m", "torchpipe", "ls", folder=tmp_path)
    assert (told.returncode, told.stdout) == (0, torchpipe("ls", folder=tmp_path).stdout)
    assert run_python("-m", "torchpipe", "validat", folder=tmp_path).returncode == 2


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    import torchpipe

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"torchpipe {torchpipe.__version__}\n"


def test_an_unknown_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validat"]) == 2
    assert "there is no command 'validat'. Did you mean 'validate'?" in capsys.readouterr().err


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", [[], ["--version"], ["ls"], ["validate", "tiny/sft"], ["explain", "--help"]])
def test_a_reader_that_goes_away_ends_it_without_a_word(words: list[str], buffered: bool, repository: Path) -> None:
    """As in ``torchpipe ls | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    command = [sys.executable, "-m", "torchpipe.cli.main", *words]
    try:
        ended = subprocess.run(
            command, cwd=repository, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, env=environment
        )
    finally:
        os.close(writing)
    assert ended.stderr == ""
    assert ended.returncode in (0, 1)  # argparse itself passes over a help text that nobody reads


def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Full(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["ls"]) == 1
    assert capsys.readouterr().err == "Error: No space left on device; what was being written is not whole.\n"


def test_without_an_output_it_still_works(monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    """As under ``pythonw``, or after ``>&-`` in a shell."""
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["ls"]) == main(["explain", "tiny/sft", f"data_file={sample_file()}"]) == 0


@pytest.mark.parametrize("command", list(COMMANDS))
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main([command, "--help"])
    except SystemExit as left:
        status = left.code
    assert status == 0
    assert f"usage: torchpipe {command}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--help"], ["ls"], ["--version"]])
def test_light_commands_do_not_import_torch(words: list[str], tmp_path: Path) -> None:
    code = f"import sys; from torchpipe.cli.main import main; main({words!r}); print('torch' in sys.modules)"
    assert run_python("-c", code, folder=tmp_path).stdout.endswith("False\n")


# ls


def test_ls_is_a_table_of_recipes_and_their_configs(shipped: Path) -> None:
    assert ls.table(shipped / "recipes", shipped / "configs").splitlines() == [
        "RECIPE  CONFIG",
        "dpo     -",
        "sft     llama3_2/1B/sft",
        "sft     tiny/sft",
        "-       tiny/other",
    ]


def test_ls_shows_what_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["RECIPE", "CONFIG"]
    assert {line.split()[1] for line in lines[1:]} >= set(configs_in(configs_folder()))


def test_ls_takes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["ls", "--al"])
    assert left.value.code == 2


# cp


def test_cp_finds_recipes_configs_and_the_sample_by_name(shipped: Path) -> None:
    files = copyable(shipped / "recipes", shipped / "configs", Path("a/sample_chats.json"))
    assert find("sft", files) == find("sft.py", files) == shipped / "recipes" / "sft.py"
    assert find("tiny/sft", files) == find("tiny/sft.yaml", files) == shipped / "configs" / "tiny" / "sft.yaml"
    assert find("sample_chats.json", files) == Path("a/sample_chats.json")
    with pytest.raises(ConfigError, match=r"called 'tiny/sfy'\. Did you mean 'tiny/sft'\? There are: 'dpo', 'sft'"):
        find("tiny/sfy", files)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "sft.yaml"),
        ("mine", "mine.yaml"),
        ("mine.yml", "mine.yml"),
        ("new/folder/", "new/folder/sft.yaml"),
        ("recipes", "recipes/sft.yaml"),
        ("./a/b", "./a/b.yaml"),
        ("..", "../sft.yaml"),
    ],
)
def test_cp_prints_where_the_copy_is(shipped: Path, text: str | None, expected: str) -> None:
    assert destination(Path("configs/tiny/sft.yaml"), text) == expected


def test_cp_copies_and_makes_folders(shipped: Path) -> None:
    assert copy(shipped / "configs" / "tiny" / "sft.yaml", "a/b/c.yaml")
    assert Path("a/b/c.yaml").read_text() == "seed: 1\n"


def test_cp_never_replaces_a_file_unasked(shipped: Path) -> None:
    source = shipped / "recipes" / "sft.py"
    Path("mine.py").write_text("mine")
    with pytest.raises(SourceError, match=r"^mine\.py exists already and is left as it is.*--force"):
        copy(source, "mine.py")
    assert not copy(source, "mine.py", no_clobber=True)
    assert Path("mine.py").read_text() == "mine"
    assert copy(source, "mine.py", force=True)
    assert Path("mine.py").read_text() == RECIPE


def test_cp_does_not_copy_a_file_onto_itself(shipped: Path) -> None:
    with pytest.raises(SourceError, match="is the file that would be copied"):
        copy(shipped / "recipes" / "sft.py", "recipes/sft.py", force=True)
    assert Path("recipes/sft.py").read_text() == RECIPE


def test_cp_says_why_it_cannot_write(shipped: Path) -> None:
    with pytest.raises(SourceError, match=r"recipes/sft\.py/x\.py can't be written: "):
        copy(shipped / "recipes" / "dpo.py", "recipes/sft.py/x.py")


def test_cp_gives_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["cp", "sample_chats.json", "data/"]) == 0
    assert capsys.readouterr().out == "data/sample_chats.json\n"
    assert Path("data/sample_chats.json").read_bytes() == sample_file().read_bytes()
    assert main(["cp", "sample_chats.json", "data/"]) == 1
    assert "Error: data/sample_chats.json exists already" in capsys.readouterr().err
    assert main(["cp", "sample_chats.json", "data/", "--no-clobber"]) == 0
    assert main(["cp", "sample_pairs.json", "data/"]) == 0
    assert Path("data/sample_pairs.json").read_bytes() == pairs_file().read_bytes()
    assert main(["cp", "sample_chat.json"]) == 2
    assert "Did you mean 'sample_chats.json'?" in capsys.readouterr().err


# validate


@pytest.fixture
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text("loss:\n  _component_: torch.nn.CrossEntropyLoss\n  reduction: sum\nlr: 1\n")
    return path


def test_validate_says_ok(own_config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "job.yaml"]) == 0
    assert capsys.readouterr().out == "OK job.yaml: 1 component, all found and callable as written\n"


def test_validate_does_not_call_a_config_of_another_trainer_all_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("axolotl.yaml").write_text("datasets: [{path: a.json, type: alpaca}]\nsequence_len: 512\n")
    assert main(["validate", "axolotl.yaml"]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("axolotl.yaml has no _component_, so there is nothing to check.")
    assert "docs/coming_from.md" in err


def test_validate_says_which_values_are_still_to_be_given(own_config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "job.yaml", "file=???", "loss.reduction=${file}"]) == 0
    assert capsys.readouterr().out.endswith("; still to be given: file\n")


def test_validate_prints_every_problem(own_config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["loss.reductoin=x", "a._component_=os.system", "b._component_=torch.nope"]
    assert main(["validate", "job.yaml", *words]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2].partition(":")[0] for line in lines] == ["loss", "a", "b"]


def test_validate_without_importing(own_config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("evil.py").write_text("open('ran', 'w')\n")
    assert main(["validate", "job.yaml", "--no-import", "a._component_=evil.f", "~lr"]) == 0
    assert "nothing imported" in capsys.readouterr().out
    assert not Path("ran").exists()
    assert main(["validate", "job.yaml", "a._component_=os.system", "--no-import"]) == 1
    assert "job.yaml: a: _component_: 'os.system' is refused" in capsys.readouterr().err


def test_validate_names_the_nearest_config(own_config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "jop.yaml"]) == 2
    assert "There is no config jop.yaml" in (told := capsys.readouterr().err)
    assert "Did you mean 'job.yaml'?" in told


@pytest.mark.parametrize("words", [["--al"], ["nonsense"]])
def test_validate_refuses_what_is_no_override(own_config: Path, words: list[str]) -> None:
    try:
        status = main(["validate", "job.yaml", *words])
    except SystemExit as left:
        status = left.code
    assert status == 2


@pytest.mark.parametrize("name", sorted(configs_in(configs_folder())))
def test_each_shipped_config_is_spelled_right(name: str) -> None:
    assert main(["validate", name, "--no-import"]) == 0


# shipped names


def test_a_config_is_a_path_first_and_a_shipped_name_second(shipped: Path) -> None:
    folder = shipped / "configs"
    assert find_config("tiny/sft", folder) == find_config("tiny/sft.yaml", folder) == folder / "tiny" / "sft.yaml"
    Path("tiny").mkdir()
    Path("tiny/sft.yaml").write_text("seed: 9\n")
    assert find_config("tiny/sft.yaml", folder) == Path("tiny/sft.yaml")
    with pytest.raises(ConfigError, match=r"Did you mean 'tiny/sft'\?"):
        find_config("tiny/stf", folder)
    with pytest.raises(ConfigError, match=r"Shipped configs: 'llama3_2/1B/sft', 'tiny/other', 'tiny/sft'"):
        find_config("zzzzzzzz", folder)


# run


def test_run_finds_recipes_by_path_and_by_name(shipped: Path) -> None:
    folder = shipped / "recipes"
    assert find_recipe("sft", folder) == folder / "sft.py"
    assert find_recipe("recipes/dpo.py", folder) == Path("recipes/dpo.py")
    with pytest.raises(
        ConfigError, match=r"There is no recipe sfr.*Did you mean 'sft'\? Shipped recipes: 'dpo', 'sft'"
    ):
        find_recipe("sfr", folder)
    with pytest.raises(ConfigError, match=r"Did you mean 'recipes/dpo\.py'\?"):
        find_recipe("recipes/dpp.py", folder)


@pytest.mark.parametrize("name", sorted({*SAME_AS, *LEFT_OUT}))
def test_a_recipe_of_torchtunes_leads_to_the_same_or_says_what_to_do(shipped: Path, name: str) -> None:
    folder = shipped / "recipes"
    if name in SAME_AS:
        assert find_recipe(name, folder) == find_recipe(f"{name}.py", folder) == folder / f"{SAME_AS[name]}.py"
    else:
        with pytest.raises(ConfigError, match=f"torchpipe has no recipe {name}. .* not (here|a recipe here)"):
            find_recipe(name, folder)


def test_every_recipe_of_torchtunes_is_answered() -> None:
    names = """full_finetune_single_device full_finetune_distributed lora_finetune_single_device
        lora_finetune_distributed dev/lora_finetune_distributed_multi_dataset lora_dpo_single_device
        lora_dpo_distributed full_dpo_distributed ppo_full_finetune_single_device generate dev/generate_v2
        dev/generate_v2_distributed dev/early_exit_finetune_distributed eleuther_eval quantize qat_distributed
        qat_lora_finetune_distributed knowledge_distillation_single_device knowledge_distillation_distributed"""
    assert set(names.split()) == {*SAME_AS, *LEFT_OUT}


def test_a_shipped_recipe_without_config_lists_its_configs(shipped: Path) -> None:
    recipes, configs = shipped / "recipes", shipped / "configs"
    with pytest.raises(
        ConfigError, match=r"sft needs --config\. Shipped configs for it: 'llama3_2/1B/sft', 'tiny/sft'"
    ):
        check_config_given(recipes / "sft.py", ["seed=1"], recipes, configs)
    check_config_given(recipes / "sft.py", ["--config=x"], recipes, configs)
    check_config_given(Path("mine.py"), [], recipes, configs)


def test_run_here_passes_words_and_the_exit_status(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, status in ((["seed=4"], None), (["seed=5", "status=3"], 3)):
        before = list(sys.argv)
        with pytest.raises(SystemExit) as left:
            main(["run", "recipes/sft.py", "--config", "configs/tiny/sft.yaml", *words])
        assert left.value.code == status
        assert sys.argv == before
    assert capsys.readouterr().out.splitlines() == [
        "rank none seed 4 file recipes/sft.py",
        "rank none seed 5 file recipes/sft.py",
    ]


def test_a_recipe_may_import_files_beside_it(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shipped / "recipes" / "beside_this_recipe.py").write_text("X = 6\n")
    (shipped / "recipes" / "mine.py").write_text("import beside_this_recipe\nprint(beside_this_recipe.X)\n")
    assert main(["run", "recipes/mine.py"]) == 0
    assert capsys.readouterr().out == "6\n"
    assert str(shipped / "recipes") not in sys.path


def test_run_without_a_recipe_prints_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert "usage: torchpipe run [torchrun options] RECIPE" in capsys.readouterr().out


def test_run_names_an_unknown_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no_such_recipe"]) == 2
    assert "Error: There is no recipe no_such_recipe" in capsys.readouterr().err
    assert main(["run", "--nproc_per_node", "2", "no_such_recipe"]) == 2
    assert "Error: There is no recipe no_such_recipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [["--standalone", "--nproc-per-node=2"], ["--nproc_per_node", "2", "--master_port", "0", "--standalone"]]
)
def test_options_before_the_recipe_go_to_torchrun(shipped: Path, options: list[str]) -> None:
    done = torchpipe("run", *options, "recipes/sft.py", "--config", "configs/tiny/sft.yaml", "seed=8", folder=shipped)
    assert done.returncode == 0, done.stderr
    assert sorted(line[:13] for line in done.stdout.splitlines()) == ["rank 0 seed 8", "rank 1 seed 8"]


def test_a_workers_exit_status_comes_through_torchrun(shipped: Path) -> None:
    words = ["--standalone", "--nproc-per-node=1", "recipes/sft.py", "--config", "configs/tiny/sft.yaml", "status=5"]
    assert torchpipe("run", *words, folder=shipped).returncode == 5


def test_an_unknown_torchrun_option_is_refused(shipped: Path) -> None:
    done = torchpipe("run", "--nproc-per-nod3=2", "recipes/sft.py", folder=shipped)
    assert done.returncode == 2
    assert "torchpipe run: error" in done.stderr


def test_shipped_folders_are_the_clones_here(repository: Path) -> None:
    assert recipes_folder() == repository / "recipes"
    assert configs_folder() == repository / "configs"
