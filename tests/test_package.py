"""The package itself: its name, its version, and the other project of that name."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import torchpipe


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("torchpipe-data") == torchpipe.__version__


def test_typing_information_is_shipped(repository: Path) -> None:
    assert (repository / "torchpipe" / "py.typed").is_file()


def test_importing_over_the_other_projects_files_is_one_sentence(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "torchpipe").mkdir()
    (tmp_path / "torchpipe" / "__init__.py").write_bytes((repository / "torchpipe" / "__init__.py").read_bytes())
    info = tmp_path / "torchpipe-0.2.25.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchpipe\nVersion: 0.2.25\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torchpipe"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 1
    assert "Another project called torchpipe (0.2.25) is installed in the same folder" in result.stderr
    assert "pip uninstall torchpipe torchpipe-data" in result.stderr


def test_the_other_project_in_another_folder_does_no_harm(tmp_path: Path, repository: Path) -> None:
    info = tmp_path / "torchpipe-0.2.25.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchpipe\nVersion: 0.2.25\n")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); sys.path.insert(0, {str(repository)!r}); import torchpipe"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
