"""`python -m fusegen` is the command `fusegen`."""

import sys

from fusegen.cli import main

if __name__ == "__main__":
    sys.exit(main())
