#!/usr/bin/env python3
"""Write tests/data/plans/*.yaml: what each step of a few plans hands on, as the code has it now."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.data_files import rewrite
from support.plan_files import FOLDER, PLANS, text_of


def main() -> None:
    """Write the files, and remove those that no plan has."""
    rewrite(FOLDER, {name: text_of(name) for name in PLANS})


if __name__ == "__main__":
    main()
