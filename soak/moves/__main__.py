"""`python -m soak.moves matrix | flips | renames`."""

import sys

from soak.moves.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
