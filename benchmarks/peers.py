"""The environments of the peers, which are measured in processes of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
REQUIREMENTS = {
    "torchtune": Path(__file__).with_name("peers.txt"),
    "trl": Path(__file__).with_name("peers_trl.txt"),
    "transformers": Path(__file__).with_name("peers_transformers.txt"),
}
NEEDED_BYTES = 4 << 30
"""Free disk that is asked for before an environment is made: it takes about 1.5 GiB, and as much again while its
packages are unpacked. torch with CUDA libraries would need more: TORCH_INDEX names an index without them."""


def peer_python(peer: str) -> Path:
    """The Python of a peer's environment, which is made on first use.

    It lies in ``.venvs/NAME``; TORCHPIPE_PEERS names another folder than ``.venvs``. TORCH_INDEX names a package index
    to take torch from, as for ``make``.

    Raises:
        RuntimeError: an environment is there, but with other versions than its file of requirements has; or the disk
            has no room for a new one.
    """
    folder = Path(os.environ.get("TORCHPIPE_PEERS", REPOSITORY / ".venvs")) / peer
    python = folder / "bin" / "python"
    if not _versions(peer, python):
        _install(peer, folder, python)
    wanted = dict(line.split("==") for line in requirements(peer))
    found = {name: version.split("+")[0] for name, version in _versions(peer, python).items()}
    if found != wanted:
        raise RuntimeError(
            f"{folder} holds {found}, and {REQUIREMENTS[peer].name} asks for {wanted}. Delete {folder} to make it anew."
        )
    return python


def requirements(peer: str) -> list[str]:
    """The lines ``name==version`` of a peer's file, torch first."""
    lines = REQUIREMENTS[peer].read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _versions(peer: str, python: Path) -> dict[str, str]:
    """Versions of the required packages; empty without an environment that has them all."""
    names = [line.split("==")[0] for line in requirements(peer)]
    code = f"from importlib.metadata import version; print(*(version(name) for name in {names!r}))"
    if not python.exists():
        return {}
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return dict(zip(names, result.stdout.split(), strict=True)) if result.returncode == 0 else {}


def _install(peer: str, folder: Path, python: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES:
        raise RuntimeError(
            f"{peer} needs {NEEDED_BYTES / 2**30:.0f} GiB of free disk while it is installed, and {folder.parent} "
            f"has {free / 2**30:.1f} GiB. Free space, or set TORCHPIPE_PEERS to a folder on another disk."
        )
    print(f"Installing {peer} into {folder}; this happens once and takes minutes ...", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    torch, *others = requirements(peer)
    index = os.environ.get("TORCH_INDEX")
    subprocess.run([*pip, *(["-i", index] if index else []), torch], check=True)
    subprocess.run([*pip, *others], check=True)
