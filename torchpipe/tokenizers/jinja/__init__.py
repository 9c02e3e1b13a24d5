"""Chat templates in jinja: rendered in a sandbox, and traced, so that each character's origin is known.

``text`` holds the strings that know their origin, ``environment`` the two sandboxes (plain and traced), and
``template`` the compiled template. jinja2 is loaded with those two, not with this package.
"""

from torchpipe.tokenizers.jinja.text import TEMPLATE, UNKNOWN, Mark, Run, Source, TracedText, joined, mark_text

__all__ = ["TEMPLATE", "UNKNOWN", "Mark", "Run", "Source", "TracedText", "joined", "mark_text"]
