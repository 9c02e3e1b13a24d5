"""What a SentencePiece model file says, read and changed as bytes.

The fields are those of https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto, in protobuf's
wire format, where of a scalar given twice the last one counts: appending a field is setting it.
"""

from collections.abc import Iterator

_NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"  # ModelProto.normalizer_spec (3) { add_dummy_prefix (3): false }
_TYPE_CONTROL = b"\x18\x03"  # SentencePiece.type (3): CONTROL
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # of ModelProto
_MODEL_TYPE, _BPE, _SPACE_AS_SUFFIX = 3, 2, 24  # of TrainerSpec
_CHAR_MAP, _ADD_DUMMY_PREFIX, _REMOVE_EXTRA_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5  # of NormalizerSpec


def without_dummy_prefix(proto: bytes) -> bytes:
    """The model, no longer putting a space before a text."""
    return proto + _NO_DUMMY_PREFIX


def adds_dummy_prefix(proto: bytes) -> bool:
    """Whether the model puts a space before a text."""
    return bool(_settings(proto)[_NORMALIZER].get(_ADD_DUMMY_PREFIX, 1))


def merges_text_as_it_is(proto: bytes) -> bool:
    """Whether the model merges pairs of pieces, in a text that it changes in nothing but writing spaces as U+2581."""
    trainer, normalizer = _settings(proto).values()
    return (
        trainer.get(_MODEL_TYPE) == _BPE
        and not trainer.get(_SPACE_AS_SUFFIX, 0)
        and not normalizer.get(_CHAR_MAP, 0)
        and not normalizer.get(_REMOVE_EXTRA_SPACES, 1)
        and bool(normalizer.get(_ESCAPE_SPACES, 1))
    )


def marked_as_control(proto: bytes, pieces: set[bytes]) -> bytes:
    """The model with the named pieces marked as control, which takes them out of the encoder's reach."""
    parts: list[bytes] = []
    for field, start, content, end in _fields(proto):
        if field == _PIECES and _piece_text(proto, content, end) in pieces:
            body = proto[content:end] + _TYPE_CONTROL
            parts += [bytes([_PIECES << 3 | 2]), _varint(len(body)), body]
        else:
            parts.append(proto[start:end])
    return b"".join(parts)


def _settings(proto: bytes) -> dict[int, dict[int, int]]:
    """Of the trainer's and the normalizer's part, each field's number; the length of what is no number."""
    position = 0
    while position < len(proto) and proto[position] == (_PIECES << 3 | 2):  # pieces come first, and are many
        length, position = _read_varint(proto, position + 1)
        position += length
    settings: dict[int, dict[int, int]] = {_TRAINER: {}, _NORMALIZER: {}}
    for part, _, content, end in _fields(proto, position):
        if part in settings:
            for field, start, at, stop in _fields(proto, content, end):
                is_number = proto[start] & 7 == 0
                settings[part][field] = _read_varint(proto, at)[0] if is_number else stop - at
    return settings


def _piece_text(proto: bytes, position: int, stop: int) -> bytes:
    return next((proto[at:end] for field, _, at, end in _fields(proto, position, stop) if field == 1), b"")


def _fields(proto: bytes, position: int = 0, stop: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Of each field of a message: its number, where it starts, where its content starts, where it ends."""
    stop = len(proto) if stop is None else stop
    while position < stop:
        start = position
        key, position = _read_varint(proto, position)
        content, wire_type = position, key & 7
        if wire_type == 0:
            _, position = _read_varint(proto, position)
        elif wire_type == 2:
            length, content = _read_varint(proto, position)
            position = content + length
        else:
            position += 8 if wire_type == 1 else 4
        yield key >> 3, start, content, position


def _read_varint(proto: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = proto[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])
