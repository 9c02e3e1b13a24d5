"""docs/recipes_for_data.md: each config reads its real file, counts every row, and trains what the file says."""

import json
import re
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchpipe.data
from torchpipe.datasets import (
    StoredDataset,
    chat_dataset,
    kto_dataset,
    messages_dataset,
    preference_dataset,
    prompt_dataset,
)
from torchpipe.models.tiny import tiny_tokenizer

REPOSITORY = Path(__file__).parents[2]
TOOL = SimpleNamespace(**runpy.run_path(str(REPOSITORY / "tools" / "data_recipes.py")))
END = "<|im_end|>"

# Config -> rows read, rows left out by reason, a sample, and the text that it trains, as it stands in the file. " ... "
# is any text between a beginning and an end.
EXPECTED: dict[str, tuple[int, dict[str, int], int, str]] = {
    "gsm8k": (
        *(7473, {}, 70),
        f"Tim has 68-30 = <<68-30=38>>38 apples.\nHarry has 38/2 = <<38/2=19>>19 apples.\n#### 19{END}",
    ),
    "prompt_completion": (144, {}, 0, f"Patrick Mahomes threw for 257 yards in Super Bowl LIX.{END}"),
    "alpaca": (166, {}, 125, f"hǎo{END}"),
    "identity": (91, {}, 38, f"不客气。我是人工智能助手 {{{{name}}}}，很高兴能帮到您。{END}"),
    "odd_columns": (2, {}, 0, f"1.Eat a balanced diet. 2. Exercise regularly. 3. Get enough sleep.{END}"),
    "torchtune_instruct": (2, {}, 0, f"It is 10:00 AM in London{END}"),
    "seed_tasks": (120, {}, 53, f"random{END}"),
    "sharegpt": (500, {}, 73, f"I'm created by Large Model Systems Organization (LMSYS).{END}"),
    "sharegpt_one": (
        *(1, {}, 0),
        f"It's possible to use algebraic topology ... get started with such a project.{END}",
    ),
    "torchtune_chat": (1, {}, 0, f"The meaning of life is 42.{END}I agree.{END}"),
    "openai": (128, {}, 2, f"15 + 27 = 42{END}"),
    "xtuner_text": (129, {}, 79, f"print(2.5 - 0.32){END}"),
    "openai_dirty": (
        *(5, {"too_long": 1, "bad_role_order": 1}, 2),
        f"You can read everything on ebooks these days!{END}",
    ),
    "xtuner_flags": (8, {}, 3, f"好的，我知道这是第二个问题{END}"),
    "xtuner_turns": (
        *(2, {}, 0),
        f"1.Eat a balanced diet. 2. Exercise regularly. 3. Get enough sleep.{END}"
        f"1. Set clear goals. 2. Create a study plan. 3. Build vocabulary. 4. Practice speaking.{END}",
    ),
    "glaive_en": (
        *(200, {}, 51),
        "I'm sorry, but I don't have the capability to book flights. My current function is to create invoices. If you "
        f"need help with that, feel free to ask!{END}",
    ),
    "glaive_zh": (
        *(80, {}, 0),
        '<tool_call>\n{"name": "generate_invoice", "arguments": {"customer_name": "约翰·多伊", "items": [{"name": '
        '"苹果", "quantity": 2, "price": 1}, {"name": "香蕉", "quantity": 3, "price": 0.5}]}}\n</tool_call>'
        f"{END}发票已成功生成。 ... 以及3根香蕉，总金额为$1.5。{END}",
    ),
    "functionary": (
        *(1, {}, 0),
        f"James Kaplan is the Co-Founder and CEO of MeetKai Inc.{END}I will get the price of 2 cars and compare\n"
        '<tool_call>\n{"name": "get_car_price", "arguments": {"car_name": "Song"}}\n</tool_call>\n'
        f" ... {END}The final list is: 0,1,2,3,5{END}",
    ),
    "tau_bench": (
        *(16, {"filtered": 12}, 2),
        "I can assist you with canceling your flight reservation. ... "
        '{"name": "get_reservation_details", "arguments": {"reservation_id":"3FRNFB"}}\n</tool_call> ... I can '
        f"transfer you to a human agent who might be able to help. Would you like me to do that?{END}",
    ),
    "tau_bench_text": (
        8,
        {},
        1,
        ": Hi, I'm looking to get a refund for the insurance ... while I do that.\ntool: Transfer successful" + END,
    ),
    "hermes": (
        *(2, {}, 1),
        f'<tool_call>\n{{"arguments": {{"length": 8}}, "name": "generate_password"}}\n</tool_call>{END}',
    ),
    "bfcl_simple_python": (
        *(398, {}, 1),
        f'<tool_call>\n{{"name": "math.factorial", "arguments": {{"number": 5}}}}\n</tool_call>{END}',
    ),
    "bfcl_parallel": (
        *(199, {}, 10),
        '<tool_call>\n{"name": "math.pythagoras", "arguments": {"a": 3, "b": 4}}\n</tool_call>\n'
        f'<tool_call>\n{{"name": "math.pythagoras", "arguments": {{"a": 5, "b": 12}}}}\n</tool_call>{END}',
    ),
    "bfcl_irrelevance": (
        *(120, {}, 0),
        '<|im_start|>system\n# Tools\n ... "determine_body_mass_index" ... <|im_start|>user\nCalculate the area of a '
        f"triangle given the base is 10 meters and height is 5 meters.{END}\n<|im_start|>assistant\n",
    ),
    "toolalpaca": (
        *(77, {}, 45),
        f'<tool_call>\n{{"name": "listCountries", "arguments": {{}}}}\n</tool_call>{END}',
    ),
    "reasoning": (
        *(32, {}, 7),
        "<think>\nOkay, the user wants me to retrieve 15 products ... limit:15, skip:20.\n</think>\n\n<tool_call>\n"
        '{"name": "get_products_in_category", "arguments": {"category": "Books", "limit": 15, "skip": 20}}\n'
        f"</tool_call>{END}",
    ),
    "ifeval": (
        *(360, {}, 109),
        "<|im_start|>user\nCompose a poem all in lowercase letters about my friend Barnet."
        f"{END}\n<|im_start|>assistant\n",
    ),
    "mt_bench": (
        *(80, {}, 35),
        f"<|im_start|>user\nx+y = 4z, x*y = 4z^2, express x-y in z{END}\n<|im_start|>assistant\n",
    ),
    "mt_bench_answers": (
        *(30, {}, 3),
        f"David has only one brother.{END}If each of David's sisters has two brothers, then David would have two "
        f"brothers.{END}",
    ),
    "oasst": (
        *(444, {"filtered": 370}, 68),
        f"<|im_start|>user\nWhat is a QR code?{END}\n<|im_start|>assistant\n",
    ),
    "dpo": (180, {}, 11, f"yes{END}"),
    "torchtune_hh": (1, {}, 0, f"Fix the hole.{END}"),
    "v1_dpo": (10, {}, 5, f"no{END}"),
    "hh_transcripts": (8, {}, 5, f"I'm happy to help!{END}"),
    "kto": (180, {}, 116, f"Ye{END}"),
    "c4": (150, {}, 0, "o the apparent surprise of everyone, the Walt Disney Company has announced ... "),
    "wikisql": (
        *(600, {}, 1),
        f"SELECT Current series FROM 1-1000181-1 WHERE Notes = 'New series began in June 2011'{END}",
    ),
    "human_eval": (100, {}, 41, f"    return n**2\n{END}"),
    "xtuner_pretrain": (
        *(3, {}, 2),
        f"at a balanced diet rich in fruits, vegetables, whole grains, and lean proteins.\n{END}",
    ),
    "torchtune_vqa": (
        *(1, {}, 0),
        "<|start_header_id|>assistant<|end_header_id|>\n\nPyTorch logo.<|eot_id|>",
    ),
    "audio": (3, {}, 1, f"A woman is coughing.{END}"),
}
EXPECTED["reasoning_inline"] = EXPECTED["reasoning"]

