"""``torchpipe``: the first word chooses a command, the rest is the command's."""

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from torchpipe import __version__
from torchpipe._sentences import print_error
from torchpipe._suggest import did_you_mean
from torchpipe.errors import TorchpipeError

# Command -> (its module, what it does). A module is imported when its command is used.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("torchpipe.cli.run", "run a recipe, on one device or, with torchrun's options, on many"),
    "ls": ("torchpipe.cli.ls", "list the recipes and configs that come with torchpipe"),
    "cp": ("torchpipe.cli.cp", "copy a recipe, a config or the sample chats, to change them"),
    "explain": ("torchpipe.cli.explain", "show which tokens of a config's rows are trained, and why"),
    "plan": ("torchpipe.cli.plan", "show what a run would do: rows, packs, steps, how even the ranks are"),
    "plot": ("torchpipe.cli.plot", "draw the losses of runs as a picture"),
    "migrate": ("torchpipe.cli.migrate", "write a config of torchtune's with torchpipe's names, and say what differs"),
    "validate": ("torchpipe.cli.validate", "check a config's components without building them"),
    "store": ("torchpipe.cli.store", "list, verify or prune the tokenised samples that are kept on the disk"),
}

_HELP_WIDTH = max(map(len, COMMANDS))


def help_text() -> str:
    """What ``torchpipe --help`` prints."""
    lines = ["usage: torchpipe COMMAND ...", "", "From raw conversations to training batches.", "", "commands:"]
    lines += [f"  {name:<{_HELP_WIDTH}}  {told}" for name, (_, told) in COMMANDS.items()]
    lines += ["", "torchpipe COMMAND --help tells more about one; torchpipe --version prints the version."]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 1 for an error in what it was given, 2 for a wrong command line.

    Args:
        argv: the words after ``torchpipe``; those of the process by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _command(words)
        finally:
            # What is still buffered meets a closed pipe or a full disk here, and not when the process ends.
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # torchpipe ls | head
        if words[:1] == ["run"]:
            print("Stopped: nobody reads the output any more. Send it to a file instead.", file=sys.stderr)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or words[:1] == ["run"]:
            raise
        print(f"Error: {error.strerror}; what was being written is not whole.", file=sys.stderr)
    _discard_output()
    return 1


def _command(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"torchpipe {__version__}")
        return 0
    if words[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(
            f"Error: there is no command '{words[0]}'.{did_you_mean(words[0], COMMANDS)} Commands: {known}.",
            file=sys.stderr,
        )
        return 2
    module = importlib.import_module(COMMANDS[words[0]][0])
    try:
        return module.main(words[1:])
    except TorchpipeError as error:
        print_error(error)
        return 1


def _discard_output() -> None:
    """Leads what Python still has to write at its end to nowhere; it could not be written before."""
    with suppress(OSError, AttributeError):  # where the output is no file of the system
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
