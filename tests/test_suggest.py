import torchpipe.models.llama3
import torchpipe.modules.transforms
from torchpipe._suggest import callables_of, did_you_mean, listed, misspelt


def test_the_nearest_name_is_suggested_in_its_own_spelling():
    assert did_you_mean("messags", ["Messages", "conversations"]) == " Did you mean 'Messages'?"


def test_nothing_is_suggested_when_nothing_is_near():
    assert did_you_mean("banana", ["user", "tool"]) == ""
    assert did_you_mean("user", []) == ""
    assert did_you_mean(None, ["user"]) == ""


def test_names_are_listed_in_quotes():
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([]) == "nothing"


def test_a_slip_of_the_keyboard_is_told_from_another_word() -> None:
    known = ["instruct_dataset", "chat_dataset", "alpaca_dataset", "AlpacaToMessages"]
    assert misspelt("intsruct_dataset", known) == " Did you mean 'instruct_dataset'?"
    assert misspelt("ChatDataset", known) == " Did you mean 'chat_dataset'?"
    assert misspelt("alpaca_cleaned_dataset", known) == ""
    assert misspelt("dpo_dataset", known) == ""


def test_names_with_other_numbers_are_other_things() -> None:
    assert misspelt("qwen2_0_5b", ["qwen2_1_5b"]) == misspelt("llama3_tokenizer", ["llama2_tokenizer"]) == ""


def test_callables_of_a_module_are_its_own() -> None:
    names = callables_of(torchpipe.models.llama3)
    assert {"llama3_8b", "llama3_tokenizer", "Llama3Tokenizer"} <= set(names)
    assert not {"LLAMA3_8B", "partial", "open_backend", "Mapping"} & set(names)
    assert set(callables_of(torchpipe.modules.transforms)) == set(torchpipe.modules.transforms.__all__)
