"""What a requirement file leaves out on purpose is not there, and nothing else is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.errors import ToolchainError
from xpubuild.install.complete import CompleteProof

LEFT_OUT = ("intel-openmp", "tbb")


def install(site: Path, name: str, version: str, *requires: str) -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {item}" for item in requires)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n\n")
    (info / "RECORD").write_text(f"{info.name}/METADATA,,\n{info.name}/RECORD,,\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    install(folder, "mkl-static", "2026.0.0", "intel-openmp>=2023", "TBB==2021.*", "mkl-include==2026.0.0")
    install(folder, "mkl-include", "2026.0.0")
    return folder


def proof(site: Path, *names: str, left_out: tuple[str, ...] = LEFT_OUT) -> CompleteProof:
    return CompleteProof(str(site), "3.12.3", ("mkl-static", "mkl-include", *names), left_out)


def test_it_says_who_declares_what_is_left_out(site: Path) -> None:
    assert proof(site).check() == {"left_out": {"intel-openmp": ["mkl-static"], "tbb": ["mkl-static"]}}


def test_a_dependency_that_nobody_left_out_is_missing(site: Path) -> None:
    with pytest.raises(ToolchainError, match="match the recipe's requirement files") as caught:
        proof(site, left_out=("tbb",)).check()
    assert "mkl-static 2026.0.0 needs intel-openmp>=2023, which is not installed" in caught.value.why


def test_another_version_is_told(site: Path) -> None:
    install(site, "jinja2", "3.1", "markupsafe>=2.0", "babel>=2.7; extra == 'i18n'")
    install(site, "markupsafe", "1.1")
    with pytest.raises(ToolchainError) as caught:
        proof(site, "jinja2").check()
    assert caught.value.why == "jinja2 3.1 needs markupsafe>=2.0, but 1.1 is installed"


def test_the_markers_are_those_of_the_environment_and_not_of_this_python(site: Path) -> None:
    install(site, "old", "1", 'tomli; python_version < "3.11"', 'newer; python_full_version >= "3.13"')
    proof(site, "old").check()
    with pytest.raises(ToolchainError, match="requirement files"):
        CompleteProof(str(site), "3.10.2", ("old",), ()).check()


def test_what_an_earlier_installation_left_is_found(site: Path) -> None:
    install(site, "tbb", "2021.13.1")
    with pytest.raises(ToolchainError) as caught:
        proof(site).check()
    assert "before the libraries of oneAPI" in caught.value.why
    assert caught.value.commands[0].endswith("env/bin/python -m pip uninstall --yes tbb")


def test_of_components_only_what_is_missing_counts(site: Path) -> None:
    install(site, "triton-xpu", "3.7.0", "pyelftools", "importlib-metadata; python_version < '3.10'", "tbb")
    names = ("triton-xpu", "not-here")
    with pytest.raises(ToolchainError) as caught:
        CompleteProof(str(site), "3.12.3", names, LEFT_OUT, of_components=True).check()
    assert caught.value.why == "triton-xpu 3.7.0 needs pyelftools, which is not installed"
    install(site, "pyelftools", "0.33")
    install(site, "tbb", "2022.1")
    found = CompleteProof(str(site), "3.12.3", names, LEFT_OUT, of_components=True).check()
    assert found == {"left_out": {"tbb": ["triton-xpu"]}}
