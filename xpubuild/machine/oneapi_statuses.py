"""The meaning of the exit codes of oneAPI's scripts.

Source: the public setvars.sh of 2025 and the compiler's env/vars.sh, as listed in the project's notes on
them. Exit code 0 is no proof: an installation without any component returns it too.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen

ALREADY_RUN = 3


@frozen
class Meaning:
    """One status in words; ``fatal`` ones leave nothing usable behind."""

    text: str
    fatal: bool = False
    fix: str = ""


_ENTRY = {
    0: Meaning("done, or there was nothing to set"),
    ALREADY_RUN: Meaning(
        "it has already run and was not forced to run again",
        fatal=True,
        fix=(
            "SETVARS_COMPLETED is set even in an empty environment: find out where, or use the component "
            "scripts instead of setvars.sh"
        ),
    ),
    4: Meaning(
        "its configuration file is missing or cannot be read", fatal=True, fix="correct the --config file"
    ),
    7: Meaning(
        "its configuration file has a 'default=' line other than 'default=exclude'",
        fatal=True,
        fix="correct that line of the --config file",
    ),
    250: Meaning("done, but a component's script reported a problem"),
    254: Meaning("it printed its help and did nothing", fatal=True, fix="do not pass --help to the script"),
    255: Meaning(
        "it did not run: it was not sourced, does not support the shell, or was called with 'ia32'",
        fatal=True,
        fix="check that bash is GNU bash, and the arguments that are passed to the script",
    ),
}
_COMPONENT = {
    0: Meaning("done"),
    255: Meaning(
        "it did not run: it was not sourced, or does not support the shell",
        fatal=True,
        fix=(
            "scripts of the unified layout only run through oneapi-vars.sh; otherwise reinstall the component"
        ),
    ),
}
_OTHER = Meaning("unknown exit code; only the variables that were set matter")


def by_hand(script: Path) -> str:
    """Return a command line that runs one script in a clean bash and shows every line of it."""
    # The path is written out: handed over as $0 or $1, the script would see it.
    inner = shlex.quote(f'. {shlex.quote(str(script))}; echo "status $?"')
    return f'env -i HOME="$HOME" PATH=/usr/bin:/bin bash --noprofile --norc -xc {inner}'


@frozen
class ScriptStatus:
    """How one script ended. ``entry`` tells setvars.sh and oneapi-vars.sh from component scripts."""

    script: Path
    status: int
    entry: bool

    @property
    def meaning(self) -> Meaning:
        """The status in words."""
        return (_ENTRY if self.entry else _COMPONENT).get(self.status, _OTHER)

    def to_json(self) -> dict[str, Any]:
        """Return the status as the receipt shows it."""
        return {"script": str(self.script), "status": self.status, "meaning": self.meaning.text}

    def require_usable(self, evidence: dict[str, Any]) -> None:
        """Raise where the status says that nothing was set.

        Raises:
            ToolchainError: with the meaning of the status.
        """
        if self.meaning.fatal:
            raise ToolchainError(
                f"{self.script} exited with code {self.status}",
                why=self.meaning.text,
                fix=self.meaning.fix,
                commands=(by_hand(self.script),),
                evidence={**evidence, "status": self.status},
            )
