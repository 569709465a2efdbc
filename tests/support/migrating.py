"""Programs before and after ``xpubuild migrate``."""

from __future__ import annotations

from xpubuild.migrate.python_code import rewrite
from xpubuild.migrate.rules import Rewritten, Target, rules_for

#: What is inserted behind the imports for torch.accelerator.
DEFINED = '\nACCELERATOR = str(torch.accelerator.current_accelerator() or "cuda")\n'


def migrated(code: str, to: Target = "accelerator", release: str = "2.13") -> Rewritten:
    """Return what becomes of a program; a second run must change nothing."""
    rules = rules_for(to, release, None)
    after = rewrite(code, rules)
    assert rewrite(after.text, rules).text == after.text
    return after


def line(code: str, to: Target = "accelerator", release: str = "2.13", head: str = "import torch") -> str:
    """Return what becomes of one line below imports; nothing may be left."""
    after = migrated(f"{head}\n{code}\n", to, release)
    assert not after.found, after.found
    return after.text.rstrip("\n").rpartition("\n")[2]


def left(code: str, to: Target = "accelerator", release: str = "2.13") -> list[str]:
    """Return the ids of what is left in a program that does not change."""
    after = migrated(code, to, release)
    assert after.text == code
    return [item.reason.id for item in after.found]
