"""Split expressions of byte-pair encoders, written so that the encoder's regex engine is faster with them.

tiktoken's engine hands what needs no look-around to an automaton, and follows the rest itself, step by step. An
expression of many alternatives of which one looks ahead, as all families' are, it follows itself, with a call of the
automaton for each alternative. Alternatives that stand together in a group go to the automaton as one.
"""

import re

_TOKEN = re.compile(
    r"""
      (?P<escape> \\ (?: [pP] (?: \{ [^}]* \} | [A-Z] ) | [dDsSwWnrtfv] | [^a-zA-Z0-9] ) )
    | (?P<set> \[ \^? (?: \\. | [^\]\[\\&~-] | -(?!-) )+ \] )
    | (?P<open> \( \? [ims]* : )
    | (?P<looks> \( \? (?: = | ! | <= | <! | > ) )
    | (?P<close> \) )
    | (?P<or> \| )
    | (?P<times> (?: [*+?] | \{ \d+ ,? \d* \} ) \?? (?P<possessive> \+ )? )
    | (?P<text> [^\\\[\]()|*+?{}\#^$\s] | [ ] )
    """,
    re.VERBOSE,
)


def grouped(pattern: str) -> str:
    """The same expression with neighbouring alternatives in a group of their own, where none of them looks around.

    ``a|b|c(?!d)`` and ``(?:a|b)|c(?!d)`` find the same everywhere: the first alternative that matches counts, in both.
    An expression with anything in it that could see the group (captures, references, flags for all that follows), or
    that isn't understood here, comes back as it is.

    >>> grouped(r"\\p{L}+|\\p{N}|\\s+(?!\\S)|\\s+")
    '(?:\\\\p{L}+|\\\\p{N})|\\\\s+(?!\\\\S)|\\\\s+'
    """
    alternatives = _alternatives(pattern)
    if alternatives is None or all(is_plain for _, is_plain in alternatives):
        return pattern
    runs: list[list[str]] = []
    open_run = False
    for text, is_plain in alternatives:
        if is_plain and open_run:
            runs[-1].append(text)
        else:
            runs.append([text])
        open_run = is_plain
    return "|".join(f"(?:{'|'.join(run)})" if len(run) > 1 else run[0] for run in runs)


def _alternatives(pattern: str) -> list[tuple[str, bool]] | None:
    """The alternatives of an expression and whether the automaton knows all in them; None: it isn't understood."""
    found: list[tuple[str, bool]] = []
    at = start = depth = 0
    is_plain = True
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        kind, at = token.lastgroup, token.end()
        if kind == "or" and not depth:
            found.append((pattern[start : token.start()], is_plain))
            start, is_plain = at, True
        elif kind in ("open", "looks"):
            depth += 1
        elif kind == "close":
            depth -= 1
        is_plain = is_plain and kind != "looks" and not token["possessive"]
        if depth < 0:
            return None
    return None if depth else [*found, (pattern[start:], is_plain)]
