"""Graphs that Grain runs, row by row: streams, and processors that draw random numbers."""

__all__: list[str] = []
