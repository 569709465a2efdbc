"""Kinds of failures: the shapes that many have, whatever the names in them, and what their commands say."""

from __future__ import annotations

import re
import shlex

import pytest
from support.data_files import loaded
from support.explain_logs import DATA, explained, first

from xpubuild.explain.entities import places
from xpubuild.explain.load import shipped_rules

SAMPLES = loaded(DATA / "kinds.yaml")
KINDS = [entry for entry in shipped_rules().signatures if entry.general]


def test_the_family_is_right_for_what_the_kinds_were_written_from() -> None:
    answers = [(item, explained(item["text"], "debian").findings) for item in SAMPLES]
    wrong = [item["id"] for item, found in answers if not found or found[0].family not in item["families"]]
    assert len(SAMPLES) > 130
    assert len(wrong) <= 0.02 * len(SAMPLES), wrong


def test_the_command_is_of_the_kind_that_helped_in_the_thread() -> None:
    judged = [item for item in SAMPLES if "helpful" in item]
    answers = [(item, explained(item["text"], "debian").findings) for item in judged]
    useless = [
        item["id"]
        for item, found in answers
        if not found
        or not any(
            text.lower() in f"{found[0].next_command} {found[0].fix}".lower() for text in item["helpful"]
        )
    ]
    assert len(judged) > 90
    assert len(useless) <= 0.05 * len(judged), useless


# Lines with names that no table and no sample has, but for the ones that the sentence is about.
@pytest.mark.parametrize(
    ("line", "family", "command"),
    [
        (
            "x: error while loading shared libraries: libfrob.so.3: cannot open shared object file",
            "AA-shared-library-not-found",
            "apt-file search libfrob.so.3",
        ),
        (
            "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
            "AA-shared-library-not-found",
            "sudo apt install libnuma1",
        ),
        (
            "/a/b.c:3:10: fatal error: frob/frob.h: No such file or directory",
            "AH-missing-system-package",
            "apt-file search frob/frob.h",
        ),
        (
            "/a/b.cpp:3:10: fatal error: 'hwloc.h' file not found",
            "AH-missing-system-package",
            "sudo apt install libhwloc-dev",
        ),
        (
            "/a/b.cpp:1:10: fatal error: 'span' file not found",
            "J-host-compiler-version",
            "sudo apt install g++",
        ),
        (
            "/usr/bin/ld: cannot find -lnuma: No such file or directory",
            "AH-missing-system-package",
            "sudo apt install libnuma-dev",
        ),
        ("bash: line 3: patchelf: command not found", "AH-missing-system-package", "patchelf"),
        (
            "ImportError: /x/frob_ops.so: undefined symbol: _ZNK2at6Tensor4sizeEl",
            "AM-extension-abi",
            "--no-build-isolation",
        ),
        (
            "ImportError: /x/frob.so: undefined symbol: PyCode_GetFrob",
            "AG-python-or-numpy-abi",
            "python --version",
        ),
        # Whose the name is decides, in the words of every compiler and loader.
        (
            "frob.cpp(180): error C2039: 'frob': is not a member of '_ts'",
            "AG-python-or-numpy-abi",
            "python --version",
        ),
        (
            "frob.c:3:7: Fehler: »_PyFrob_Get« wurde in diesem Gültigkeitsbereich nicht deklariert",
            "AG-python-or-numpy-abi",
            "python --version",
        ),
        (
            "ImportError: dlopen(/x/frob.so, 0x0002): symbol not found in flat namespace '_PyFrob_Get'",
            "AG-python-or-numpy-abi",
            "python --version",
        ),
        (
            "frob.c:9:3: error: lvalue required as left operand of frob\n    9 |   PyArray_FLAGS(x) |= 1;",
            "AG-python-or-numpy-abi",
            "numpy<2",
        ),
        (
            "/s/a.cpp:6:4: Error\uff1a\u2018struct at::Frob\u2019 has no member named \u2018frob\u2019",
            "AM-extension-abi",
            "grep -i torch",
        ),
        (
            "/pytorch/aten/src/ATen/frob.cpp:65:47: error: 'class at::Frob' has no member named 'frob'",
            "G-pin-mismatch-or-broken-main",
            "git clean -xfd",
        ),
        (
            "/src/triton/lib/a.cpp:3:1: error: 'Frob' is not a member of 'mlir::frob'",
            "Q-triton-llvm-download",
            "llvm-hash.txt",
        ),
        (
            "frob.cpp:9:3: error: expected primary-expression before '>' token\n   x.data_ptr<uint8_t>();",
            "AM-extension-abi",
            "grep -i torch",
        ),
        # A message that is no warning, although it has the word.
        (
            "NotImplementedError: The operator 'a::b' is not currently implemented for the XPU. WARNING: x",
            "W-upstream-bug",
            "PYTORCH_ENABLE_XPU_FALLBACK=1",
        ),
        (
            "AttributeError: type object 'CompiledKernel' has no attribute 'frob_hook'",
            "F-wrong-torch-or-triton-package",
            "grep -iE 'torch|triton'",
        ),
        (
            "slurmstepd: error: pyxis: couldn't start container",
            "Z-single",
            "--no-container-entrypoint",
        ),
        (
            "/lib64/libc.so.6: version `GLIBC_2.38' not found (required by /x/frob)",
            "AC-glibc-too-old",
            "ldd --version",
        ),
        ("g++: error: unrecognized command-line option '-mavx10.3'", "J-host-compiler-version", "CXX="),
        (
            "/a/b.cpp:3:1: error: unused frob [-Werror=unused-frob]",
            "J-host-compiler-version",
            "-Wno-error=unused-frob",
        ),
        ("E: Unable to locate package frob-dev", "T-package-resolver", "apt-cache search frob-dev"),
        (
            "fatal: detected dubious ownership in repository at '/mnt/a b'",
            "H-torch-xpu-ops-and-submodule-checkout",
            "safe.directory '/mnt/a b'",
        ),
        (
            "fatal: unable to access 'https://frob.example/x.git/': The requested URL returned error: 503",
            "S-network-proxy-certificate",
            "git submodule update",
        ),
        (
            "ModuleNotFoundError: No module named 'frobnicate'",
            "M-python-build-tools",
            "pip install frobnicate",
        ),
        (
            "ninja: error: loading 'build.ninja': No such file or directory",
            "V-stale-build-state",
            "rm -rf build",
        ),
        (
            "OMP: Error #15: Initializing libomp.so, but found libiomp5.so already initialized.",
            "AF-two-openmp-runtimes",
            "libiomp5",
        ),
    ],
)
def test_the_names_in_a_line_are_in_the_command(line: str, family: str, command: str) -> None:
    found = first(line, "debian")
    assert found.family == family
    assert command in found.next_command


