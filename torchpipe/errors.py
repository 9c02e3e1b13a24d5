"""The package's exceptions. Each also inherits the builtin it stands for, so ``except ValueError`` keeps working.

A message is one sentence or two: what is wrong, what was given, what to do. Where a row, file or key path is known it
comes first.
"""


class TorchpipeError(Exception):
    """Base of every error that torchpipe raises on purpose."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; ours are sentences.
        return str(self.args[0]) if self.args else ""


class DataError(TorchpipeError, ValueError):
    """A row, message or sample is not what the next step needs.

    Args:
        reason: under which reason a ledger counts the row, where it is left out for this error (``on_error``): one of
            :data:`torchpipe.data.ledger.Reason`. None: the class's own.

    Attributes:
        reason: of the error.

    >>> DataError("Column 'answer' is empty.", reason="empty").reason, DataError("Something else.").reason
    ('empty', 'error')
    """

    reason: str = "error"

    def __init__(self, *args: object, reason: str | None = None) -> None:
        super().__init__(*args)
        if reason is not None:
            self.reason = reason


class ColumnError(DataError, KeyError):
    """A row lacks a column that was asked for, or holds something of another kind in it."""

    reason = "bad_columns"


class MessageError(DataError):
    """A turn, a part of one, or a call in it is not what a message is made of."""

    reason = "bad_message"


class MediaError(DataError, RuntimeError):
    """A row's images and the places for them in its text don't belong together."""

    reason = "media_mismatch"


class PictureError(DataError):
    """A picture of a row can't be read or decoded."""

    reason = "bad_media"


class UnwritableError(DataError):
    """A row holds what a chat format, or its tokenizer, has no place for."""

    reason = "unwritable"


class SourceError(TorchpipeError, OSError):
    """A file or data set can't be read."""


class MissingFileError(SourceError, FileNotFoundError):
    """A file isn't there, or nothing matches a pattern."""


class MalformedRow(SourceError, DataError):  # noqa: N818  # what it is of, beside SourceError
    """One row of a file can't be read as it is written; the rows around it can.

    Attributes:
        path: what the user calls the file.
        line: of the file, from 1: where the row is wrong.
        column: of that line, in characters from 1, where it is known.
        offset: in bytes of the file (as inflated), from 0: where the row is wrong, or where it starts.
        text: what is written there instead of the row.
        reason: under which such rows are counted.
    """

    path: str = ""
    line: int = 0
    column: int | None = None
    offset: int = 0
    text: str = ""
    reason = "malformed_json"


class StoreError(TorchpipeError, OSError):
    """A token store can't be written, or what is on the disk is not what was written."""


class TokenizerError(TorchpipeError, ValueError):
    """A tokenizer file or a set of control tokens can't be used."""


class RenderError(UnwritableError, TokenizerError):
    """A tokenizer, or a model's own chat template, can't write a row: it has no tokens for a text, or refuses it."""


class CheckpointError(TorchpipeError, RuntimeError):
    """A checkpoint is missing, damaged, or does not belong to this run."""


class LoaderStateError(CheckpointError, ValueError):
    """A loader's state can't be gone on from: it is damaged, or of other data."""


class DistributedError(TorchpipeError, RuntimeError):
    """The processes that train together don't, or can't, do the same."""


class ConfigError(TorchpipeError, ValueError):
    """A config or an argument can't be used as it is."""


class KindError(ConfigError, TypeError):
    """Something of another kind was given than is asked for."""


class MissingLibraryError(TorchpipeError, ImportError):
    """Something needs a library that is not installed."""


class NonFiniteLossError(TorchpipeError, FloatingPointError):
    """The loss of a step is not a number, or infinite."""


class NoFingerprint(TorchpipeError, TypeError):  # noqa: N818  # it is an answer, and mostly caught
    """A value can't be told from another one that behaves differently, so nothing can be stored under its key."""


class InstantiationError(ConfigError):
    """A ``_component_`` can't be found, is refused, or can't be called as written."""


def located(error: Exception, where: str) -> Exception:
    """The error itself, with ``where`` (a row and its file, a key path) in front of its sentence.

    Any error that is not ours gets a note instead. The user's own exception type and traceback stay either way, but
    for a StopIteration, which would end an iteration without a word: it becomes a RuntimeError, as in generators.
    """
    if isinstance(error, StopIteration):
        stopped, error = error, RuntimeError("a function of one row raised StopIteration")
        error.__cause__ = stopped
        error.add_note(where)
        return error
    if isinstance(error, TorchpipeError):
        error.args = (f"{where}: {error}", *error.args[1:])
        return error
    error.add_note(f"{where}: raised {type(error).__name__} ({error})")
    return error
