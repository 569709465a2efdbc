"""Driver streams from package databases, repositories, file names and kernel modules of made-up trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.machine.drivers import driver_family, family_of_version, find_drivers, parse_rpms

LTS = "/gpu/ubuntu jammy/lts/2350 unified"
LTS2 = "/gpu/ubuntu noble/lts/2523 unified"
ROLLING = "/gpu/ubuntu noble unified"


def package(name: str, version: str, status: str = "install ok installed") -> str:
    return (
        f"Package: {name}\nStatus: {status}\nPriority: optional\nArchitecture: amd64\nVersion: {version}\n"
        f"Description: made up\n Package: libze-intel-gpu1\n Version: 99.99.99999.9\n"
    )


def tree(root: Path, *packages: str, files: dict[str, str] | None = None) -> Path:
    texts = {"var/lib/dpkg/status": "\n".join(packages), **(files or {})}
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def apt(line: str) -> dict[str, str]:
    return {"etc/apt/sources.list.d/intel-gpu.list": f"# jammy/lts/2350\ndeb [arch=amd64] https://x{line}\n"}


@pytest.mark.parametrize(
    ("packages", "files", "family"),
    [
        # The first LTS, under its old names.
        (
            {"intel-level-zero-gpu": "1.3.27642.40-803~22.04", "level-zero": "1.14.0-744~22.04"},
            {},
            "lts-2350",
        ),
        # Its driver under the new name, as Ubuntu's archive has it.
        ({"libze-intel-gpu1": "23.43.27642.40-1ubuntu3"}, {}, "lts-2350"),
        # The second LTS: its patches go on long after newer branches.
        ({"libze-intel-gpu1": "25.18.33578.38-1146~24.04", "libze1": "1.21.9.0-1136~24.04"}, {}, "lts2-2523"),
        ({"libze-intel-gpu1": "25.18.33578.93-1~24.04"}, apt(LTS2), "lts2-2523"),
        # The rolling stream passed through the same branch.
        ({"libze-intel-gpu1": "25.18.33578.15-1146~22.04"}, apt(ROLLING), "rolling"),
        ({"libze-intel-gpu1": "26.27.39122.11-0", "intel-ocloc": "26.27.39122.11-0"}, {}, "rolling"),
        # An old name does not make an LTS.
        ({"intel-level-zero-gpu": "1.3.30049.10-950~24.04"}, {}, "rolling"),
        # A repository of the LTS does not make a newer driver one.
        ({"libze-intel-gpu1": "25.35.35096.9-0"}, apt(LTS), "rolling"),
        # Older than the first LTS, or no version of the runtime at all.
        ({"intel-level-zero-gpu": "1.2.021182.9361-main"}, {}, None),
        ({"libze-intel-gpu1": "git"}, {}, None),
        # The loader alone is no driver.
        ({"libze1": "1.21.9.0-1136~24.04", "level-zero": "1.14.0-744~22.04"}, {}, None),
        ({}, {}, None),
        # Two drivers that contradict each other: not to be told.
        ({"libze-intel-gpu1": "25.35.35096.9-0", "intel-level-zero-gpu": "1.3.27642.40-803~22.04"}, {}, None),
    ],
)
def test_the_family(
    tmp_path: Path, packages: dict[str, str], files: dict[str, str], family: str | None
) -> None:
    root = tree(tmp_path, *(package(*item) for item in packages.items()), files=files)
    drivers = find_drivers(root)
    assert driver_family(drivers) == family
    assert {item.package: item.version for item in drivers} == packages
    assert all(item.source == "dpkg" for item in drivers)


def test_a_driver_that_no_package_database_knows(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    (folder / "libze_intel_gpu.so.1.3.27642").touch()
    (folder / "libze_intel_gpu.so.1").symlink_to("libze_intel_gpu.so.1.3.27642")
    (found,) = find_drivers(tmp_path)
    assert (found.family, found.version, found.source) == ("lts-2350", "1.3.27642", "/usr/lib64")
    assert driver_family((found,)) == "lts-2350"


def test_the_answer_of_rpm() -> None:
    text = (
        "intel-level-zero-gpu 1.3.27642.52-803.el9_3\npackage libze-intel-gpu1 is not installed\n"
        "intel-opencl 23.43.27642.52-803.el9_3\n"
    )
    found = list(parse_rpms(text, ("intel-level-zero-gpu", "libze-intel-gpu1", "intel-opencl")))
    assert found == [
        ("intel-level-zero-gpu", "1.3.27642.52-803.el9_3", "rpm"),
        ("intel-opencl", "23.43.27642.52-803.el9_3", "rpm"),
    ]
    assert family_of_version(found[0][1]) == "lts-2350"


@pytest.mark.parametrize("text", ["", "Package", "Package: libze-intel-gpu1\n", "\x00\xff: x\n\n:\n"])
def test_a_damaged_database_does_no_harm(tmp_path: Path, text: str) -> None:
    assert find_drivers(tree(tmp_path, text)) == ()
    (tmp_path / "var/lib/dpkg/status").unlink()
    (tmp_path / "var/lib/dpkg/status").mkdir()
    assert find_drivers(tmp_path) == ()
