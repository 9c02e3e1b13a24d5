"""The ``torchpipe`` command."""

__all__: list[str] = []
