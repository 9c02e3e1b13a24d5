"""A store's key: what decides, by name."""

from pathlib import Path
from types import SimpleNamespace

from torchpipe.store.build import build_store
from torchpipe.store.key import StoreKey, what_changed


def test_its_digest_is_of_all_fields_but_the_names_of_source_and_node() -> None:
    key = StoreKey(fields={"source": "a", "node": "math", "tokenizer": "1", "overflow": "2"})
    other = StoreKey(fields={"overflow": "2", "tokenizer": "1", "source": "b", "node": "again"})
    assert key.digest == other.digest
    assert key.differences(other) == []
    assert key.digest != StoreKey(fields={"source": "a", "tokenizer": "1"}).digest
    assert len(key.digest) == 32


def test_the_most_alike_store_says_what_changed(toy: SimpleNamespace, tmp_path: Path) -> None:
    for recipe in (toy.ToyRecipe(extra="one", num_rows=30), toy.ToyRecipe(extra="two", num_rows=40)):
        build_store(recipe, cache_dir=tmp_path)
    stored = build_store(toy.ToyRecipe(extra="two", num_rows=40), cache_dir=tmp_path)
    asked = StoreKey(fields={**stored.key, "extra": "three"})
    assert what_changed(asked, stored.path.parent) == (
        "toys: no store for these settings yet; the nearest one differs in 'extra'"
    )
    assert what_changed(StoreKey(fields={**stored.key, "source": "others"}), stored.path.parent) is None
    (stored.path / "key.json").write_text("{")
    changed = what_changed(asked, stored.path.parent)
    assert changed is not None
    assert changed.endswith("'extra', 'source.rows'")
