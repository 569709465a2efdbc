"""Records a real run for the README: ``docs/images/quickstart.svg``, an animated picture of a terminal.

    python scripts/record-terminal.py

It runs the commands below in a home folder of its own, which takes as long as the quickstart does, and needs
bwrap and termtosvg. The picture plays it faster, so that it ends within a minute, and has the usual
place of the interpreter.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PICTURE = TOP / "docs" / "images" / "quickstart.svg"
SIZE = "104x32"
HOME = "/home/you"
COMMANDS = ("xpubuild plan quickstart", "xpubuild install quickstart", "xpubuild status quickstart")
#: Seconds that the picture takes, and milliseconds: the shortest frame, the wait at the end.
PLAYS_S, SHORTEST, LAST = 40.0, "250", "6000"


def script() -> str:
    """Return a shell script that shows each command as if it was typed, and runs it."""
    lines = ["cd"]
    for command in COMMANDS:
        lines += [
            f"printf '\\033[32m$\\033[0m %s\\n' {shlex.quote(command)}",
            "sleep 0.6",
            command,
            "sleep 1.5",
        ]
    return "\n".join(lines)


def faster(recording: str) -> str:
    """Return a recording (asciicast 2: a header, then [seconds, kind, text] a line) that ends in time."""
    head, *lines = recording.splitlines()
    events = [json.loads(line.replace(sys.base_prefix, "/usr")) for line in lines]
    factor = min(1.0, PLAYS_S / events[-1][0])
    return "\n".join([head, *(json.dumps([at * factor, kind, text]) for at, kind, text in events)]) + "\n"


def main() -> int:
    """Record; the exit status is that of the recorder."""
    if shutil.which("bwrap") is None or shutil.which("termtosvg") is None:
        sys.stderr.write("record-terminal: bwrap and termtosvg are needed\n")
        return 2
    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "run").write_text(script(), "utf-8")
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        kept.setdefault("PIP_CONFIG_FILE", str(Path("~/.config/pip/pip.conf").expanduser()))
        env = {
            **kept, "HOME": HOME, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        }  # fmt: skip
        inside = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/home", "--bind", home, HOME, "--clearenv"]
        for name, value in env.items():
            inside += ["--setenv", name, value]
        command = shlex.join([*inside, "bash", f"{HOME}/run"])
        record = ["termtosvg", "record", f"{home}/run.cast", "-c", command, "-g", SIZE]
        status = subprocess.run(record, check=False).returncode
        if status == 0:
            cast = Path(home, "run.cast")
            cast.write_text(faster(cast.read_text("utf-8")), "utf-8")
            render = ["termtosvg", "render", str(cast), str(PICTURE), "-m", SHORTEST, "-D", LAST]
            status = subprocess.run([*render, "-t", "window_frame"], check=False).returncode
            PICTURE.write_text(PICTURE.read_text("utf-8").rstrip("\n") + "\n", "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
