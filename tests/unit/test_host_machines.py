"""Whole machines as the kernel, package managers and programs describe them, and all that is made of it.

The texts have the form of real ones; numbers and names are made up.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from support.files import lay, script

from xpubuild.distribution import System
from xpubuild.machine import drivers
from xpubuild.machine.compilers import CompilerFacts, ToolFacts, locate, probe_compiler, probe_tool
from xpubuild.machine.drivers import DriverFacts, driver_family, find_drivers
from xpubuild.machine.ocloc import OclocAnswer, try_ocloc
from xpubuild.machine.pythons import PythonFacts, find_pythons
from xpubuild.machine.readers import LIVE_ROOT
from xpubuild.machine.system import OsFacts, os_facts, system_of


def dpkg(*stanzas: str) -> str:
    return "\n\n".join(stanzas) + "\n"


def stanza(name: str, version: str, status: str = "install ok installed") -> str:
    return f"Package: {name}\nStatus: {status}\nVersion: {version}\nDepends: libze1\n libze-intel-gpu1: x\n"


def repository(stream: str) -> str:
    return f"deb [arch=amd64] https://packages.example/gpu/ubuntu jammy{stream} unified\n"


LTS2 = DriverFacts("lts2-2523", "libze-intel-gpu1", "25.18.33578.38-1146", "dpkg")
LOADER = DriverFacts("unknown", "libze1", "1.21.9", "dpkg")

DRIVERS: dict[str, tuple[dict[str, str], tuple[DriverFacts, ...]]] = {
    "nothing": ({}, ()),
    "driver first, then by name": (
        {
            "var/lib/dpkg/status": dpkg(
                stanza("bash", "5.2"),
                stanza("libze1", "1.21.9"),
                stanza("intel-opencl-icd", "25.18.33578.38-1146"),
                stanza("libze-intel-gpu1", "25.18.33578.38-1146"),
            )
        },
        (
            LTS2,
            DriverFacts("lts2-2523", "intel-opencl-icd", "25.18.33578.38-1146", "dpkg"),
            LOADER,
        ),
    ),
    "half installed, purged and without a version": (
        {
            "var/lib/dpkg/status": dpkg(
                stanza("libze-intel-gpu1", "1", "install ok half-configured"),
                stanza("intel-level-zero-gpu", "1.3.27642", "deinstall ok config-files"),
                "Package: libze1\nStatus: install ok installed\n",
            )
        },
        (),
    ),
    "held": (
        {"var/lib/dpkg/status": dpkg(stanza("libze1", "1.21.9", "hold ok installed"))},
        (replace(LOADER, source="dpkg (hold ok installed)"),),
    ),
    "a distroless image": (
        {"var/lib/dpkg/status.d/libze1": "Package: libze1\nVersion: 1.21.9\n"},
        (LOADER,),
    ),
    "files alone": (
        {
            "usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1.3.27642": "",
            "usr/local/lib/libze_intel_gpu.so.1.6.33578.11": "",
            "usr/lib64/libze_intel_gpu.so.1": "",
        },
        (
            DriverFacts("lts-2350", "libze_intel_gpu.so", "1.3.27642", "/usr/lib/x86_64-linux-gnu"),
            DriverFacts("lts2-2523", "libze_intel_gpu.so", "1.6.33578.11", "/usr/local/lib"),
        ),
    ),
    "files beside a package of the driver": (
        {
            "var/lib/dpkg/status": dpkg(stanza("libze-intel-gpu1", "25.18.33578.38-1146")),
            "usr/lib64/libze_intel_gpu.so.1.3.27642": "",
        },
        (LTS2,),
    ),
    "files beside a loader": (
        {
            "var/lib/dpkg/status": dpkg(stanza("libze1", "1.21.9")),
            "usr/lib64/libze_intel_gpu.so.1.3.27642": "",
        },
        (DriverFacts("lts-2350", "libze_intel_gpu.so", "1.3.27642", "/usr/lib64"), LOADER),
    ),
    "modules": (
        {"sys/module/xe/refcnt": "0", "sys/module/i915/version": "1.25.2\n"},
        (DriverFacts("kernel", "i915", "1.25.2", "sysfs"), DriverFacts("kernel", "xe", "unknown", "sysfs")),
    ),
}


#: Every package that is told, and the family that its version stands for (the loader's: none).
KNOWN = {
    "intel-level-zero": "rolling", "intel-level-zero-gpu": "rolling", "libze-intel-gpu1": "rolling",
    "intel-ocloc": "rolling", "intel-opencl": "rolling", "intel-opencl-icd": "rolling",
    "level-zero": "unknown", "libze1": "unknown", "oneapi-level-zero": "unknown",
}  # fmt: skip


def test_every_package_of_the_driver_is_known(tmp_path: Path) -> None:
    version = "25.35.35096.9"
    text = dpkg(*(stanza(name, version) for name in KNOWN))
    found = find_drivers(lay(tmp_path, {"var/lib/dpkg/status": text}))
    assert found == tuple(DriverFacts(family, name, version, "dpkg") for name, family in KNOWN.items())
    assert driver_family(DRIVERS["files beside a loader"][1]) == "lts-2350"


@pytest.mark.parametrize("name", DRIVERS)
def test_drivers(tmp_path: Path, name: str) -> None:
    files, expected = DRIVERS[name]
    assert find_drivers(lay(tmp_path / "root", files)) == expected


@pytest.mark.parametrize(
    ("files", "family"),
    [
        ({"etc/apt/sources.list": repository("")}, "rolling"),
        ({"etc/apt/sources.list.d/a.list": repository("/lts/2523")}, "lts2-2523"),
        ({"etc/apt/sources.list.d/a.list.save": repository("")}, "lts2-2523"),
        ({"etc/apt/sources.list.d/a.list": f"  # {repository('')}"}, "lts2-2523"),
        ({"etc/apt/sources.list.d/a.list": repository(""), "etc/apt/sources.list": repository("/lts/2523")},
         "lts2-2523"),
        ({"etc/apt/sources.list.d/a.sources": "URIs: https://ppa.example/kobuk-team/intel-graphics/ubuntu\n"},
         "rolling"),
        ({"etc/yum.repos.d/gpu.repo": "baseurl=https://x.example/gpu/ubuntu noble client\n"}, "rolling"),
        ({"etc/zypp/repos.d/gpu.repo": "baseurl=https://x.example/gpu/ubuntu noble client\n"}, "rolling"),
        ({"etc/yum.repos.d/gpu.txt": "baseurl=https://x.example/gpu/ubuntu noble client\n"}, "lts2-2523"),
    ],
)  # fmt: skip
def test_the_repository_decides_where_two_streams_have_one_version(
    tmp_path: Path, files: dict[str, str], family: str
) -> None:
    status = {"var/lib/dpkg/status": dpkg(stanza("libze-intel-gpu1", "25.18.33578.38-1146"))}
    assert find_drivers(lay(tmp_path, {**status, **files})) == (replace(LTS2, family=family),)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in front of PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(drivers, "_rpm_database", lambda _root: "/var/lib/rpm")
    return tmp_path / "bin"


def test_what_rpm_knows_is_part_of_the_driver(programs: Path) -> None:
    script(programs / "rpm", "echo oneapi-level-zero 1.21.9-1\n")
    assert DriverFacts("unknown", "oneapi-level-zero", "1.21.9-1", "rpm") in find_drivers(LIVE_ROOT)


ROCKY = """\
# a comment
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PRETTY_NAME='Rocky "9"'
"""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, OsFacts()),
        ({"etc/os-release": "ID=a\n#ID=b\nBAD\n NAME = 'N n' \nVERSION_ID=\"1\"\nID_LIKE='c  d'\n"},
         OsFacts("a", ("c", "d"), "1", "N n")),
        ({"etc/os-release": ROCKY}, OsFacts("rocky", ("rhel", "centos", "fedora"), "9.4", 'Rocky "9"')),
        ({"etc/os-release": "PRETTY_NAME=x\\\n"}, OsFacts(name="x\\")),
        ({"usr/lib/os-release": "NAME=n\nPRETTY_NAME=p\n"}, OsFacts(name="p")),
        ({"etc/os-release": "ID=a\n", "usr/lib/os-release": "ID=b\n"}, OsFacts("a")),
        ({"etc/os-release": "NAME='x\n", "proc/sys/kernel/osrelease": "6.1 Microsoft\n"},
         OsFacts(name="'x", kernel="6.1 Microsoft", container="wsl")),
        ({"proc/self/cgroup": "0::/\n", "proc/sys/kernel/osrelease": "5.15-microsoft-standard\n"},
         OsFacts(kernel="5.15-microsoft-standard", container="wsl")),
        *(({"proc/self/cgroup": f"0::/{word}/x\n"}, OsFacts(container=name)) for word, name in (
            ("kubepods.slice", "kubernetes"), ("docker", "docker"), ("libpod-1", "podman"),
            ("lxc", "lxc"), ("init.scope", "none"))),
        ({"proc/self/cgroup": "1:name=systemd:/docker/x\n"}, OsFacts(container="docker")),
        *(({name: text}, OsFacts(container=text.strip() or told)) for name, text, told in (
            (".dockerenv", "", "docker"), ("run/.containerenv", "", "podman"),
            (".singularity.d/env/x", "", "apptainer"), ("run/systemd/container", "systemd-nspawn\n", ""))),
    ],
)  # fmt: skip
def test_systems(tmp_path: Path, files: dict[str, str], expected: OsFacts) -> None:
    assert os_facts(lay(tmp_path / "rootfs ä", files)) == expected


def test_the_repositories_of_a_system(tmp_path: Path) -> None:
    lay(
        tmp_path,
        {
            "etc/apt/sources.list": "deb https://a.example x\n# deb https://b.example x\n",
            "etc/apt/sources.list.d/c.list": "deb https://c.example x\n",
            "etc/apt/sources.list.d/d.save": "deb https://d.example x\n",
        },
    )
    facts = OsFacts("ubuntu", ("debian",), "24.04")
    expected = System(("ubuntu", "debian"), "24.04", "deb https://a.example x\ndeb https://c.example x")
    assert system_of(facts, tmp_path) == expected


def installation(root: Path, lib: str, *, name: str = "python3.13t") -> Path:
    lay(
        root,
        {
            f"opt/py/bin/{name}": "\x7fELF stand-in",
            f"opt/py/{lib}/{name}/os.py": "",
            f"opt/py/{lib}/{name}/ensurepip/__init__.py": "",
            f"opt/py/include/{name}/Python.h": "",
        },
    )
    return root


@pytest.mark.parametrize("lib", ["lib", "lib64"])
def test_an_interpreter_whole(tmp_path: Path, lib: str) -> None:
    root = installation(tmp_path / "image", lib)
    path = "/opt/py/bin/python3.13t"
    assert find_pythons("/opt/py/bin:/opt/py/bin", root) == (
        PythonFacts(
            path, "3.13", "CPython", None, free_threaded=True, virtual=False, base_executable=path,
            include=f"{root}/opt/py/include/python3.13t", headers=True, ensurepip=True,
        ),
    )  # fmt: skip


def test_the_kernel_that_ocloc_compiles_is_a_spirv_module_of_one_function(tmp_path: Path) -> None:
    copy = tmp_path / "kernel.spv"
    program = script(tmp_path / "ocloc", f'cp kernel.spv {copy}; echo image > "$2"\n')
    assert try_ocloc(str(program), ("pvc",), {"PATH": "/usr/bin:/bin"}) == OclocAnswer()
    words = struct.unpack(f"<{copy.stat().st_size // 4}I", copy.read_bytes())
    # With the codes of the specification of SPIR-V, 3.3.
    instructions: list[tuple[int, ...]] = [
        (17, 4), (17, 5), (17, 6),  # OpCapability
        (11, 1, *struct.unpack("<3I", b"OpenCL.std\0\0")),  # OpExtInstImport
        (14, 2, 2),  # OpMemoryModel
        (15, 6, 4, *struct.unpack("<2I", b"probe\0\0\0")),  # OpEntryPoint
        (19, 2), (33, 3, 2),  # OpTypeVoid, OpTypeFunction
        (54, 2, 4, 0, 3), (248, 5), (253,), (56,),  # OpFunction, OpLabel, OpReturn, OpFunctionEnd
    ]  # fmt: skip
    encoded = [word for code, *rest in instructions for word in ((1 + len(rest)) << 16 | code, *rest)]
    assert words == (0x07230203, 0x00010000, 0, 6, 0, *encoded)


def test_an_ocloc_that_is_none(tmp_path: Path) -> None:
    answer = try_ocloc(str(tmp_path / "none"), ("pvc",), {"PATH": "/usr/bin"})
    assert (answer.ok, answer.unknown, bool(answer.words)) == (False, (), True)


def test_what_programs_on_path_say(programs: Path) -> None:
    script(
        programs / "icpx", "echo 'Intel(R) oneAPI DPC++/C++ Compiler 2025.3.1 (x)'; echo Target: x86 >&2\n"
    )
    script(programs / "ninja", "echo 1.13.0.git >&2\n")
    script(programs / "cmake", "echo cmake version 3.31.6; exit 1\n")
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    found = locate(("icpx", "ninja", "cmake", "no-such-program"), environment["PATH"])
    assert found == {name: f"{programs}/{name}" for name in ("icpx", "ninja", "cmake")}
    assert probe_compiler(found["icpx"], environment) == CompilerFacts(
        "icpx", found["icpx"], "icx", "2025.3.1", "x86"
    )
    assert probe_tool(found["ninja"], environment) == ToolFacts("ninja", found["ninja"], "1.13.0")
    assert probe_tool(found["cmake"], environment) == ToolFacts("cmake", found["cmake"])
