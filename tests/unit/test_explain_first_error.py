"""The first error of a log: who speaks, in which line, and what is none."""

from __future__ import annotations

import io

import pytest
from support.explain_logs import ordinary

from xpubuild.explain.document import explain_stream
from xpubuild.explain.firsterror import FirstError


def first(*lines: str, before: int = 40) -> FirstError | None:
    log = [*ordinary(before, 1), *lines, *ordinary(before, 2)]
    found = explain_stream(io.BytesIO(("\n".join(log) + "\n").encode())).first_error
    if found is not None:
        assert found.line > before, found
        assert found.line <= before + len(lines), found
    return found


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("compiler", "../c10/core/Device.cpp:12:3: error: 'foo' was not declared in this scope"),
        ("compiler", "/tmp/a b/x.cpp:1:10: fatal error: omp.h: No such file or directory"),
        ("compiler", "C:\\src\\x.cpp(12): error C2065: 'foo': undeclared identifier"),
        ("compiler", "      src/x.c:3:1: internal compiler error: in extract_insn, at recog.cc:2791"),
        ("compiler", "llvm-foreach: No such file or directory"),
        ("tool", "icpx: error: unknown argument: '-fsycl-foo'"),
        ("linker", "/usr/bin/ld: cannot find -lmkl_core: No such file or directory"),
        ("linker", "/usr/bin/ld: x.o: in function `f()': x.cpp:(.text+0x5): undefined reference to `g()'"),
        ("cmake", "CMake Error at CMakeLists.txt:5 (find_package):"),
        ("cmake", "CMake Error: CMake was unable to find a build program corresponding to \"Ninja\"."),
        ("ninja", "ninja: error: 'x.cpp', needed by 'x.o', missing and no known rule to make it"),
        ("make", "make[2]: *** No rule to make target 'x.c', needed by 'x.o'.  Stop."),
        ("meson", "../../numpy/meson.build:207:4: ERROR: Problem encountered: No BLAS library detected!"),
        ("ocloc", "Build failed with error code: -11"),
        ("pip", "ERROR: Could not find a version that satisfies the requirement torch==9.9"),
        ("git", "fatal: unable to access 'https://example.org/x.git/': Could not resolve host: example.org"),
        ("python", "ModuleNotFoundError: No module named 'yaml'"),
        ("python", "torch.OutOfMemoryError: XPU out of memory."),
        ("memory", "c++: fatal error: Killed signal terminated program cc1plus"),
        ("memory", "[ 1234.567890] Out of memory: Killed process 4242 (cc1plus)"),
        ("disk", "cc1plus: fatal error: error writing to /tmp/x.s: No space left on device"),
        ("signal", "/bin/sh: line 1: 4711 Segmentation fault (core dumped) ./gen"),
        ("signal", "terminate called after throwing an instance of 'sycl::_V1::exception'"),
        ("loader", "python: error while loading shared libraries: libpython3.12.so.1.0: cannot open"),
        ("shell", "bash: icpx: command not found"),
        ("compiler", "/usr/include/c++/12/bits/random.h(104): error: expected a declaration"),
        ("compiler", 'x.c(1): catastrophic error: cannot open source file "a.h"'),
        ("compiler", "/a/b.hpp#:i18n:c10l:u de fatal error: <sy'syclcompat/math.hpp' file not found"),
        ("memory", "`can't allocate 2303168640 Bytes of memory on device`."),
        ("memory", "`killed: signal terminated program cc1plus`"),
        ("signal", "Bus error                  (core dumped) ./bin/llama-bench -m model.gguf"),
        ("signal", "importing the layer segfaults, with the driver alone too"),
        ("tool", "> cannot enable executable stack as shared object requires: Invalid argument"),
        ("tool", "error [int create_primitive(prb_t*)]: 'dnnl_primitive_create(&prim)' -> runtime_error(5)"),
    ],
)  # fmt: skip
def test_who_speaks(kind: str, line: str) -> None:
    found = first(line)
    assert found is not None
    assert found.kind == kind
    assert found.text.endswith(line[-12:])


