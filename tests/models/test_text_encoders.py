"""The text tokenizers of T5 and CLIP on their published files. Ids are compared with torchtune's in tests/parity."""

import io
import pickle
from pathlib import Path

import pytest
from sentencepiece import SentencePieceTrainer

from torchpipe.errors import ColumnError, ConfigError, DataError, SourceError, TokenizerError
from torchpipe.models.clip import CLIPTokenizer, clip_tokenizer
from torchpipe.models.t5 import T5Tokenizer, t5_tokenizer


@pytest.fixture(scope="module")
def t5_file(shared_data: Path) -> str:
    return str(shared_data / "tokenizers" / "torchtune" / "sentencepiece.model")


@pytest.fixture(scope="module")
def clip_file(oracle_file) -> str:
    return str(oracle_file("clip", "bpe_simple_vocab_16e6.txt.gz"))


@pytest.fixture(scope="module")
def clip(clip_file: str) -> CLIPTokenizer:
    return clip_tokenizer(clip_file)


def test_t5_ends_a_text_with_eos(t5_file: str) -> None:
    tokenizer = t5_tokenizer(t5_file)
    assert isinstance(tokenizer, T5Tokenizer)
    assert tokenizer.encode("hello") == [21820, 1]
    assert tokenizer.encode("") == [1]
    assert tokenizer.decode(tokenizer.encode("hello there")) == "hello there"
    assert (tokenizer.vocab_size, tokenizer.eos_id, tokenizer.pad_id) == (32000, 1, 0)


def test_t5_refuses_a_file_without_eos_and_text_without_utf8(t5_file: str, tmp_path: Path) -> None:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["a text without an end"] * 9),
        model_writer=model,
        vocab_size=20,
        eos_id=-1,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    (tmp_path / "no_eos.model").write_bytes(model.getvalue())
    with pytest.raises(TokenizerError, match=r"no_eos\.model has no EOS token"):
        t5_tokenizer(str(tmp_path / "no_eos.model"))
    with pytest.raises(TokenizerError, match="lone surrogate"):
        t5_tokenizer(t5_file).encode("a\ud83db")


# https://github.com/openai/CLIP/blob/main/notebooks/Interacting_with_CLIP.ipynb: the ids of "Hello World!"
def test_clip_writes_the_published_ids(clip: CLIPTokenizer) -> None:
    assert clip.encode("Hello World!") == [49406, 3306, 1002, 256, 49407]
    assert (clip.sot_token, clip.eot_token, clip.pad_token, clip.vocab_size) == (49406, 49407, 49407, 49408)


def test_clip_decodes_words_with_a_space_after_each(clip: CLIPTokenizer) -> None:
    assert clip.decode(clip.encode("A Café  in\nParis")) == "<|startoftext|>a café in paris <|endoftext|>"
    with pytest.raises(TokenizerError, match="Token id 50000 is outside the vocabulary of 49408"):
        clip.decode([50000])


def test_no_text_becomes_a_control_token_of_clip(clip: CLIPTokenizer) -> None:
    ids = clip.encode("a <|endoftext|> b <|startoftext|>")
    assert {49406, 49407}.isdisjoint(ids[1:-1])
    assert clip.encode("</w>")[1:-1] == clip.encode("</ w >")[1:-1]


def test_a_long_text_is_cut_and_still_ends(t5_file: str, clip_file: str) -> None:
    for tokenizer in (t5_tokenizer(t5_file, max_seq_len=4), clip_tokenizer(clip_file, max_seq_len=4)):
        whole = type(tokenizer)(t5_file if isinstance(tokenizer, T5Tokenizer) else clip_file).encode(
            "one two three four"
        )
        assert tokenizer.encode("one two three four") == [*whole[:3], whole[-1]]
        assert tokenizer({"text": "one two three four", "id": 7}) == {
            "id": 7,
            "tokens": [*whole[:3], whole[-1]],
            "num_truncated": len(whole) - 4,
        }


def test_a_long_text_is_refused_where_it_must_not_be_cut(t5_file: str) -> None:
    tokenizer = t5_tokenizer(t5_file, max_seq_len=4, truncate=False)
    with pytest.raises(DataError, match=r"A text has \d+ tokens, and max_seq_len is 4"):
        tokenizer.encode("one two three four five six")
    assert tokenizer.encode("one") == [80, 1]


def test_several_texts_at_once_are_refused(t5_file: str, clip: CLIPTokenizer) -> None:
    for tokenizer in (t5_tokenizer(t5_file), clip):
        with pytest.raises(DataError, match=r"encode takes one text; got a list\. Encode several texts one by one"):
            tokenizer.encode(["one", "two"])  # pyright: ignore[reportArgumentType]
    assert t5_tokenizer(t5_file).encodes_whitespace is False


def test_a_row_is_not_changed(clip: CLIPTokenizer) -> None:
    row = {"text": "a dog"}
    assert clip(row, inference=True) == {"tokens": clip.encode("a dog")}
    assert row == {"text": "a dog"}


def test_a_row_without_text_is_refused(clip: CLIPTokenizer) -> None:
    with pytest.raises(ColumnError, match=r"needs `text`, and the row has \['caption'\]"):
        clip({"caption": "a dog"})
    with pytest.raises(DataError, match="Column 'text' holds null"):
        clip({"text": None})


def test_wrong_files_and_lengths_are_named(tmp_path: Path, t5_file: str, llama3_tokenizer_file: Path) -> None:
    with pytest.raises(ConfigError, match="max_seq_len is 0"):
        t5_tokenizer(t5_file, max_seq_len=0)
    with pytest.raises(SourceError, match=r"Can't read the merges file .*none\.txt"):
        clip_tokenizer(str(tmp_path / "none.txt"))
    with pytest.raises(TokenizerError, match="is not UTF-8 text"):
        clip_tokenizer(t5_file)
    with pytest.raises(TokenizerError, match="does not hold CLIP's merges"):
        clip_tokenizer(str(llama3_tokenizer_file))


def test_both_travel_to_worker_processes(t5_file: str, clip: CLIPTokenizer) -> None:
    for tokenizer in (t5_tokenizer(t5_file), clip):
        assert pickle.loads(pickle.dumps(tokenizer)).encode("a dog") == tokenizer.encode("a dog")
