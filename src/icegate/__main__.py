"""``python -m icegate``."""

from icegate.cli import main

main()
