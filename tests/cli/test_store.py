"""``torchpipe store``."""

import os
from pathlib import Path

import numpy as np
import pytest

from torchpipe.cli.main import main
from torchpipe.store import ShardData, publish_store, shard_folder, write_shard
from torchpipe.store.publishing import publish_json


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    """A cache folder with two stores, a... used before b..., and one that was not finished, c..."""
    for day, letter in enumerate("abc"):
        folder = tmp_path / "store" / (letter * 32)
        publish_json(folder / "key.json", {"source": f"{letter}.json", "template": "x" * 200})
        data = ShardData(
            tokens=np.arange(1000),
            trained=np.zeros(1000, bool),
            lengths=np.array([500, 500]),
            rows=np.arange(2),
            first_row=0,
            num_rows=2,
        )
        write_shard(shard_folder(folder, 0), data)
        if letter != "c":
            publish_store(folder, num_shards=1)
        for file in folder.rglob("*"):
            os.utime(file, (day * 86400, day * 86400))
    return tmp_path


def store(*words: str, cache_dir: Path) -> int:
    return main(["store", *words, "--cache-dir", str(cache_dir)])


def test_ls_shows_size_use_and_what_they_were_made_of(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert store("ls", cache_dir=cache_dir) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{'c' * 32}  unfinished; ")
    assert lines[3].startswith(f"{'b' * 32}  finished; 2 samples, 1,000 tokens; ")
    assert "kB; last used 1970-01-0" in lines[3]
    assert lines[4] == "    source: b.json"
    assert lines[5] == f"    template: {'x' * 97}..."
    assert lines[-1].startswith(f"{cache_dir / 'store'}: 3 stores, ")


def test_ls_of_nothing_says_where_it_looked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert store("ls", cache_dir=tmp_path) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'store'}: 0 stores, 0 B\n"


def test_ls_names_libraries_of_other_versions(
    cache_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "__version__", "99.0")
    assert store("ls", cache_dir=cache_dir) == 0
    assert "    built with another version than is installed: numpy " in capsys.readouterr().out


def test_verify_reads_all_finished_stores(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert store("verify", cache_dir=cache_dir) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"OK {cache_dir / 'store' / (x * 32)}" for x in "ba"]
    assert lines[0].endswith(" kB read, all as written")


def test_verify_names_damaged_files_and_fails(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cache_dir / "store" / ("a" * 32) / "shards/00000/tokens.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    assert store("verify", "b", cache_dir=cache_dir) == 0
    assert store("verify", "aaa", cache_dir=cache_dir) == 1
    assert f"{file} was changed after it was written" in capsys.readouterr().err
    assert store("verify", str(file.parent.parent.parent), cache_dir=cache_dir) == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [("x", "There is no store 'x' in "), ("", "'' is the start of 3 stores' names. Give more of it")],
)
def test_verify_of_no_store_or_of_many_is_a_sentence(
    cache_dir: Path, capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    assert store("verify", name, cache_dir=cache_dir) == 1
    assert told in capsys.readouterr().err


def test_prune_removes_what_it_is_told_to(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert store("prune", "--unfinished", "--dry-run", cache_dir=cache_dir) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"would remove {'c' * 32} (unfinished, ")
    assert out[1].endswith(" to be freed, 2 left")
    assert store("prune", "--unfinished", cache_dir=cache_dir) == 0
    assert capsys.readouterr().out.startswith(f"removed {'c' * 32} (unfinished, ")
    assert store("prune", "--keep-bytes", "12k", cache_dir=cache_dir) == 0
    assert capsys.readouterr().out.startswith(f"removed {'a' * 32} (finished, ")
    assert store("prune", "--older-than", "30d", cache_dir=cache_dir) == 0
    assert capsys.readouterr().out.endswith("freed, 0 left\n")


def test_prune_removes_damaged_stores_after_reading_them(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cache_dir / "store" / ("a" * 32) / "shards/00000/trained.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    assert store("prune", "--damaged", cache_dir=cache_dir) == 0
    assert capsys.readouterr().out.startswith(f"removed {'a' * 32} (damaged, ")
    assert sorted(path.name[0] for path in (cache_dir / "store").iterdir() if path.is_dir()) == ["b", "c"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "say which: --unfinished, --damaged, --older-than TIME or --keep-bytes SIZE"),
        (["--older-than", "30"], "'30' is no time. Write a number and h, d or w: 30d."),
        (["--keep-bytes", "much"], "'much' is no size. Write a number and k, M, G or T: 50G."),
    ],
)
def test_prune_without_a_condition_is_refused(
    cache_dir: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as left:
        store("prune", *words, cache_dir=cache_dir)
    assert left.value.code == 2
    assert told in capsys.readouterr().err
