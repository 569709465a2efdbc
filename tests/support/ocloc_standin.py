"""A stand-in for ocloc, the GPU driver's offline compiler: it knows some targets and writes no real code.

Options, messages and exit codes are those of the real one (tried with 22.43 of Debian 12): a single target
that it does not know, and one in a list, are refused in different words.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from support.files import script

#: All of what upstream compiles for, and what LTS 2350 knows of it.
EVERY = (
    "pvc", "bmg", "dg2", "arl-h", "mtl-h", "lnl-m", "ptl-h", "ptl-u", "xe-lpg", "ats-m150", "ats-m75",
    "mtl-u",
)  # fmt: skip
LTS_2350 = ("pvc", "xe-lpg", "ats-m150")

_SCRIPT = """\
# stand-in for ocloc
{before}
while [ $# -gt 0 ]; do
  case $1 in
    -output) output=$2; shift ;;
    -file) file=$2; shift ;;
    -device) devices=$2; shift ;;
  esac
  shift
done
[ -s "$file" ] || {{ echo "Error: Input file $file missing."; exit 8; }}
for name in $(echo "$devices" | tr , ' '); do
  case " {knows} " in
    *" $name "*) ;;
    *) if [ "$name" = "$devices" ]; then echo "Error: Cannot get HW Info for device $name."; exit 223; fi
       echo "Failed to parse target : $name - invalid device:"
       echo "Failed to parse target devices from : $devices"; exit 1 ;;
  esac
done
echo image > "$output"
echo 'Build succeeded.'
"""


#: The program that knows every target.
OCLOC = "#!/bin/sh\n" + _SCRIPT.format(knows=" ".join(EVERY), before="")


def add_ocloc(folder: Path, knows: Iterable[str] = EVERY, *, before: str = "") -> Path:
    """Put a program into a folder; ``before`` are lines that run first."""
    return script(folder / "ocloc", _SCRIPT.format(knows=" ".join(knows), before=before))


def add_module(folder: Path, knows: Iterable[str] = EVERY) -> tuple[Path, Path]:
    """Make a module's folder of programs, and that of libraries without which its ocloc does not start."""
    libraries = folder / "lib64"
    libraries.mkdir(parents=True)
    (libraries / "libocloc.so").write_text("stand-in")
    lost = "libocloc.so: cannot open shared object file: No such file or directory"
    before = f"""case ":$LD_LIBRARY_PATH:" in *":{libraries}:"*) ;; *)
  echo "ocloc: error while loading shared libraries: {lost}" >&2; exit 127 ;;
esac"""
    return add_ocloc(folder / "bin", knows, before=before).parent, libraries
