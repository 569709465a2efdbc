"""Stand-in for icx and icpx: says a version, records its arguments, compiles host code with the GNU compiler.

It makes no device code. What a build asks of it is in the record, a line for each call.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SAYS, RECORD = "@SAYS@", "@RECORD@"
# Options of the Intel compiler that GCC does not know, those with a value of their own, and prefixes.
_WITH_VALUE = ("-Xs", "-Xspirv-translator", "-Xclang")
_UNKNOWN = (
    "-fsycl", "-sycl-std", "-fno-sycl", "-fhonor", "-fno-approx", "-no-ftz", "-foffload", "--offload",
    "-fpreview",
)  # fmt: skip


def host_arguments(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in _WITH_VALUE or word.startswith("-Xsycl-target-backend"):
            next(words, None)
        elif not word.startswith(_UNKNOWN):
            kept.append(word)
    return kept


def main(arguments: list[str]) -> int:
    with Path(RECORD).open("a", encoding="utf-8") as stream:
        stream.write("\x1f".join(arguments).replace("\n", " ") + "\n")
    if "--version" in arguments:
        sys.stdout.write(f"Intel(R) oneAPI DPC++/C++ Compiler {SAYS}\n")
        sys.stdout.write("Target: x86_64-unknown-linux-gnu\nThread model: posix\n")
        return 0
    release = SAYS.split(" ", 1)[0].split(".")
    number = f"{release[0]}{int(release[1]):02d}{int(release[2]):02d}"
    defines = [f"-D__INTEL_LLVM_COMPILER={number}", "-DSYCL_LANGUAGE_VERSION=202012L"]
    root = Path(__file__).resolve().parent.parent
    sycl = [f"-I{root}/include", f"-I{root}/include/sycl", f"-L{root}/lib"] if "-fsycl" in arguments else []
    compiler = "gcc" if any(word.endswith(".c") for word in arguments) else "g++"
    command = [compiler, *defines, *sycl, *host_arguments(arguments)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