# What is not in the tables made by hand is in those made from Debian's archive and from Intel's wheels.
@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("a.c:3:10: fatal error: munge.h: No such file or directory", "sudo apt install libmunge-dev"),
        ("a.c:3:10: fatal error: FLAC/all.h: No such file or directory", "sudo apt install libflac-dev"),
        ("bash: hwloc-ls: command not found", "sudo apt install hwloc"),
        ("/usr/bin/ld: cannot find -lpmix: No such file or directory", "sudo apt install libpmix-dev"),
        ("Package libunwind was not found in the pkg-config search path", "sudo apt install libunwind-dev"),
        (
            "x: error while loading shared libraries: libuv.so.1: cannot open shared object file",
            "sudo apt install libuv1",
        ),
        (
            "x: error while loading shared libraries: libtcm.so.1: cannot open shared object file",
            "python -m pip install tcmlib",
        ),
    ],
)
def test_what_has_a_name_is_known_from_archives(line: str, command: str) -> None:
    assert command in first(line, "ubuntu").next_command
    assert "sudo apt" not in first(line, "fedora").next_command


def test_a_possible_signature_does_not_silence_a_kind() -> None:
    found = explained("UserWarning: XPU device count is zero! (Triggered internally at XPUFunctions.cpp:50.)")
    assert [item.id for item in found.findings] == [
        "xpu-device-count-zero",
        "xpu-device-count-zero-libstdcxx",
    ]
    assert all(item.confidence < 0.5 for item in found.findings)


def test_one_number_keeps_one_tile_of_a_card() -> None:
    found = first("RuntimeError: could not create a primitive")
    assert "ZE_FLAT_DEVICE_HIERARCHY" in found.fix
    assert "level_zero:0,1" in found.next_command


def test_two_tritons_are_replaced_by_the_one_that_torch_names() -> None:
    command = first("RuntimeError: 0 active drivers ([]). There should only be one.").next_command
    assert "--index-url https://download.pytorch.org/whl/xpu" in command
    assert "m.requires(" in command


def test_the_headers_of_the_compiler_are_no_matter_of_torch_compile() -> None:
    line = "/src/main.cpp:8:10: fatal error: {}: No such file or directory"
    found = first(line.format("CL/sycl.hpp"))
    assert found.family == "C-oneapi-not-found-silent-cpu-build"
    assert "-DCMAKE_CXX_COMPILER=icpx" in found.next_command
    assert first(line.format("mkl_dal_sycl.hpp")).family == "P-missing-build-component"
    assert (
        first("/tmp/tmpabc/main.cpp:1:10: fatal error: sycl/sycl.hpp: No such file or directory").family[0]
        == "N"
    )


def test_the_resolver_is_called_by_its_name() -> None:
    conda = first("UnsatisfiableError: The following specifications were found to be incompatible")
    pip = first("ERROR: ResolutionImpossible: for help visit the documentation")
    dpkg = first(" frob-icd (20.44.1-1) breaks frob and is installed.", "debian")
    assert "conda" in conda.next_command
    assert "pip install" in pip.next_command
    assert "sudo apt remove frob-icd" in dpkg.next_command


