"""conda-lock.yml: one normal form, what is refused, nothing of credentials."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest
import yaml

from xpubuild.errors import RecipeError
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage, read_lock, write_lock

BASE = "https://conda.example.invalid/forge"


def package(
    name: str, version: str = "1.0", *, base: str = BASE, subdir: str = "linux-64", **given: object
) -> CondaPackage:
    filename = f"{name}-{version}-h0.conda"
    digest = hashlib.sha256(filename.encode()).hexdigest()
    made = CondaPackage(name, version, "h0", filename, f"{base}/{subdir}/{filename}", digest, digest[:32])
    return dataclasses.replace(made, **given)  # type: ignore[arg-type]


def lock(*packages: CondaPackage, **given: object) -> CondaLock:
    return dataclasses.replace(CondaLock(packages, ("conda-forge",), "0" * 64), **given)  # type: ignore[arg-type]


LOCK = lock(
    package("cmake", "3.31.2", dependencies={"libstdcxx-ng": ">=13", "__glibc": ">=2.17"}),
    package("pip", subdir="noarch"),
    package("python", "3.12.1"),
)


def test_it_is_conda_locks_format_and_names_what_is_installed() -> None:
    document = yaml.safe_load(write_lock(LOCK))
    assert document["version"] == 1
    assert document["metadata"]["platforms"] == ["linux-64"]
    assert document["metadata"]["channels"] == [{"url": "conda-forge", "used_env_vars": []}]
    assert document["package"][0] == {
        "name": "cmake",
        "version": "3.31.2",
        "manager": "conda",
        "platform": "linux-64",
        "dependencies": {"__glibc": ">=2.17", "libstdcxx-ng": ">=13"},
        "url": f"{BASE}/linux-64/cmake-3.31.2-h0.conda",
        "hash": {"md5": LOCK.packages[0].md5, "sha256": LOCK.packages[0].sha256},
        "category": "main",
        "optional": False,
    }
    found = read_lock(write_lock(LOCK)).packages
    assert [(item.name, item.build, item.subdir) for item in found] == [
        ("cmake", "h0", "linux-64"), ("pip", "h0", "noarch"), ("python", "h0", "linux-64"),
    ]  # fmt: skip
    assert found[0].channel == BASE


def entry(**changes: object) -> str:
    document = yaml.safe_load(write_lock(lock(package("cmake"))))
    document["package"][0].update(changes)
    return yaml.safe_dump(document)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "parsing"),
        ("version: 2\n", "version"),
        ("[]", "dictionary"),
        (entry(platform="osx-64"), "no packages for linux-64"),
        (entry(hash={"md5": "0" * 32}), "sha256"),
        (entry(hash={"md5": "0" * 32, "sha256": "0" * 63}), "hash.sha256: "),
        (entry(manager="pip"), "manager"),
        (entry(name="../cmake"), "name: "),
        (entry(name="ninja"), "which the entry is for"),
        (entry(version="1.1"), "which the entry is for"),
        (entry(url="https://host.invalid/x/osx-64/cmake-1.0-h0.conda"), "not the address"),
        (entry(url="https://host.invalid/x/linux-64/cmake-1.0-h0.zip"), "not the address"),
        (entry(url="ftp://host.invalid/x/linux-64/cmake-1.0-h0.conda"), "not the address"),
        (entry(url="cmake-1.0-h0.conda"), "not the address"),
    ],
)
def test_what_cannot_be_checked_is_refused(text: str, why: str) -> None:
    with pytest.raises(RecipeError, match="cannot be used") as caught:
        read_lock(text)
    assert why in caught.value.why


@pytest.mark.parametrize(
    "base",
    [
        "https://user:pa%3Ass@conda.example.invalid/forge",
        "https://conda.example.invalid/t/tk-abc-123/forge",
        "https://user:pass@conda.example.invalid/t/tk-abc-123/forge",
    ],
)
def test_credentials_that_another_tool_wrote_are_not_kept(base: str) -> None:
    written = write_lock(lock(package("cmake", base=base), channels=(base,)))
    text = write_lock(read_lock(written))
    assert read_lock(text).packages[0].url == f"{BASE}/linux-64/cmake-1.0-h0.conda"
    for secret in ("user", "pa%3Ass", "pass", "tk-abc"):
        assert secret not in text
