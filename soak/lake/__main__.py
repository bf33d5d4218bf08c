"""`python -m soak.lake`: many interleavings, and a table of what happened."""

import sys

from soak.lake.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
