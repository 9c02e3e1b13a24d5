"""``torchpipe store``: the tokenised samples that are kept on the disk."""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from torchpipe._sentences import printable
from torchpipe._suggest import did_you_mean
from torchpipe.errors import ConfigError
from torchpipe.store.cache_dir import stores_folder
from torchpipe.store.inventory import StoreEntry, entry_of, list_stores, prune, remove_leftovers, to_prune
from torchpipe.store.verify import problems_of

_SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}
_MAX_FIELD = 100
"""Characters of a key's field that ``ls`` shows."""


_HASH = re.compile(r"[0-9a-f]{32}")


def main(argv: Sequence[str]) -> int:
    """Run one of ls, verify and prune; 0, 1 where a store is damaged, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(
        prog="torchpipe store", description="The tokenised samples that are kept on the disk.", allow_abbrev=False
    )
    # Shared by the three, and written behind the command's name.
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--cache-dir",
        metavar="DIR",
        help="cache_dir of the config; else $TORCHPIPE_CACHE, $XDG_CACHE_HOME/torchpipe or ~/.cache/torchpipe",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="{ls,verify,prune}")
    listing = commands.add_parser("ls", parents=[common], help="list them: size, last use, and what became of the rows")
    listing.add_argument("--long", action="store_true", help="with every field of what they were made of, hashes too")
    verify = commands.add_parser("verify", parents=[common], help="read them whole and compare the checksums")
    verify.add_argument("stores", nargs="*", metavar="STORE", help="a store's folder or name, or the name's start")
    pruning = commands.add_parser("prune", parents=[common], help="remove those that an option names, if not in use")
    pruning.add_argument("--unfinished", action="store_true", help="whose building was stopped")
    pruning.add_argument("--damaged", action="store_true", help="that are not what was written; reads all of them")
    pruning.add_argument("--older-than", type=_seconds, metavar="TIME", help="not used for so long: 12h, 30d, 8w")
    pruning.add_argument("--keep-bytes", type=_bytes, metavar="SIZE", help="all but the last used of this size: 50G")
    pruning.add_argument("--dry-run", action="store_true", help="remove nothing; show what would be")
    options = parser.parse_args(argv)
    stores = stores_folder(options.cache_dir)
    if options.command == "ls":
        return _ls(stores, every_field=options.long)
    if options.command == "verify":
        return _verify(stores, options.stores)
    if not (options.unfinished or options.damaged or options.older_than is not None or options.keep_bytes is not None):
        pruning.error("say which: --unfinished, --damaged, --older-than TIME or --keep-bytes SIZE")
    return _prune(stores, options)


def described(entry: StoreEntry, *, every_field: bool = False) -> str:
    """A few lines on one store: its state, what is in it, its size and last use, and what it was made of.

    Args:
        entry: the store.
        every_field: True names fields too of which only a hash is known.
    """
    used = datetime.fromtimestamp(entry.last_used).strftime("%Y-%m-%d %H:%M")
    parts = [entry.state]
    if entry.manifest is not None:
        parts.append(f"{entry.manifest.num_samples:,} samples, {entry.manifest.num_tokens:,} tokens")
    parts += [sized(entry.size), f"last used {used}"]
    lines = [f"{entry.folder.name}  {'; '.join(parts)}"]
    if entry.problem:
        lines.append(f"    {entry.problem}")
    if entry.manifest is not None and entry.manifest.ledger:
        counts = ", ".join(f"{count:,} {name}" for name, count in entry.manifest.ledger.items() if count)
        lines.append(f"    rows: {counts}")
    told = {name: value for name, value in entry.key.items() if every_field or not _HASH.fullmatch(str(value))}
    lines += [f"    {name}: {_shortened(value)}" for name, value in sorted(told.items())]
    if entry.other_libraries:
        others = ", ".join(f"{name} {version}" for name, version in sorted(entry.other_libraries.items()))
        lines.append(f"    built with another version than is installed: {others}")
    return "\n".join(lines)


def sized(num_bytes: int) -> str:
    """A size to read, three digits.

    >>> sized(999), sized(4_185_000_000)
    ('999 B', '4.18 GB')
    """
    value, unit = float(num_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"


def _ls(stores: Path, *, every_field: bool) -> int:
    entries = list_stores(stores)
    for entry in entries:
        print(described(entry, every_field=every_field))
    print(f"{stores}: {len(entries)} store{'' if len(entries) == 1 else 's'}, {sized(sum(e.size for e in entries))}")
    return 0


def _verify(stores: Path, names: Sequence[str]) -> int:
    entries = [_find(stores, name) for name in names] or [e for e in list_stores(stores) if e.state != "unfinished"]
    damaged = 0
    for entry in entries:
        problems = list(problems_of(entry.folder))
        damaged += bool(problems)
        for problem in problems:
            print(printable(problem), file=sys.stderr)
        if not problems:
            print(f"OK {entry.folder}: {sized(entry.size)} read, all as written")
    if not entries:
        print(f"{stores}: no finished stores")
    return 1 if damaged else 0


def _prune(stores: Path, options: argparse.Namespace) -> int:
    entries = list_stores(stores, read_all=options.damaged)
    chosen = to_prune(
        entries,
        unfinished=options.unfinished,
        damaged=options.damaged,
        unused_since=None if options.older_than is None else time.time() - options.older_than,
        keep_bytes=options.keep_bytes,
    )
    done = prune(chosen, dry_run=options.dry_run)
    if not options.dry_run:
        remove_leftovers(stores)
    did, freed = ("would remove", "to be freed") if options.dry_run else ("removed", "freed")
    for entry in done.removed:
        print(f"{did} {entry.folder.name} ({entry.state}, {sized(entry.size)})")
    for entry in done.in_use:
        print(f"kept {entry.folder.name}: it is in use")
    total = sized(sum(entry.size for entry in done.removed))
    print(f"{stores}: {total} {freed}, {len(entries) - len(done.removed)} left")
    return 0


def _find(stores: Path, name: str) -> StoreEntry:
    if name and Path(name).is_dir():
        return entry_of(Path(name))
    entries = list_stores(stores)
    found = [entry for entry in entries if entry.folder.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{name!r} is the start of {len(found)} stores' names. Give more of it.")
    near = did_you_mean(name, [entry.folder.name for entry in entries])
    raise ConfigError(f"There is no store {name!r} in {stores}, and no such folder.{near} See torchpipe store ls.")


def _shortened(value: object) -> str:
    text = printable(value)
    return text if len(text) <= _MAX_FIELD else f"{text[: _MAX_FIELD - 3]}..."


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmgt]?)b?", text.lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size. Write a number and k, M, G or T: 50G.")
    return int(float(found[1]) * _SIZES[found[2]])


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([hdw])", text.lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time. Write a number and h, d or w: 30d.")
    return float(found[1]) * _SECONDS[found[2]]
