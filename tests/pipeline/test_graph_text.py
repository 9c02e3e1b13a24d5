"""What decides the rows stays a short text of a state, and what differs is told by its name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import LoaderStateError
from torchpipe.pipeline.graph_text import ROOM, differences, graph_text, leaf_text
from torchpipe.pipeline.state import STATE_VERSION, checked_state

SETTINGS = {"seed": "42", "shuffle": "True", "capacity": "4096", "max_context_length": "4096"}
SIZES = [1, 3, 10, 30, 100, 300]


def graph_of(number: int, **nodes: str) -> dict[str, str]:
    """A graph of so many sources, beside some nodes."""
    sources = {f"source {k}": leaf(f"{k:012x}") for k in range(number)}
    return {**SETTINGS, "DatasetMixConfig": "mixes 5d41402a", **sources, **nodes}


def leaf(samples: str, **parts: str) -> str:
    return leaf_text({"samples": samples, "source": "ab12cd", "processing": "98fe76", "tokenizer": "1a2b3c", **parts})


@pytest.mark.parametrize("number", SIZES)
def test_a_text_is_short_and_of_its_graph_alone(number: int) -> None:
    graph = graph_of(number)
    text = graph_text(graph)
    assert len(json.dumps(text)) <= ROOM
    state = {"version": 2, "way": "planned", "epoch": 10**6, "row": 10**12, "graph": text}
    assert len(json.dumps({**state, "steps": 10**9, "global_batch_size": 10**6})) < 1024
    assert differences(text, graph) == []
    assert differences(text, {**graph, "source 0": leaf("f" * 12)})


@pytest.mark.parametrize("number", [3, 30, 100])
def test_what_differs_is_told_by_its_name(number: int) -> None:
    text = graph_text(graph_of(number))
    changed = graph_of(number, **{"source 2": leaf("f" * 12), "one more": leaf("e" * 12)})
    found = differences(text, {**changed, "seed": "7"})
    assert [sentence for sentence in found if "source 2 " not in sentence] == (
        ["one more is new", "seed was 42 and is 7"] if number == 3 else ["seed was 42 and is 7", "one more is new"]
    )
    assert any(sentence.startswith("source 2 changed") for sentence in found)


@pytest.mark.parametrize(("number", "told"), [(3, "source 1 is gone"), (30, "1 node is gone")])
def test_what_is_gone_is_told(number: int, told: str) -> None:
    graph = graph_of(number)
    without = {name: value for name, value in graph.items() if name != "source 1"}
    assert differences(graph_text(graph), without) == [told]


def test_several_that_are_gone_are_counted() -> None:
    assert differences(graph_text(graph_of(40)), graph_of(37)) == ["3 nodes are gone"]


@pytest.mark.parametrize("number", [3, 30, 300])
def test_samples_that_are_made_otherwise_and_are_the_same_do_not_differ(number: int) -> None:
    text = graph_text(graph_of(number))
    assert differences(text, graph_of(number, **{"source 1": leaf(f"{1:012x}", processing="000000")})) == []


@pytest.mark.parametrize("number", [3, 30])
def test_what_is_allowed_to_differ_is_not_told_and_the_rest_is(number: int) -> None:
    changed = graph_of(number, **{"source 1": leaf("f" * 12), "source 2": leaf("e" * 12)})
    text = graph_text(graph_of(number))
    assert [each.split(" changed")[0] for each in differences(text, changed, allowed=["source 1"])] == ["source 2"]
    assert differences(text, changed, allowed=["source 1", "source 2"]) == []


def test_of_more_nodes_than_a_state_can_tell_apart_all_have_to_be_allowed() -> None:
    graph = graph_of(300)
    text, changed = graph_text(graph), {**graph, "source 1": leaf("f" * 12)}
    told = "a node differs, of 301, too many to know them by name"
    assert differences(text, changed) == differences(text, changed, allowed=["source 1"]) == [told]
    assert differences(text, changed, allowed=list(graph)) == []
    assert differences(text, {**graph, "seed": "3"}) == ["seed was 42 and is 3"]


def test_marks_that_are_alike_by_chance_hide_no_change() -> None:
    text = graph_text(graph_of(30))
    settings, _, marks = json.loads(text)
    assert differences(json.dumps([settings, "of others", marks]), graph_of(30)) == ["a node differs"]


@given(st.dictionaries(st.text(max_size=40), st.text(max_size=60), max_size=40))
def test_any_graph_is_equal_to_itself(nodes: dict[str, str]) -> None:
    graph = {**nodes, **SETTINGS}
    text = graph_text(graph)
    assert len(json.dumps(text)) <= ROOM
    assert differences(text, graph) == []


@pytest.mark.parametrize("text", ["3", "[]", '[{}, 3, ""]', '["a", "b", "c"]', '{"a', None])
def test_another_text_is_a_sentence(text: object) -> None:
    state = {"version": STATE_VERSION, "way": "planned", "graph": text}
    with pytest.raises(LoaderStateError, match="has graph .*, which can't be read. Start anew."):
        checked_state(state, graph_of(1), way="planned", allow_changed=())
