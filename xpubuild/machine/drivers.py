"""Detects Intel's driver stream of a machine from package databases and file names, without root.

No single name is reliable: Intel renamed the packages from the first LTS to the second, and distributions
carry the old driver under the new name. The streams are distinguished by the build number of the compute
runtime, the third number of its version: each LTS stream stays on one branch for its whole life.

Sources: the LTS packages that Intel's own documents and images pin (23.43.27642.x and 1.3.27642.x with
release 803 of the first LTS, later called 2350; libze-intel-gpu1 25.18.33578.x for lts/2523); the tags of
compute-runtime, which go on on these two branches long after newer ones; Ubuntu's archive, which has
23.43.27642.40 as libze-intel-gpu1. In the spring of 2025 the rolling stream passed through 33578 too: there
the repository that is set up decides, where there is one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import probe
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, UNKNOWN, entries, exists, read_text

#: Packages of the Level Zero driver itself, old name and new; the loader's are listed beside them.
DRIVER_PACKAGES = ("libze-intel-gpu1", "intel-level-zero-gpu", "intel-level-zero")
#: Packages of the loader, by its names in Intel's repositories and in distributions.
LOADER_PACKAGES = ("level-zero", "libze1", "oneapi-level-zero")
_BESIDES = (*LOADER_PACKAGES, "intel-opencl-icd", "intel-opencl", "intel-ocloc")
_LIBRARY = re.compile(r"libze_intel_gpu\.so\.(\d+\.\d+\.\d+(?:\.\d+)?)")
_LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/lib64")
_BUILD = re.compile(r"(?:\d+:)?\d+\.\d+\.0*(\d+)")
_LTS_BUILD = {27642: "lts-2350", 33578: "lts2-2523"}
_OLDEST_KNOWN = min(_LTS_BUILD)
#: Folders of a repository line: 'jammy/lts/2350 unified', 'noble unified', a PPA of Ubuntu's.
_LTS_REPOSITORY = re.compile(r"/lts/(2350|2523)\b")
_ROLLING_REPOSITORY = re.compile(r"gpu/ubuntu\s+\w+\s+(?:unified|client)|kobuk-team/intel-graphics")
_STREAM = {"2350": "lts-2350", "2523": "lts2-2523"}
_MODULES = ("i915", "xe")
#: rpm's database is binary and has four formats, so rpm itself is asked.
_RPM_S = 8.0
_RPM_DATABASES = ("var/lib/rpm", "usr/lib/sysimage/rpm")
_RPM_FORMAT = "%{NAME} %{VERSION}-%{RELEASE}\\n"


@frozen
class DriverFacts:
    """One package, library or kernel module of the GPU driver.

    ``family`` is lts-2350, lts2-2523, rolling, kernel or unknown; ``source`` is where it was read.
    """

    family: str
    package: str
    version: str
    source: str


def find_drivers(root: Path = LIVE_ROOT) -> tuple[DriverFacts, ...]:
    """Return what of the driver is installed, the Level Zero driver first; never raises.

    With another ``root`` than / only files below it are read.
    """
    stream = _configured_stream(root)
    packages = (*_dpkg_packages(root), *rpm_packages(root, (*DRIVER_PACKAGES, *_BESIDES)))
    found = [_package(name, version, source, stream) for name, version, source in packages]
    found.sort(key=lambda item: (item.package not in DRIVER_PACKAGES, item.package))
    if not any(item.package in DRIVER_PACKAGES for item in found):
        found = [*_libraries(root, stream), *found]
    return (*found, *_modules(root))


def driver_family(drivers: tuple[DriverFacts, ...]) -> str | None:
    """Return the one family of the Level Zero driver; None where there is none, or two that contradict."""
    drivers_only = (item for item in drivers if item.package in (*DRIVER_PACKAGES, "libze_intel_gpu.so"))
    families = {item.family for item in drivers_only} - {UNKNOWN}
    return families.pop() if len(families) == 1 else None


def loader_version(drivers: tuple[DriverFacts, ...]) -> str | None:
    """Return the version of Level Zero's loader; None where no package has it, or two contradict."""
    found = {item.version for item in drivers if item.package in LOADER_PACKAGES}
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", found.pop()) if len(found) == 1 else None
    return match[1] if match else None


def family_of_version(version: str, stream: str | None = None) -> str:
    """Return the family of a compute runtime's version; ``stream`` is that of the repository set up."""
    match = _BUILD.match(version)
    if match is None:
        return UNKNOWN
    build = int(match[1])
    known = _LTS_BUILD.get(build)
    if known == "lts2-2523" and stream == "rolling":
        return "rolling"
    if known is not None:
        return known
    return "rolling" if build > _OLDEST_KNOWN else UNKNOWN


