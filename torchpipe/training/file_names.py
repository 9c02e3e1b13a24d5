"""The names of a checkpoint's files, as torchtune's configs write them."""

from collections.abc import Mapping, Sequence

from torchpipe.errors import ConfigError


def file_names(files: Sequence[str] | Mapping[str, str] | None) -> list[str] | None:
    """The list that was given, or the one that a format and the last number stand for; None for None.

    Raises:
        ConfigError: the mapping is none of torchtune's form.
    """
    if files is None:
        return None
    if not isinstance(files, Mapping):
        return [str(name) for name in files]
    pattern, last = files.get("filename_format"), files.get("max_filename")
    if (
        set(files) != {"filename_format", "max_filename"}
        or str(pattern).count("{}") != 2
        or not str(last).isdecimal()
        or len(str(last)) > 5
    ):
        raise ConfigError(
            f"checkpoint_files is {dict(files)}. Give a list of names, or filename_format with two {{}} and "
            "max_filename in quotes, as filename_format: model-{}-of-{}.safetensors and max_filename: '00004'."
        )
    last = str(last)
    before, between, after = str(pattern).split("{}")
    return [f"{before}{number + 1:0{len(last)}}{between}{last}{after}" for number in range(int(last))]
