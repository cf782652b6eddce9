"""``python -m pipeline`` is ``halfsecond``."""

from pipeline.cli import main

main()
