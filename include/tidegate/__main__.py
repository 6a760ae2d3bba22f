"""`python -m tidegate` is `tidegate`."""

from tidegate.cli.main import main

main()
