"""The rows of the table that are about building a token store: tokenising and packing."""

from functools import partial

from bench import Bench
from report import Result

ROWS = 4000
"""Of the chats, so many are tokenised for the rates of one thread."""

_SAME = "Llama 3's published ranks; a fresh process each, whose imports, tokenizer and opening of the file don't count"


def store_rows(bench: Bench) -> list[Result]:
    """Rows to tokens and labels, on one thread."""
    measures = {
        way: partial(bench.run, package, "store_rows.py", way, bench.store_inputs, str(ROWS))
        for way, package in {
            "torchpipe": "torchpipe",
            "torchpipe-arrow": "torchpipe",
            "tiktoken": "torchpipe",
            "torchtune": "torchtune",
            "trl": "trl",
        }.items()
    }

    def against_limit(runs: list[list[dict[str, float]]]) -> list[Result]:
        from_memory, from_arrow, raw = ([run["seconds"] for run in some] for some in runs)
        note = (
            f"CPU time over that of tiktoken's encode_ordinary on the same texts, message by message; {ROWS:,} chats, "
            f"{runs[0][0]['tokens']:,} tokens with control tokens, {runs[2][0]['tokens']:,} without; {_SAME}."
        )
        what = "rows to tokens and labels over raw tiktoken, CPU seconds"
        return [
            Result(
                what=what,
                ours=from_memory,
                theirs=raw,
                higher_is_better=False,
                goal=1.15,
                note=f"Messages in memory, as for tiktoken, to a shard's arrays. {note}",
            ),
            Result(
                what=f"{what}, rows read by datasets",
                ours=from_arrow,
                theirs=raw,
                higher_is_better=False,
                goal=None,
                note=f"The same, its rows read out of Arrow too, which tiktoken does not do. {note}",
            ),
        ]

    def against(peer: str, goal: float, remark: str, runs: list[list[dict[str, float]]]) -> list[Result]:
        rates = [[run["tokens"] / run["seconds"] / 1e6 for run in some] for some in runs]
        return [
            Result(
                what=f"rows to tokens and labels, million tokens/s, against {peer}",
                ours=rates[0],
                theirs=rates[1],
                higher_is_better=True,
                goal=goal,
                note=f"Both read the rows by datasets; {ROWS:,} chats, CPU time. {remark} {_SAME}.",
            )
        ]

    results = bench.compare([measures[way] for way in ("torchpipe", "torchpipe-arrow", "tiktoken")], against_limit)
    for peer, goal, remark in (
        ("torchtune", 2.6, "torchtune's SFTDataset, the same tokens."),
        ("trl", 11, "TRL's preparation with assistant masks up to its labels column, a process of its own;"),
    ):
        pair = [measures["torchpipe-arrow"], measures[peer]]
        results += bench.compare(pair, partial(against, peer, goal, remark))
    return results


def store_build(bench: Bench) -> list[Result]:
    """The first build, with two processes."""
    num_rows = str(bench.num_chats)
    ours = partial(bench.run, "torchpipe", "store_build.py", "torchpipe", bench.store_inputs, num_rows)

    def against(peer: str, goal: float, remark: str, runs: list[list[dict[str, float]]]) -> list[Result]:
        return [
            Result(
                what=f"first build of {bench.num_chats:,} chats, {clock} seconds, {peer} over torchpipe",
                ours=[run[clock] for run in runs[1]],
                theirs=[run[clock] for run in runs[0]],
                higher_is_better=True,
                goal=goal,
                note=f"From the file to packs at 4,096: torchpipe's store on the disk and its plan, in two processes. "
                f"{remark} {'CPU time of all processes' if clock == 'cpu' else 'Wall time'}, without imports. The "
                "goals are set for 50,000 chats; TORCHPIPE_BENCH_ROWS says how many are taken.",
            )
            for clock in ("wall", "cpu")
        ]

    results = []
    for peer, goal, remark in (
        ("torchtune", 4, "torchtune's PackedDataset has no parallel path: it is one process, and all packs in memory."),
        ("trl", 6, "TRL prepares and packs (bfd) with dataset_num_proc=2."),
    ):
        theirs = partial(bench.run, peer, "store_build.py", peer, bench.store_inputs, num_rows)
        results += bench.compare([ours, theirs], partial(against, peer, goal, remark))
    return results


def store_pack(bench: Bench) -> list[Result]:
    """Packs of samples that are tokenised already."""
    peers = {"torchtune": ("torchtune", 20), "trl": ("trl", 4), "grain": ("torchpipe", 8)}
    forms = {
        "torchtune": "PackedDataset over lists of integers, tensors at the end",
        "trl": 'pack_dataset "bfd" over an Arrow table in memory, Arrow at the end, in its map batches of 1,000',
        "grain": "FirstFitPackIterDataset, 64 bins, over numpy arrays in memory",
    }

    def against(peer: str, goal: float, runs: list[list[dict[str, float]]]) -> list[Result]:
        held, read, plan, theirs, *theirs_read = (
            [run["tokens"] / run["seconds"] / 1e6 for run in some] for some in runs
        )
        note = (
            f"{runs[0][0]['tokens']:,} tokens of chats at 4,096, CPU time; fill {runs[0][0]['fill']:.4f}, theirs "
            f"{runs[3][0]['fill']:.4f}. Theirs: {forms[peer]}."
        )
        lets_go = "which lets go of them too" if theirs_read else "which holds all packs: it has no other way"
        return [
            Result(
                what=f"pack tokenised samples, all packs held, million tokens/s, against {peer}",
                ours=held,
                theirs=theirs,
                higher_is_better=True,
                goal=goal,
                note="torchpipe plans and gathers all packs from its store into int64 tensors in memory, 24 bytes a "
                f"token; fresh memory takes about half of the time. {note}",
            ),
            Result(
                what=f"the same, packs let go once read, against {peer}",
                ours=read,
                theirs=theirs_read[0] if theirs_read else theirs,
                higher_is_better=True,
                goal=None,
                note="torchpipe makes the same tensors, 16 packs at a time, and lets go of them as training does; "
                f"against {peer}, {lets_go}. {note}",
            ),
            Result(
                what=f"the same, torchpipe's plan only, against {peer}",
                ours=plan,
                theirs=theirs,
                higher_is_better=True,
                goal=None,
                note=f"The plan is all that torchpipe makes before training; packs are read later. {note}",
            ),
        ]

    results = []
    for peer, (environment, goal) in peers.items():
        ways = [*(("torchpipe", way) for way in ("torchpipe", "torchpipe-read", "plan")), (environment, peer)]
        if peer == "grain":
            ways.append((environment, "grain-read"))
        measures = [partial(bench.run, package, "store_pack.py", way, bench.store_inputs) for package, way in ways]
        results += bench.compare(measures, partial(against, peer, goal))
    return results
