"""The HTML holds every token as text, whatever the content spells."""

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from torchpipe.audit import explain

Chats = Callable[..., Any]


class Page(HTMLParser):
    """Collects tags, and the text and classes of the token spans."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.tokens: list[tuple[str, str, str]] = []  # classes, title, text
        self._open: tuple[str, str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"class", "title"}
        if tag == "span":
            values = dict(attrs)
            self._open = (values.get("class") or "", values.get("title") or "")

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.tokens.append((*self._open, data))
            self._open = None


def test_no_content_becomes_markup(chats: Chats, hostile: str) -> None:
    found = explain(chats([f"{hostile}<script>alert(1)</script>\"'><img src=x onerror=y>"]))
    page = Page(found._repr_html_())
    assert page.tags == {"style", "div", "b", "hr", "details", "summary", "span", "br"}
    assert [text for _, _, text in page.tokens] == [token.piece.shown for token in found.rows[0].documents[0].tokens]


def test_trained_masked_and_control_tokens_have_their_classes(chats: Chats) -> None:
    found = explain(chats(["4"]))
    for (classes, title, _), token in zip(
        Page(found._repr_html_()).tokens, found.rows[0].documents[0].tokens, strict=True
    ):
        assert ("trained" in classes.split()) == token.trained
        assert ("masked" in classes.split()) != token.trained
        assert ("control" in classes.split()) == token.piece.control
        assert title.startswith(f"id {token.id}, label {token.label}, position {token.position}, ")


def test_packs_name_their_documents_and_padding_once(chats: Chats) -> None:
    page = explain(chats(["a", "b"], max_seq_len=64, packed=True))._repr_html_()
    assert "document 1: sample 1" in page
    assert "padding: tokens " in page
    assert "finetune_right_pad_id" not in page


def test_no_control_character_is_in_it(chats: Chats, hostile: str) -> None:
    page = explain(chats([hostile]))._repr_html_()
    assert not set(page) & set("\x1b\x00\x7f\x9b\u202e\u2069\u200b\r\t")
