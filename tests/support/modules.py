"""Lmod and Environment Modules for real: what each is, and the environment after some of its commands.

Debian's packages conflict with each other, so one is installed and the other is unpacked beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_LMOD = Path("/usr/share/lmod/lmod/libexec/lmod")
_SHOW = f"{sys.executable} -E -c 'import json, os; print(json.dumps(dict(os.environ)))'"


@dataclass(frozen=True)
class Modules:
    """One module system: ``init`` defines the function module in bash."""

    name: str
    init: str

    def run(self, *lines: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run lines of bash with ``module``; "@show" prints the environment as one line of JSON."""
        text = "\n".join((self.init, *lines)).replace("@show", _SHOW)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ["HOME"], **variables}
        return subprocess.run(
            ["bash", "--norc", "-c", text], env=env, capture_output=True, text=True, check=False, timeout=60
        )

    def environments(self, *lines: str, **variables: str) -> list[dict[str, str]]:
        """Return what each "@show" printed, without what a module system keeps for itself."""
        done = self.run(*lines, **variables)
        assert done.returncode == 0, done.stderr
        shown = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        own = ("_", "SHLVL", "MODULE", "LMOD", "_LM", "LOADEDMODULES", "_ModuleTable", "__MODULES", "__LMOD")
        return [
            {name: value for name, value in env.items() if not name.startswith(own) and name != "LC_CTYPE"}
            for env in shown
        ]


def lmod() -> Modules:
    return Modules("lmod", f'module() {{ eval "$({_LMOD} bash "$@")"; }}')


def environment_modules(folder: Path) -> Modules:
    """Unpack Debian's environment-modules below a folder and return it."""
    found = next(folder.rglob("modulecmd.tcl"), None)
    if found is None:
        argv = ["apt-get", "-q", "download", "environment-modules"]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=120)
        (package,) = folder.glob("environment-modules_*.deb")
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True, timeout=60)
        found = next(folder.rglob("modulecmd.tcl"))
    return Modules("tcl", f'module() {{ eval "$(tclsh {found} bash "$@")"; }}')
