"""The lines for Debian are accepted by a real apt-get, with the package names that Debian's archive has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from xpubuild.distribution import Need, System, install

#: apt-cache policy of main, amd64, on 2026-11-22: the names that exist, with their versions.
ARCHIVE = {
    "12": {
        "intel-opencl-icd": "22.43.24595.41-1", "libze1": "1.8.12-1", "libze-dev": "1.8.12-1",
        "opencl-headers": "3.0~2023.02.06-1", "gcc": "4:12.2.0-3", "g++": "4:12.2.0-3",
    },
    "13": {
        "libze1": "1.20.6-1", "libze-dev": "1.20.6-1", "opencl-headers": "3.0~2024.10.24-2",
        "gcc": "4:14.2.0-1", "g++": "4:14.2.0-1",
    },
}  # fmt: skip
NEEDS: tuple[Need, ...] = (
    "driver", "loader", "opencl", "ocloc", "level-zero-headers", "opencl-headers", "compiler",
)  # fmt: skip


def apt(tmp_path: Path, names: dict[str, str], line: str = "") -> dict[str, str]:
    """Return the environment of an apt that knows an archive with these names and nothing of this machine."""
    for folder in ("state/lists/partial", "cache/archives/partial", "parts", "archive"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "status").touch()
    (tmp_path / "archive/Packages").write_text(
        "".join(
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: x <x@example.org>\n"
            f"Filename: {name}.deb\nSize: 1\nSHA256: {'0' * 64}\nDescription: x\n\n"
            for name, version in names.items()
        )
    )
    (tmp_path / "sources.list").write_text(line or f"deb [trusted=yes] file:{tmp_path}/archive ./\n")
    settings = {
        "Dir::State": "state", "Dir::State::status": "status", "Dir::Cache": "cache",
        "Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "parts",
        "Dir::Etc::preferencesparts": "parts", "Dir::Etc::parts": "parts",
    }  # fmt: skip
    config = tmp_path / "apt.conf"
    text = "".join(f'{name} "{tmp_path}/{value}";\n' for name, value in settings.items())
    config.write_text(f'{text}APT::Architecture "amd64";\nAPT::Sandbox::User "root";\n')
    return {"PATH": os.environ["PATH"], "APT_CONFIG": str(config), "LC_ALL": "C"}


def simulated(env: dict[str, str], words: list[str]) -> subprocess.CompletedProcess[str]:
    assert words[:2] == ["apt-get", "install"]
    return subprocess.run([words[0], "-s", *words[1:]], env=env, capture_output=True, text=True, check=False)


@pytest.mark.needs("apt-get")
@pytest.mark.parametrize("version", ARCHIVE)
def test_no_line_for_debian_has_an_unknown_name(tmp_path: Path, version: str) -> None:
    env = apt(tmp_path, ARCHIVE[version])
    subprocess.run(["apt-get", "update"], env=env, capture_output=True, check=True)
    tried = 0
    for need in NEEDS:
        lines = install((need,), System(("debian",), version), sudo="")
        for line in (line for line in lines if " install " in line):
            done = simulated(env, line.split())
            assert done.returncode == 0, done.stderr
            tried += 1
    assert tried == {"12": 7, "13": 4}[version]
    assert simulated(env, ["apt-get", "install", "-y", "libze1", "libze-intel-gpu1"]).returncode == 100


@pytest.mark.needs("apt-get")
def test_apt_reads_the_line_of_intels_repository(tmp_path: Path) -> None:
    lines = install(("driver",), System(("ubuntu", "debian"), "24.04"))
    entry = next(line for line in lines if line.startswith("echo ")).split("'")[1]
    env = apt(tmp_path, {}, f"{entry}\n")
    done = subprocess.run(
        ["apt-get", "update", "--print-uris"], env=env, capture_output=True, text=True, check=True
    )
    assert "'https://repositories.intel.com/gpu/ubuntu/dists/noble/lts/2523/InRelease'" in done.stdout
