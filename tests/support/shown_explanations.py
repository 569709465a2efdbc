"""What explain answers, whole: of lines for which there is a pattern each, and of a few logs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from support.data_files import dumped
from xpubuild.distribution import System
from xpubuild.explain.document import Circumstances, conclude
from xpubuild.explain.firsterror import LITERALS, RARE_LITERALS, FirstErrorSearch, is_certain
from xpubuild.explain.line import Line
from xpubuild.explain.normalise import plain
from xpubuild.explain.prefilter import Prefilter
from xpubuild.explain.scan import scan
from xpubuild.explain.searchterms import search_terms
from xpubuild.explain.topics import topics

#: One for each pattern and each word by which it is found, then lines that are no errors.
_LINES = r"""
FAILED: src/a.o
FAILED: [code=2] src/a.o
ninja: build stopped: subcommand frobbed.
ninja: build stopped: interrupted by user.
ninja: error: loading 'build.ninja'
ninja: fatal: ReadFile
make[1]: *** [all] Error 2
gmake.exe: *** [all] Error 2
make: *** No rule to make target 'x'
-- Configuring incomplete, errors occurred!
collect2: error: ld returned 1 exit status
/usr/bin/g++-12: error: linker command failed with exit code 1
icpx: error: linker command failed with exit code 1 (use -v to see invocation)
ocloc: error: ocloc (x) command failed with exit code 1
a: error: clang-19 (other) command failed due to signal
error: subprocess-exited-with-error
error: command 'g++' failed
ERROR: Failed building wheel for x
ERROR: Exception:
subprocess.CalledProcessError: Command 'x'
BaseExceptionGroup: two
Exception: something
cc1plus: fatal error: Killed
Killed
Out of memory: Killed process 12
Memory cgroup out of memory
what():  std::bad_alloc
icpx: unable to execute command: Killed
fork: Cannot allocate memory
killed: signal terminated program cc1
Can't allocate 123 bytes
LLVM ERROR: out of memory
/bin/sh: line 12: 123 Killed gcc
write: No space left on device
write: no space left on device
write: Disk quota exceeded
a.cpp:1:2: error: x
a.cpp:1:2: fatal error: x
C:\a.cpp:12: error : x
a.f90:1.5: internal compiler error: x
a.cpp(12): error C2065: x
a.cpp(12,3) : fatal error #5: x
'omp.h' file not found
a.o: undefined reference to `x'
a.o: relocation truncated to fit: R_X86_64_PC32
a.o: multiple definition of `x'
/usr/bin/x86_64-linux-gnu-ld.gold: cannot find -lx
ld: final link failed: bad value
ld: fatal error: x
ld: a.so: error adding symbols: DSO missing
ld: a.o: file not recognized: file format
LINK : fatal error LNK1104: x
a.obj : error LNK2019: x
gmake: *** No rule to make target 'x'. Stop.
CMake Error at a.cmake:3 (message):
CMake Error in CMakeLists.txt:
CMake Error (dev) at x:
CMake Error: x
ocloc x: error: y
IGC: Internal Compiler Error: y
Build failed with error code: -11
Could not determine device target: x
Error: Cannot get HW Info
python: error while loading shared libraries: libx.so
python: symbol lookup error: x
bash: icpx: command not found
setvars.sh: line 5: X: unbound variable
llvm-foreach: No such file or directory
fatal: x
error: pathspec 'x' did not match
error: RPC failed; curl 18
error: Your local changes to the following files
error: unable to create file x
error: invalid object 100644
x: Segmentation fault (core dumped)
Segmentation fault
Bus error
Illegal instruction
LLVM ERROR: x
Fatal Python error: x
terminate called after throwing an instance of 'x'
x terminated with signal 9
ERROR: x
torch.frob.OddError: x
KeyboardInterrupt
SystemExit
x: error: y
tool: internal compiler error : y
Error response from daemon: x
error during connect: x
ApplyLayer exit status 1
The command '/bin/sh -c x' returned a non-zero code: 1
failed to solve: x
E: Unable to locate package x
E: Package 'x' has no installation candidate
E: The repository 'x' is not signed
E: Sub-process /usr/bin/dpkg returned
E: You must put some URIs
Err:1 http://x
W: GPG error: x
a-dev : Depends: b
The following packages have unmet dependencies:
dpkg: error processing package x
dpkg-deb: dependency problems prevent x
Problem: nothing provides x
Error: nothing provides y
Error: Transaction test x
Error: Unable to find a match: x
 Problem 1: x
