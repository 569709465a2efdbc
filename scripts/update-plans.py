#!/usr/bin/env python3
"""Write tests/data/plans and tests/data/images: a few plans and images, as the code has them now."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support import image_files
from support.data_files import rewrite
from support.plan_files import FOLDER, PLANS, text_of


def main() -> None:
    """Write the files, and remove those that no plan has."""
    rewrite(FOLDER, {name: text_of(name) for name in PLANS})
    image_files.rewrite()


if __name__ == "__main__":
    main()
