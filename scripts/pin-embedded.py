"""Writes the commit that the embedded ``ops`` sources make into the recipes that pin it.

Run it after changing a file below xpubuild/ops/project; ``xpubuild recipes check`` tells when it is due.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from xpubuild.resources import ops_project_dir
from xpubuild.supply.git.embedded import expected_commit

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
PIN = re.compile(r'(embedded: ops\n\s+commit: "?)[0-9a-f]{40}')


def main() -> int:
    """Rewrite the pins; say which files changed."""
    commit = expected_commit(ops_project_dir())
    for path in sorted(RECIPES.glob("*.yaml")):
        text = path.read_text("utf-8")
        changed = PIN.sub(rf"\g<1>{commit}", text)
        if changed != text:
            path.write_text(changed, "utf-8")
            sys.stdout.write(f"{path.name}: ops is {commit}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