@pytest.mark.parametrize(
    "line",
    [
        "x.cpp:1:1: warning: 'error' is deprecated [-Wdeprecated]",
        "g++ -Werror -Werror=return-type -o error.o -c error.cpp",
        "[17/99] Building CXX object src/CMakeFiles/x.dir/error_fatal.cpp.o",
        "12 passed, 0 errors, 0 failed in 1.2s",
        "tests/test_error.py::test_error[RuntimeError: boom] PASSED",
        "Relative error: 0.001",
        "-- Performing Test COMPILER_HAS_ERROR_FLAG - Failed",
        "CMake Warning at CMakeLists.txt:3 (message):",
        "UserWarning: an error may follow",
        "fatal: not a git repository (or any of the parent directories): .git",
        "ERROR: pip's dependency resolver does not currently take into account all the packages",
        "/usr/bin/ld: warning: x.o: missing .note.GNU-stack section implies executable stack",
    ],
)
def test_what_is_no_error(line: str) -> None:
    assert first(line) is None


def test_a_failed_command_of_ninja_leads_to_its_own_error() -> None:
    found = first(
        "FAILED: [code=1] a.cpp.o ",
        "/usr/bin/c++ -Werror=x -c a.cpp",
        "In file included from a.cpp:1:",
        "a.h:7:1: error: expected ';'",
        "ninja: build stopped: subcommand failed.",
    )
    assert found is not None
    assert (found.kind, found.text) == ("compiler", "a.h:7:1: error: expected ';'")
    assert found.command == "/usr/bin/c++ -Werror=x -c a.cpp"


def test_a_failed_command_without_a_word_is_itself_the_error() -> None:
    found = first("FAILED: a.out ", "/bin/false --now", "ninja: build stopped: subcommand failed.")
    assert found is not None
    assert (found.kind, found.text) == ("ninja", "FAILED: a.out")
    assert found.command == "/bin/false --now"


def test_what_a_traceback_ends_with_and_not_what_reports_it() -> None:
    found = first(
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in <module>',
        "KeyError: 'CMPLR_ROOT'",
        "The above exception was the direct cause of the following exception:",
        "Traceback (most recent call last):",
        "subprocess.CalledProcessError: Command '['cmake']' returned non-zero exit status 1.",
    )
    assert found is not None
    assert found.text == "KeyError: 'CMPLR_ROOT'"


@pytest.mark.parametrize(
    ("lines_between", "first_text"),
    [(12, "cp: cannot stat '/usr/lib64/libtinfo.so.5': No such file"), (13, None)],
)
def test_a_complaint_shortly_before_the_report_of_a_failed_command(
    lines_between: int, first_text: str | None
) -> None:
    report = "subprocess.CalledProcessError: Command '['setup.sh']' returned non-zero exit status 1."
    found = first(
        "cp: cannot stat '/usr/lib64/libtinfo.so.5': No such file",
        *["  main()"] * (lines_between - 1),
        report,
    )
    assert found is not None
    assert found.text == (first_text or report)


def test_an_error_inside_what_pip_quotes() -> None:
    found = first(
        "  error: subprocess-exited-with-error",
        "  \u00d7 Building wheel for ops (pyproject.toml) did not run successfully.",
        "  │ exit code: 1",
        "  ╰─> [3 lines of output]",
        "      src/ops.cpp:9:10: fatal error: mkl.h: No such file or directory",
        "      [end of output]",
        "ERROR: Failed building wheel for ops",
    )
    assert found is not None
    assert found.text == "src/ops.cpp:9:10: fatal error: mkl.h: No such file or directory"


def test_the_first_and_not_the_last() -> None:
    found = first("a.c:1:1: error: one", "b.c:1:1: error: two", "make: *** [all] Error 2")
    assert found is not None
    assert found.text == "a.c:1:1: error: one"
    assert found.context[3] == "a.c:1:1: error: one"
    assert "b.c:1:1: error: two" in found.context