REJECTED = {
    "dpo": (11, "Based on the given information, I would classify ... is not relevant to the question asked." + END),
    "torchtune_hh": (0, f"Take them off.{END}"),
    "v1_dpo": (5, " No, the claim that Ayn Rand ... knowledge of Ayn Rand's life and background." + END),
    "hh_transcripts": (5, f"Sure, let me know what you need.{END}"),
}


@cache
def outcome(name: str, data: Path) -> Any:
    """What the config gives. It is no fixture: its stores belong in the cache folder that a test's fixtures set."""
    return TOOL.outcome(name, data)


def reads(text: str, expected: str) -> bool:
    return re.fullmatch(".*?".join(map(re.escape, expected.split(" ... "))), text, re.DOTALL) is not None


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "recipes_for_data.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPECTED)
def test_every_row_is_counted_and_what_is_trained_is_what_the_file_says(name: str, shared_data: Path) -> None:
    read, left_out, row, text = EXPECTED[name]
    made = outcome(name, shared_data)
    assert made.dataset.ledger.as_dict() == {"read": read, "used": read - sum(left_out.values()), **left_out}
    assert reads(made.trained(row), text), made.trained(row)


@pytest.mark.parametrize("name", REJECTED)
def test_the_other_side_of_a_pair_is_the_files(name: str, shared_data: Path) -> None:
    row, text = REJECTED[name]
    trained = outcome(name, shared_data).trained(row, side="rejected")
    assert reads(trained, text), trained


def test_labels_and_kept_columns_are_the_files(shared_data: Path) -> None:
    assert outcome("kto", shared_data).dataset[116]["desirable"] is False
    assert outcome("kto", shared_data).dataset[0]["desirable"] is True
    assert outcome("mt_bench", shared_data).dataset[35]["columns"] == {"question_id": 116, "category": "math"}
    assert outcome("ifeval", shared_data).dataset[109]["columns"] == {
        "key": 1593,
        "instruction_id_list": ["change_case:english_lowercase"],
        "kwargs": [{}],
    }


def test_rows_that_are_left_out_are_named(shared_data: Path) -> None:
    assert outcome("openai_dirty", shared_data).dataset.ledger.examples == {"too_long": (4,), "bad_role_order": (3,)}


