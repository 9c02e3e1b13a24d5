"""Rows of text and pictures: their processor, their collator, and positions with three counters."""

__all__: list[str] = []
