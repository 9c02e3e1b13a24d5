"""Libraries that only some users need."""

import sys
from pathlib import Path

import pytest

from torchpipe._optional import import_optional
from torchpipe.errors import MissingLibraryError


def test_a_library_that_is_missing_is_named_with_what_to_install() -> None:
    sentence = r"^A picture needs nothing_like_it, which is not installed\. Run: pip install nothing-like-it$"
    with pytest.raises(MissingLibraryError, match=sentence):
        import_optional("nothing_like_it.inside", needed_by="A picture", install="nothing-like-it")


def test_a_library_whose_own_parts_are_missing_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import its_other_half", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="No module named 'its_other_half'"):
        import_optional("half_installed", needed_by="A picture", install="half-installed")
    assert "half_installed" not in sys.modules
