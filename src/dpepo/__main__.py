"""``python -m dpepo``: the same as the ``dpepo`` command."""

import sys

from dpepo.cli import main

if __name__ == "__main__":
    sys.exit(main())
