"""What the sample chats promise to those who train, split and document with them."""

import json
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import torchpipe

SAMPLE = Path(torchpipe.__file__).parent / "assets" / "sample_chats.json"
CHATS: list[dict[str, Any]] = json.loads(SAMPLE.read_text(encoding="utf-8"))
HELD_OUT = CHATS[-(len(CHATS) // 10) :]
TOPICS = Counter(chat["topic"] for chat in CHATS)


def contents(role: str, chats: list[dict[str, Any]] = CHATS) -> list[str]:
    return [message["content"] for chat in chats for message in chat["messages"] if message["role"] == role]


def folded(text: str) -> str:
    return " ".join(text.split())


def main_script(chat: dict[str, Any]) -> str:
    """The script that most letters of the questions and answers are in, by the first word of a letter's name."""
    text = "".join(message["content"] for message in chat["messages"] if message["role"] != "system")
    return Counter(unicodedata.name(char).split()[0] for char in text if char.isalpha()).most_common(1)[0][0]


def test_there_are_at_least_210_chats_in_150_to_220_kilobytes():
    assert len(CHATS) >= 210
    assert 150_000 <= SAMPLE.stat().st_size <= 220_000


def test_every_row_has_a_topic_and_messages_and_nothing_else():
    assert all(list(chat) == ["topic", "messages"] for chat in CHATS)
    assert all(list(message) == ["role", "content"] for chat in CHATS for message in chat["messages"])


def test_at_least_eight_topics_share_the_chats_evenly():
    assert len(TOPICS) >= 8
    assert max(TOPICS.values()) <= 1.2 * min(TOPICS.values())


def test_roles_alternate_after_at_most_one_system_prompt_and_end_with_the_assistant():
    for index, chat in enumerate(CHATS):
        roles = [message["role"] for message in chat["messages"]]
        turns = roles[1:] if roles[0] == "system" else roles
        assert turns, f"row {index}"
        assert turns == ["user", "assistant"] * (len(turns) // 2), f"row {index}"


def test_no_message_is_empty_or_has_space_at_its_ends():
    texts = contents("system") + contents("user") + contents("assistant")
    assert all(text and text == text.strip() for text in texts)


def test_at_least_22_percent_have_two_to_four_user_turns():
    turns = [len(contents("user", [chat])) for chat in CHATS]
    assert sum(number > 1 for number in turns) / len(CHATS) >= 0.22
    assert set(turns) == {1, 2, 3, 4}


def test_about_a_quarter_have_one_of_a_dozen_system_prompts():
    prompts = contents("system")
    assert 0.20 <= len(prompts) / len(CHATS) <= 0.30
    assert len(set(prompts)) >= 12


def test_at_least_8_percent_of_the_answers_hold_fenced_code_in_several_languages():
    answers = contents("assistant")
    assert sum("```" in answer for answer in answers) / len(answers) >= 0.08
    languages = {language for answer in answers for language in re.findall(r"^```(\w+)$", answer, re.MULTILINE)}
    assert languages >= {"python", "bash", "sql", "json"}


def test_every_code_fence_is_closed():
    assert all(len(re.findall(r"^```", answer, re.MULTILINE)) % 2 == 0 for answer in contents("assistant"))


def test_python_code_compiles_and_json_parses():
    for answer in contents("assistant"):
        for language, code in re.findall(r"^```(\w+)\n(.*?)^```$", answer, re.MULTILINE | re.DOTALL):
            if language == "python":
                compile(code, "answer", "exec")
            if language == "json":
                json.loads(code)


def test_code_keeps_tabs_newlines_and_indentation():
    answers = contents("assistant")
    assert any("\n\tpython -m pytest" in answer for answer in answers)
    assert any("\n    for line in file:\n        counts.update" in answer for answer in answers)
    assert not any("\r" in text for text in answers + contents("user"))


def test_at_least_6_percent_are_in_other_scripts_than_latin():
    scripts = Counter(map(main_script, CHATS))
    assert (len(CHATS) - scripts["LATIN"]) / len(CHATS) >= 0.06
    assert set(scripts) >= {"LATIN", "CJK", "HIRAGANA", "HANGUL", "CYRILLIC", "ARABIC", "DEVANAGARI", "GREEK", "THAI"}


def test_accents_and_emoji_occur():
    text = "".join(contents("assistant"))
    assert set("éáüßãç") <= set(text)
    assert len(re.findall("[\U0001f300-\U0001faff]", text)) >= 5


def test_no_two_answers_are_the_same_and_no_two_chats_ask_the_same():
    answers = [folded(answer) for answer in contents("assistant")]
    assert len(set(answers)) == len(answers)
    questions = [folded(contents("user", [chat])[0]) for chat in CHATS]
    assert len(set(questions)) == len(questions)


def test_no_answer_of_the_last_tenth_is_nearly_one_of_the_rest():
    def words(answer: str) -> set[str]:
        return set(re.findall(r"\w+", answer.lower()))

    rest = [words(answer) for answer in contents("assistant", CHATS[: -len(HELD_OUT)])]
    for answer in contents("assistant", HELD_OUT):
        mine = words(answer)
        assert all(len(mine & other) < 0.5 * len(mine | other) for other in rest), answer


def test_the_last_tenth_holds_every_topic_and_kind():
    assert {chat["topic"] for chat in HELD_OUT} == set(TOPICS)
    assert contents("system", HELD_OUT)
    assert any(len(contents("user", [chat])) > 1 for chat in HELD_OUT)
    assert any("```" in answer for answer in contents("assistant", HELD_OUT))
    assert any(main_script(chat) != "LATIN" for chat in HELD_OUT)


def test_neighbours_have_different_topics():
    assert all(one["topic"] != other["topic"] for one, other in pairwise(CHATS))


@pytest.mark.parametrize("lookalike", ["<|eot_id|>", "<|begin_of_text|>", "[INST]", "{{name}}", "{% raw %}"])
def test_some_texts_look_like_control_tokens_or_placeholders(lookalike: str):
    assert any(lookalike in text for text in contents("user") + contents("assistant"))


def test_no_email_address_phone_number_or_web_address_occurs():
    text = "\n".join(contents("system") + contents("user") + contents("assistant"))
    assert not re.search(r"\w@\w|https?://|www\.", text)
    assert not re.search(r"\+\d[\d -]{6}|\(\d{3}\)|\b\d{3}[ -]\d{3,4}[ -]\d{3,4}\b", text)


def test_most_answers_are_one_to_six_sentences():
    prose = [re.sub(r"```.*?```", "", answer, flags=re.DOTALL) for answer in contents("assistant")]
    sentences = [len(re.findall(r"[.!?:。！？।]+[\"“”']?(?:\s|$)|[。！？।]", text)) for text in prose]
    assert sum(1 <= number <= 6 for number in sentences) / len(sentences) >= 0.9
