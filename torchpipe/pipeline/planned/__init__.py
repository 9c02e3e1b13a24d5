"""Graphs that are planned: sources tokenised once, rows made of lengths alone, before a batch is read."""

__all__: list[str] = []
