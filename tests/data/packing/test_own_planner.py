"""A user's own planner, named by its dotted path, and what is said of one that is wrong."""

from pathlib import Path

import numpy as np
import pytest

from torchpipe.data.packing import PackPlan, Span, pack_planner, plan_packs
from torchpipe.errors import ConfigError, InstantiationError

PLANNERS = '''
import numpy as np
from torchpipe.data.packing import PackPlan, Span

class OneEach:
    """A pack a sample."""

    def __init__(self, capacity):
        self.capacity = capacity

    def push(self, sample, num_tokens):
        return [[Span(sample, 0, num_tokens)]]

    def flush(self):
        return []

def factory(capacity):
    return OneEach(capacity)

def halves(lengths, capacity):
    """A planner that cuts samples in two."""
    cut = [(i, n // 2, n) for i, n in enumerate(lengths.tolist())]
    spans = [Span(i, a, b) for i, m, n in cut for a, b in ((0, m), (m, n)) if b > a]
    return PackPlan.from_packs([span] for span in spans)

def by_pack(packs):
    return lambda lengths, capacity: PackPlan.from_packs(packs)

forgets = by_pack([[Span(0, 0, 3)]])
doubles = by_pack([[Span(0, 0, 3), Span(1, 0, 4)], [Span(0, 0, 3)]])
tears = by_pack([[Span(0, 0, 1), Span(0, 2, 3), Span(1, 0, 4)]])
empties = by_pack([[], [Span(0, 0, 3)], [Span(1, 0, 4)]])
invents = by_pack([[Span(0, 0, 3), Span(1, 0, 4)], [Span(2, 0, 1)]])
shortens = by_pack([[Span(0, 0, 3)], [Span(1, 0, 3)]])
overfills = by_pack([[Span(0, 0, 3), Span(1, 0, 4)]])

def lists(lengths, capacity):
    return [[Span(0, 0, 3)]]

def nothing(capacity):
    return capacity

class Wrong(OneEach):
    def push(self, sample, num_tokens):
        return [sample]

class Silent(OneEach):
    def push(self, sample, num_tokens):
        return None

class Vast(OneEach):
    def push(self, sample, num_tokens):
        return [[Span(2**70, 0, num_tokens)]]

def made(sample, start, stop, offsets):
    return PackPlan(
        sample=sample, start=start, stop=stop, pack_offsets=offsets, pack_lens=np.full(2, 6), num_samples=2,
        num_truncated=0, left_out={},
    )

def ragged(lengths, capacity):
    return made(np.arange(2), np.zeros(1, np.int64), lengths, np.arange(3))

number = 3

def three(a, b, c):
    return None
'''


@pytest.fixture
def planners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"planners_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(PLANNERS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def packs_of(plan: PackPlan) -> list[list[tuple[int, int, int]]]:
    return [[(s.sample, s.start, s.stop) for s in plan.spans(k)] for k in range(len(plan))]


@pytest.mark.parametrize("name", ["OneEach", "factory"])
def test_a_class_or_a_factory_plans(planners: str, name: str) -> None:
    plan = plan_packs([3, 0, 4], 6, strategy=f"{planners}.{name}")
    assert packs_of(plan) == [[(0, 0, 3)], [(2, 0, 4)]]
    assert plan.pack_lens.tolist() == [6, 6]
    assert pack_planner(f"{planners}.{name}", 6).push(7, 2) == [[Span(7, 0, 2)]]


def test_a_function_of_lengths_plans_and_may_cut(planners: str) -> None:
    plan = plan_packs([3, 0, 4, 9], 6, strategy=f"{planners}.halves", overflow="split")
    assert packs_of(plan)[:4] == [[(0, 0, 1)], [(0, 1, 3)], [(2, 0, 2)], [(2, 2, 4)]]
    assert packs_of(plan)[4:] == [[(3, 0, 3)], [(3, 3, 6)], [(3, 6, 7)], [(3, 7, 9)]]
    plan.check([3, 0, 4, 9])
    with pytest.raises(ConfigError, match="plans all lengths at once. Use plan_packs"):
        pack_planner(f"{planners}.halves", 6)
    with pytest.raises(ConfigError, match="the members of a group can't be cut"):
        plan_packs([3, 4], 7, strategy=f"{planners}.halves", group=[0, 0])


def test_a_seed_and_groups_reach_it_as_other_lengths(planners: str) -> None:
    plan = plan_packs(np.arange(1, 50), 200, strategy=f"{planners}.OneEach", seed=3, group=np.arange(49) // 2)
    plan.check(np.arange(1, 50))
    assert {tuple(s for s, _, _ in pack) for pack in packs_of(plan)} == {(48,), *((i, i + 1) for i in range(0, 48, 2))}
    assert packs_of(plan)[0][0][0] != 0


def test_a_callable_is_as_good_as_its_path() -> None:
    packs = [[Span(0, 0, 3)], [Span(1, 0, 4)]]
    plan = plan_packs([3, 4], 6, strategy=lambda lengths, capacity: PackPlan.from_packs(packs))
    assert packs_of(plan) == [[(0, 0, 3)], [(1, 0, 4)]]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("forgets", "sample 1 has 4 tokens, and packs hold 0 of them"),
        ("doubles", "tokens of sample 0 from 0 on are more than once"),
        ("tears", "tokens of sample 0 from 1 on are in no pack"),
        ("empties", "pack 0 is empty"),
        ("invents", "sample 2 is in a pack, and samples are numbered from 0 to 1"),
        ("shortens", "sample 1 has 4 tokens, and packs hold 3 of them"),
        ("overfills", "pack 0 holds tokens of 7, and it may hold 6"),
        ("lists", "returns a PackPlan .* and this one returned a list"),
        ("nothing", "gave a int without push and flush"),
        ("Wrong", r"push and flush return lists of packs, each a list of Span.* one of them was 0"),
        ("Silent", r"push and flush return lists of packs.* one returned None. Return \[\] for no pack"),
        ("Vast", r"one of them was .*a number has more than 64 bits"),
        ("ragged", r"the plan's start is int64 \[1\], and has to be whole numbers in one axis"),
        ("number", "is a int, which can't be called"),
        ("three", "can't be called with a capacity"),
    ],
)
def test_a_planner_that_is_wrong_is_refused(planners: str, name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"strategy {planners}.{name}.* ?{sentence}"):
        plan_packs([3, 4], 6, strategy=f"{planners}.{name}")


def test_caps_are_checked_and_not_kept_for_it(planners: str) -> None:
    packs = [[Span(0, 0, 3), Span(1, 0, 3)]]
    with pytest.raises(ConfigError, match="pack 0 holds documents of 2, and it may hold 1"):
        plan_packs([3, 3], 6, strategy=lambda lengths, capacity: PackPlan.from_packs(packs), max_documents=1)
    with pytest.raises(ConfigError, match="max_documents has no effect on your own planner"):
        pack_planner(f"{planners}.OneEach", 6, max_documents=2)


def test_a_path_that_leads_nowhere_is_refused(planners: str) -> None:
    with pytest.raises(InstantiationError, match="has no 'OneEech'. Did you mean 'OneEach'"):
        plan_packs([3], 6, strategy=f"{planners}.OneEech")
