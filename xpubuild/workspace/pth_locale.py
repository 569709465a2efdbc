"""The locale that an environment with editable installs needs in a folder with non-ASCII characters.

An editable install leaves a ``.pth`` file with the path of the sources. Before Python 3.12.4 ``site`` reads
it in the encoding of the locale (python/cpython issue 77102), whatever UTF-8 mode says, so PYTHONUTF8=1
changes nothing: under LC_ALL=C the interpreter ends in UnicodeDecodeError before it runs anything, under
Latin-1 it looks in a folder of another name. C itself, where LC_ALL does not insist on it, is made UTF-8 by
the interpreter (PEP 538). Children of xpubuild get LC_ALL=C.UTF-8 always (engine.environment); this is about
the shell of a user.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path

_UTF8 = re.compile(r"\.utf-?8(?:@|$)", re.IGNORECASE)
_C = frozenset({"C", "POSIX"})
_NEEDED = "C.UTF-8"


def needed_locale(env: Path, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the variable to set so that the Python of ``env`` starts and finds its editable installs.

    Nothing where the caller's locale will do, or where no ``.pth`` file needs it.
    """
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if caller.get(name)), None)
    locale = caller[name] if name is not None else "C"
    if _UTF8.search(locale) or (locale in _C and name != "LC_ALL") or not _has_letters(env):
        return {}
    return {"LC_ALL" if name == "LC_ALL" else "LC_CTYPE": _NEEDED}


def _has_letters(env: Path) -> bool:
    """Whether a ``.pth`` file of an environment holds more than ASCII."""
    for path in env.glob("lib/python*/site-packages/*.pth"):
        with contextlib.suppress(OSError):
            if not path.read_bytes().isascii():
                return True
    return False