def test_who_has_no_name_in_a_text_is_called_by_its_kind() -> None:
    found = first("The following signatures were invalid: EXPKEYSIG 0123456789ABCDEF Frob")
    assert "--recv-keys 0123456789ABCDEF" in found.next_command
    assert "{" not in found.fix


def test_every_place_of_a_text_is_an_entity_of_the_kind() -> None:
    for entry in KINDS:
        patterns = [*(matcher.line for matcher in entry.match), *(near.pattern for near in entry.also)]
        named = {name.rstrip("0123456789") for text in patterns for name in re.compile(text).groupindex}
        named |= {name for lookup in entry.lookup for row in lookup.rows for name in row.values}
        wanted = {name for text in entry.texts() for name in places(text)}
        assert wanted <= named | {"what", "install"}, entry.id


@pytest.mark.parametrize(
    ("log", "part"),
    [
        # what the lines above say
        (
            "Cloning into 'x'...\nremote: https://frob.example/a/b.git\nfatal: early EOF",
            "git clone --depth 1 https://frob.example/a/b.git;",
        ),
        (
            "Building wheel for frobnicate (setup.py)\nBackendUnavailable: Cannot import 'setuptools'",
            "--no-build-isolation frobnicate",
        ),
        (
            "ImportError: /v/lib/python3.12/site-packages/frob/_C.so: undefined symbol: _Z4frobv",
            "--no-cache-dir frob",
        ),
        (
            'File "/w/train.py", line 3, in <module>\nNotImplementedError: frob is not implemented for XPU',
            "python /w/train.py",
        ),
        # and what they do not say, which leaves the place or the part of the command empty
        ("fatal: early EOF", "git clone --depth 1 URL"),
        ("dpkg: error processing archive frob.deb", "grep -E 'apt|dpkg|unattended'"),
    ],
)
def test_the_lines_round_it_fill_the_command(log: str, part: str) -> None:
    command = first(log, "debian").next_command
    assert part in command
    assert "[[" not in command


@pytest.mark.parametrize(
    ("line", "switch"),
    [
        ("/src/third_party/fbgemm/src/a.cc:3:1: error: unused frob [-Werror=unused-frob]", "USE_FBGEMM=0"),
        ("/src/third_party/kineto/a.cpp:3:1: error: expected ';' before 'frob'", "USE_KINETO=0"),
        ("/src/frob/a.cpp:3:1: error: expected ';' before 'frob'", ""),
    ],
)
def test_a_part_of_a_build_that_fails_can_be_left_out(line: str, switch: str) -> None:
    found = first(line, "debian")
    assert switch in found.next_command
    assert ("Without need" in found.fix) == bool(switch)


def test_a_group_without_a_name_is_given_to_the_container_by_its_number() -> None:
    listed = "crw-rw---- 1 root {}  226, 128 Mar 18 13:28 renderD128"
    found = first(listed.format("109"))
    assert found.family == "D-device-node-access"
    assert "--group-add 109" in found.next_command
    assert first(listed.format("ssl-cert")).id == found.id
    assert explained(listed.format("render")).findings == ()
    assert explained(listed.format("video")).findings == ()


def test_a_compiled_part_is_missing_for_two_reasons() -> None:
    line = "ModuleNotFoundError: No module named 'torch._C'"
    above = 'File "/usr/lib/python3.12/site-packages/torch/__init__.py", line 45, in <module>'
    assert first(line).family == "AE-source-tree-instead-of-install"
    assert first(f"{above}\n{line}").family == "AG-python-or-numpy-abi"


def test_a_name_from_a_log_is_one_word_of_the_command() -> None:
    found = first("fatal: detected dubious ownership in repository at '/a; rm -rf $HOME'")
    assert "/a; rm -rf $HOME" in shlex.split(found.next_command)


def test_the_command_is_for_the_distribution_of_the_log() -> None:
    line = "b.c:1:1: fatal error: hwloc.h: No such file or directory"
    assert "dnf" in first(f"Installed: gcc-14.2.1-1.fc41.x86_64\n{line}", "debian").next_command
    assert "apt" in first(f"Setting up libc6 (Ubuntu 24.04)\n{line}", "fedora").next_command
    # The archive of Triton's LLVM has the name of a distribution, and is for all.
    archive = "-- Found LLVM: /ws/build/archives/triton/llvm/llvm-87717bf9-almalinux-x64"
    assert "apt" in first(f"{archive}\n{line}", "debian").next_command


def test_a_program_that_cmake_requires_is_named_by_its_file() -> None:
    """Triton 3.7.2 and an LLVM without clang, as its configuration step said it."""
    found = first(
        "-- Found SPIR-V Backend\nCMake Error at third_party/nvidia/CMakeLists.txt:13 (find_program):\n"
        "  Could not find TRITON_GSAN_CLANGXX using the following names: clang++\n\n\n"
        "-- Configuring incomplete, errors occurred!\n"
    )
    assert (found.id, found.title) == ("program-not-found", "The program clang++ is not found")
