import sys

from fusegen.cli.main import main

sys.exit(main())
