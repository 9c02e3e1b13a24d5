"""The ``torchpipe`` command."""