No match for argument: x
CondaHTTPError: x
LibMambaUnsatisfiableError: x
UnavailableInvalidChannel: x
PackagesNotFoundError: x
Could not solve for environment specs
No solution found when resolving dependencies
Failed to build `x`
curl: (22) x
wget: unable to resolve
x ERROR 404: y
i915 0000:03:00.0: [drm] *ERROR* GT0
xe 0000:03:00.0: [drm] device wedged
xe 0000:03:00.0: GPU HANG: x
x ZE_RESULT_ERROR_DEVICE_LOST
clGetDeviceIDs(-1)
Segmentation fault from GPU at x
INTEL ONEMKL ERROR: x
a.so: undefined symbol: x
tool: cannot x
tool: can't y
tool: can’t y
can’t allocate 12
tool: unable to x
tool: Permission denied
tool: No such file or directory
FATAL - x
error [int f()]: x
Abort was called at 1
Aborted
x assertion y failed
Could not frob
x segfaults
error rate: 5
x: error ratio 0.1
ERROR: pip's dependency resolver does not currently take into account
fatal: not a git repository: x
fatal: No names found
error: 0 errors
a.py::test PASSED error: x
a ... ok error: x
-- looking for 'x.h' file not found
a.h: warning: 'x' file not found
"""  # noqa: RUF001 - as programs write it
_LONG = 100
_SEARCHED = (
    ("a/b.cpp:12:3: error: 'at::frob_xpu' was not declared in /home/me/src/torch", "compiler"),
    ("fatal: unable to access 'https://u:p@example.org/x.git/': returned error: 403", "git"),
    ("x.py: Error: status 404 at 0x7fff1234 of 123456 in libfrob.so at ssh://me@host.example/x", "python"),
    ("ninja: error: one two three four five six seven eight nine ten eleven twelve thirteen", "ninja"),
    ("Error: std::a b_c d.e (x_y), fourth_one", "tool"),
    ("error: https://****@example.org", "tool"),
    ("error: ****", "tool"),
    ("   ", "tool"),
)
_CMAKE = (
    "CMake Error at a.cmake:3 (message):",
    "  icpx frobnicates",
    "  the rest",
    "Call Stack (most recent",
)
_CRASH = ("import torch; torch.xpu.is_available()", "Segmentation fault (core dumped)")
#: Name -> the lines of a log and what is known besides.
_LOGS: dict[str, tuple[tuple[str, ...], Circumstances]] = {
    "a full disk, with a command of ninja": (
        (
            "[1/3] Building CXX object a.o",
            "FAILED: [code=1] a.o",
            "/usr/bin/g++ -c a.cpp",
            "a.cpp:1:1: warning: unused",
            "cc1plus: fatal error: error writing to /tmp/x.s: No space left on device",
            "compilation terminated.",
            *(f"after {number}" for number in range(12)),
        ),
        Circumstances(),
    ),
    "only what ninja says": (("before", "FAILED: a.o", "", "the next line"), Circumstances()),
    "a library, on Debian": (
        ("ImportError: libze_loader.so.1: cannot open shared object file",),
        Circumstances(system=System(("debian",)), recipe="a recipe"),
    ),
    "a crash, confirmed": (
        _CRASH,
        Circumstances(
            checks={"level_zero.enumerate": "fail"}, details={"level_zero.enumerate": "it found nothing"}
        ),
    ),
    "a crash, refuted": (_CRASH, Circumstances(checks={"level_zero.enumerate": "ok"})),
    "a log that names its distribution": (
        ("dnf install x", "Fedora Linux 41", "E: Unable to locate package frob-dev"),
        Circumstances(system=System(("suse",))),
    ),
    "a message of CMake that nothing knows": (_CMAKE, Circumstances()),
    "nothing": (("a calm line", "another"), Circumstances()),
    "a program that is not there": (("bash: ninja: command not found",), Circumstances(System(("rhel",)))),
    "a header that is not there": (
        ("x.cpp:1:10: fatal error: numa.h: No such file or directory",),
        Circumstances(System(("suse",))),
    ),
    "a header that nobody knows": (
        ("x.cpp:1:10: fatal error: frob nicate.h: No such file or directory",),
        Circumstances(System(("fedora",))),
    ),
    "a module that is not there": (("ModuleNotFoundError: No module named 'frob'",), Circumstances()),
    "a library of torch's wheel": (
        ("ImportError: libsycl.so.8: cannot open shared object file: No such file or directory",),
        Circumstances(System(("arch",))),
    ),
    "a secret": (("fatal: unable to access 'https://me:secret@example.org/x.git/': frob",), Circumstances()),
}


class _Alone:
    """A line without neighbours."""

    def before(self, count: int) -> list[str]:
        return []

    after = before


def _first_errors() -> str:
    """Return who speaks in each line, and whether it is looked at at all."""
    prefilter = Prefilter([*LITERALS, *RARE_LITERALS])
    texts = []
    for text in _LINES.strip("\n").splitlines():
        raw, search = text.encode(), FirstErrorSearch()
        search.consider(Line(1, text, _Alone()))
        error = search.result()
        kind = error.kind if error else "-"
        sure = "" if error is None or is_certain(error) else " (a complaint)"
        seen = "" if prefilter.hits(raw, 0, len(raw)) else " (not looked at)"
        texts.append(f"{kind}{sure}{seen}: {text}\n")
    return "".join(texts)


def _explained() -> str:
    documents: dict[str, Any] = {}
    for name, (lines, known) in _LOGS.items():
        outcome = scan(io.BytesIO(("\n".join(lines) + "\n").encode()))
        around = {number: list(near) for number, near in outcome.surroundings.items()}
        documents[name] = {
            **conclude(outcome, known).to_json(), "facts": sorted(outcome.facts), "surroundings": around,
        }  # fmt: skip
    hints = {topic.id: topic.model_dump(mode="json") for topic in topics()}
    return dumped({"logs": documents, "topics": hints})


_PREFIXED = (
    "job\tstep\t2025-01-01T00:00:00.1Z text", "2025-01-01T00:00:00.1Z 00O text", "[12:00:00] text",
    "[    1.234] text", "Jan  2 03:04:05 host kernel: text", "#12 3.45 text", "12.34 text",
    "Step #1 - 'build': text", "[build] text", "[error] text", "svc-1  | text", "[1,2]<stderr>:text",
    "3: text", "(Worker pid=1) text", "nix> text", "##[error]text", "::error file=a::text", "E       text",
    "  >> 12    text", "INFO:root: text", "[a] [b] [c] [d] [e] text", "\x1b[31mred\x1b[0m\ttext\x07 ",
    "  \u2502 text", "text https://me:secret@example.org/ more", "x" * 2100 + " " + "y" * 2100,
    "\ufefftext", "a \u2018b\u2019 \u201cc\u201d `d` \u00abe\u00bb f\uff1ag   h",
)  # fmt: skip


def _runs(text: str) -> list[str]:
    """Return a text of long runs of one character as these and how often they come."""
    return [f"{run[0][0]} x {len(run[0])}" for run in re.finditer(r"(.)\1*", text)]


def _lines_plain() -> str:
    found = {}
    for text in _PREFIXED:
        line = Line(1, plain(text.encode()), _Alone())
        found[text[:60]] = [line.text, line.canonical, line.low] if len(text) < _LONG else _runs(line.text)
    return dumped(found)


def _searches() -> str:
    return dumped({text: list(search_terms(text, kind)) for text, kind in _SEARCHED})


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "explained": _explained,
    "explained-first-errors": _first_errors,
    "explained-lines": _lines_plain,
    "explained-searches": _searches,
}