def _package(name: str, version: str, source: str, stream: str | None) -> DriverFacts:
    # The loader has a version scheme of its own, which says nothing about the driver.
    runtime = name in DRIVER_PACKAGES or name in ("intel-opencl-icd", "intel-opencl", "intel-ocloc")
    return DriverFacts(family_of_version(version, stream) if runtime else UNKNOWN, name, version, source)


def _dpkg_packages(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the installed ones of dpkg's status; distroless images keep one file per package beside it."""
    wanted = {*DRIVER_PACKAGES, *_BESIDES}
    folder = root / "var/lib/dpkg"
    for path in (folder / "status", *entries(folder / "status.d", root)):
        for paragraph in (read_text(path, root) or "").split("\n\n"):
            if not any(name in paragraph for name in wanted):
                continue
            fields = {
                key.strip(): value.strip()
                for key, colon, value in (line.partition(":") for line in paragraph.splitlines())
                if colon and not key.startswith((" ", "\t"))
            }
            name, version = fields.get("Package"), fields.get("Version")
            # Removed packages stay listed with their configuration files: 'deinstall ok config-files'.
            state = fields.get("Status", "install ok installed").split()
            if name in wanted and version and state[-1:] == ["installed"]:
                yield name, version, f"dpkg ({fields['Status']})" if "hold" in state else "dpkg"


def rpm_packages(root: Path, names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, version-release, "rpm") of those that are installed; nothing for an unpacked tree.

    ``unread_database`` tells whether that is because nothing could be asked.
    """
    environment = base_environment()
    rpm = shutil.which("rpm", path=environment["PATH"])
    if root != LIVE_ROOT or rpm is None or _rpm_database(root) is None:
        return
    try:
        # Names that are not installed make the status 1 and are reported in a sentence, which is ignored.
        answer = probe([rpm, "-q", "--qf", _RPM_FORMAT, *names], env=environment, deadline_s=_RPM_S)
    except (XpuBuildError, OSError):
        return
    yield from parse_rpms(answer.stdout, names)


def unread_database(root: Path = LIVE_ROOT) -> str | None:
    """Return the folder of an RPM database that was not asked: that of a tree, or one without a program rpm.

    Where there is one, ``find_drivers`` says nothing about what is installed.
    """
    found = _rpm_database(root)
    asked = found and root == LIVE_ROOT and shutil.which("rpm", path=base_environment()["PATH"])
    return None if asked else found


def _rpm_database(root: Path) -> str | None:
    return next((f"/{folder}" for folder in _RPM_DATABASES if entries(root / folder, root)), None)


def parse_rpms(text: str, names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield what an answer of ``rpm -q`` says is installed."""
    for line in text.splitlines():
        name, _, version = line.partition(" ")
        if name in names and version and " " not in version:
            yield name, version, "rpm"


def _configured_stream(root: Path) -> str | None:
    """Return the stream of Intel's repository where exactly one is set up."""
    folder = root / "etc/apt"
    files = (folder / "sources.list", *entries(folder / "sources.list.d", root))
    files = (*files, *entries(root / "etc/yum.repos.d", root), *entries(root / "etc/zypp/repos.d", root))
    found: set[str] = set()
    for path in files:
        if path.suffix not in (".list", ".sources", ".repo"):
            continue
        for line in (read_text(path, root) or "").splitlines():
            if not line.lstrip().startswith("#"):
                found |= {_STREAM[match] for match in _LTS_REPOSITORY.findall(line)}
                found |= {"rolling"} if _ROLLING_REPOSITORY.search(line) else set()
    return found.pop() if len(found) == 1 else None


def _libraries(root: Path, stream: str | None) -> Iterator[DriverFacts]:
    """Yield drivers that no package database knows, by the names of their files."""
    for folder in _LIBRARY_FOLDERS:
        for path in entries(root / folder, root):
            match = _LIBRARY.fullmatch(path.name)
            if match is not None and not path.is_symlink():
                family = family_of_version(match[1], stream)
                yield DriverFacts(family, "libze_intel_gpu.so", match[1], f"/{folder}")


def _modules(root: Path) -> Iterator[DriverFacts]:
    for name in _MODULES:
        folder = root / "sys/module" / name
        if exists(folder, root):
            # Modules of the kernel itself state no version; Intel's DKMS builds do.
            yield DriverFacts("kernel", name, read_text(folder / "version", root) or UNKNOWN, "sysfs")
