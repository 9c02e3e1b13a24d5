"""``python -m torchpipe``: the ``torchpipe`` command."""

import sys

from torchpipe.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
