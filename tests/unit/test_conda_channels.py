"""Channels: names, folders and URLs; credentials are refused and not shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from xpubuild.errors import RecipeError, UnsatisfiableError
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage, resolve, without_credentials
from xpubuild.supply.conda.solve import refuse


@pytest.mark.parametrize(
    ("url", "shown", "secret"),
    [
        ("https://u:pa55word@h.invalid/c", "https://h.invalid/c", "pa55word"),
        ("https://h.invalid/t/tk-1-2-3/c", "https://h.invalid/c", "tk-1-2-3"),
        ("https://h.invalid/pre/t/tk-1-2-3", "https://h.invalid/pre", "tk-1-2-3"),
        ("https://onlytoken@h.invalid/c?sig=abcdefgh", "https://h.invalid/c", "onlytoken"),
    ],
)
def test_credentials_are_refused_and_never_shown(url: str, shown: str, secret: str) -> None:
    assert without_credentials(url) == shown
    with pytest.raises(RecipeError, match=r"has a login or a token") as caught:
        resolve([url])
    assert ".netrc" in caught.value.fix
    assert secret not in str(caught.value.to_json())


def test_a_folder_named_t_is_no_token() -> None:
    assert without_credentials("file:///home/t/abc/channel") == "file:///home/t/abc/channel"


def test_folders_become_urls(tmp_path: Path) -> None:
    folder = tmp_path / "chän nel"
    assert resolve([str(folder), "conda-forge"]) == (folder.as_uri(), "conda-forge")
    assert "%20" in folder.as_uri()


@pytest.mark.parametrize(
    "bad", ["", "-c", "a b", "s3://bucket/x", "https://", "git+ssh://u:secret1@h/x", "http://[x"]
)
def test_what_is_no_channel_is_refused(bad: str) -> None:
    with pytest.raises(RecipeError) as caught:
        resolve([bad])
    assert "secret1" not in str(caught.value.to_json())


# ---- Packages that harm an XPU build


def lock(**needs: str) -> CondaLock:
    """Make a lock of packages and what they need, '_' for '-'."""
    packages = []
    for key, wanted in needs.items():
        name = key.replace("_", "-")
        filename = f"{name}-1-0.conda"
        made = CondaPackage(name, "1", "0", filename, f"file:///c/linux-64/{filename}", "0" * 64, "0" * 32)
        packages.append(dataclasses.replace(made, dependencies=dict.fromkeys(wanted.split(), "")))
    return CondaLock(tuple(packages), (), "")


def test_a_harmful_package_is_refused_and_what_needs_it_is_named() -> None:
    whole = lock(mkl_static="tbb", numpy="libblas", tbb="")
    with pytest.raises(UnsatisfiableError) as caught:
        refuse(whole.packages)
    assert caught.value.exit_code == 22
    assert "the conda package tbb 1 must not be" in caught.value.what
    assert "required by mkl-static" in caught.value.why
    assert caught.value.evidence["through"] == ["mkl-static"]


@pytest.mark.parametrize(
    "name",
    ["tbb", "gxx_linux-64", "level-zero", "intel-sycl-rt", "sysroot_linux-64", "libstdcxx-devel_linux-64"],
)
def test_one_that_is_asked_for_is_refused(name: str) -> None:
    asked = CondaLock(
        (CondaPackage(name, "1", "0", f"{name}-1-0.conda", "file:///c/linux-64/x", "", ""),), (), ""
    )
    with pytest.raises(UnsatisfiableError, match=name):
        refuse(asked.packages)