def test_calls_under_a_name_of_their_own_are_refused_without_the_transform(shared_data: Path) -> None:
    file = str(shared_data / "llamafactory" / "reason_think_inline.jsonl")
    dataset = messages_dataset(TOOL.tokenizer(shared_data), source=file, cache=True, on_error="skip")
    assert isinstance(dataset, StoredDataset)
    assert dataset.ledger.as_dict() == {"read": 32, "used": 7, "bad_message": 25}


def test_of_the_right_values_of_an_argument_the_first_is_taken_and_an_empty_one_leaves_it_out() -> None:
    first_of = runpy.run_path(str(TOOL.CONFIGS / "my_rows.py"))["first_of"]
    assert first_of({"a": [3, 4], "b": ["", "m"], "c": [{"d": [1], "e": [""]}], "f": [[{"g": ["x"]}]]}) == {
        "a": 3,
        "c": {"d": 1},
        "f": [{"g": "x"}],
    }


def test_each_answer_of_a_tree_is_a_conversation_with_all_that_led_to_it(tmp_path: Path, shared_data: Path) -> None:
    tree = [
        ("q", None, "prompter", "1 + 1?"),
        ("a", "q", "assistant", "2"),
        ("b", "q", "assistant", "Two."),
        ("c", "b", "prompter", "And 1 more?"),
        ("d", "c", "assistant", "3"),
    ]
    keys = ("task_message_id", "parent_message_id", "role", "text")
    file = tmp_path / "tree.json"
    file.write_text(json.dumps([dict(zip(keys, row, strict=True)) for row in tree]), encoding="utf-8")
    threads = runpy.run_path(str(TOOL.CONFIGS / "my_rows.py"))["threads"]
    tokenizer = TOOL.tokenizer(shared_data)
    dataset = messages_dataset(tokenizer, source=threads(str(file)))
    trained = [[token for token in sample["labels"] if token != -100] for sample in dataset]
    texts = [tokenizer.decode(ids, truncate_at_eos=False, skip_special_tokens=False) for ids in trained]
    assert texts == [f"2{END}", f"Two.{END}3{END}"]


def test_each_config_is_on_the_page_once_and_is_tested(page: str) -> None:
    names = TOOL.names_on(page)
    assert len(names) == len(set(names))
    assert set(names) == set(EXPECTED) == {path.stem for path in TOOL.CONFIGS.glob("*.yaml")}
    assert page.count("```yaml") == len(names)


def test_the_pages_configs_and_table_are_those_of_the_files(page: str, shared_data: Path) -> None:
    made = [outcome(name, shared_data) for name in TOOL.names_on(page)]
    assert TOOL.page_with(page, made) == page, "Write the page anew: python tools/data_recipes.py DATA"


def test_the_pages_code_is_the_modules_and_each_piece_is_short(page: str) -> None:
    module = (TOOL.CONFIGS / "my_rows.py").read_text(encoding="utf-8")
    pieces = [piece for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) for piece in block.split("\n\n\n")]
    for piece in pieces:
        assert piece.strip() in module
        assert len([line for line in piece.splitlines() if line]) < 10
    told = '"""Transforms, sources and filters of one\'s own, as docs/recipes_for_data.md shows them."""\n\n'
    assert sorted(map(str.strip, pieces)) == sorted(map(str.strip, module.removeprefix(told).split("\n\n\n")))


def test_each_kind_of_data_set_has_the_collate_function_that_the_page_names(page: str) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    other = [turns[0], {"role": "assistant", "content": "What?"}]
    chats: Any = [{"messages": turns, "prompt": turns[:1], "label": True, "chosen": turns, "rejected": other}]
    tokenizer = tiny_tokenizer(max_seq_len=64)
    openai: Any = {"conversation_column": "messages", "conversation_style": "openai"}
    made = {
        "padded_collate_sft": (chat_dataset(tokenizer, source=chats, **openai), ["tokens", "labels"]),
        "padded_collate_packed": (
            chat_dataset(tokenizer, source=chats, packed=True, **openai),
            ["tokens", "labels", "input_pos", "mask"],
        ),
        "padded_collate_dpo": (preference_dataset(tokenizer, source=chats), None),
        "padded_collate_packed_pairs": (
            preference_dataset(tokenizer, source=chats, packed=True),
            ["tokens", "labels", "input_pos", "mask", "documents", "num_pairs"],
        ),
        "padded_collate_kto": (kto_dataset(tokenizer, source=chats), ["tokens", "labels", "desirable"]),
        "padded_collate_prompts": (
            prompt_dataset(tokenizer, source=chats, keep_columns=["label"]),
            ["tokens", "input_pos", "prompt_lens", "columns"],
        ),
    }
    section = page[page.index("## In a DataLoader") : page.index("## What became of every row")]
    assert re.findall(r"\| `(padded_collate_\w+)` \|", section) == list(made)
    for name, (dataset, keys) in made.items():
        (batch,) = DataLoader(dataset, collate_fn=getattr(torchpipe.data, name))
        assert isinstance(batch, tuple) if keys is None else sorted(batch) == sorted(keys), name
