"""The real pip in a network namespace of its own: it installs from the mirror, and only what is right."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.artifacts import pack
from support.indexes import sha256

from xpubuild.engine.environment import base_environment
from xpubuild.errors import SourceIntegrityError
from xpubuild.machine.make_env import make_env
from xpubuild.machine.pip_failures import explain_pip_failure
from xpubuild.machine.python_environment import env_python, install_command
from xpubuild.machine.pythons import resolve_python
from xpubuild.supply.index.pipconf import links_page, offline_environment

NO_NETWORK = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spaces änd more") / "my env"
    make_env(path, resolve_python(None, base_environment()))
    return path


@pytest.fixture(autouse=True)
def _nothing_installed(env: Path) -> None:
    subprocess.run(
        [env_python(env), "-m", "pip", "uninstall", "-q", "-y", "demo"], check=True, capture_output=True
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return pack(
        tmp_path / "my mirror é" / "files", "demo", "1.0", {"demo.py": b"x = 1\n"}, tag="py3-none-any"
    )


def folder_of(wheel: Path) -> dict[str, str]:
    return offline_environment(wheel.parent)


def page_of(wheel: Path) -> dict[str, str]:
    page = wheel.parents[1] / "wheels.html"
    page.write_text(links_page([(f"files/{wheel.name}", wheel.name, sha256(wheel.read_bytes()))]), "utf-8")
    return offline_environment(page.as_uri())


PLACES: list[Callable[[Path], dict[str, str]]] = [folder_of, page_of]


def install(
    env: Path, overlay: dict[str, str], *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NO_NETWORK, *words], env={**base_environment(), **variables, **overlay}, cwd=env.parent,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def pinned(folder: Path, digest: str) -> str:
    path = folder / "pinned é.txt"
    path.write_text(f"demo==1.0 --hash=sha256:{digest}\n", "utf-8")
    return str(path)


def version(env: Path) -> str:
    done = subprocess.run(
        [env_python(env), "-c", "import demo; print(demo.x)"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


@pytest.mark.parametrize("place", PLACES)
def test_pip_installs_from_a_mirror_with_blanks_in_its_name(
    env: Path, wheel: Path, tmp_path: Path, place: Callable[[Path], dict[str, str]]
) -> None:
    """The planned command and its alternative with an own index; the caller's settings do not count."""
    command = install_command(
        str(env), pinned(tmp_path, sha256(wheel.read_bytes())), indexes=["https://index.example/whl"]
    )
    other = pack(tmp_path / "other", "demo", "2.0", {"demo.py": b"x = 2\n"}, tag="py3-none-any")
    mine = {
        "PIP_INDEX_URL": "https://index.example/simple", "PIP_EXTRA_INDEX_URL": "https://second.example/simple",
        "PIP_FIND_LINKS": str(other.parent), "PIP_CONFIG_FILE": "/not/there", "PIP_NO_BINARY": ":all:",
        "PIP_CERT": "/not/there", "PIP_PROXY": "http://127.0.0.1:1",
    }  # fmt: skip
    overlay = place(wheel)
    for argv in (command.argv, *command.alternatives):
        done = install(env, overlay, *argv, **mine)
        assert done.returncode == 0, done.stdout + done.stderr
        assert version(env) == "1"
        assert "example" not in re.sub(r"Looking in (indexes|links).*", "", done.stdout + done.stderr)
        _uninstall(env)
    # Without the overlay the same command finds nothing that fits.
    assert install(env, {}, *command.argv, **mine, PIP_RETRIES="0").returncode != 0


def _uninstall(env: Path) -> None:
    subprocess.run(
        [env_python(env), "-m", "pip", "uninstall", "-q", "-y", "demo"], check=True, capture_output=True
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_wheel_with_a_flipped_byte_is_refused(
    env: Path, wheel: Path, tmp_path: Path, place: Callable[[Path], dict[str, str]]
) -> None:
    command = install_command(str(env), pinned(tmp_path, sha256(wheel.read_bytes())))
    overlay = place(wheel)
    flip(wheel)
    done = install(env, overlay, *command.argv)
    assert done.returncode != 0
    assert version(env) == ""
    error = explain_pip_failure((done.stdout + done.stderr).splitlines())
    assert isinstance(error, SourceIntegrityError)
    assert "demo" in error.what


def test_a_page_with_hashes_protects_what_no_requirement_file_pins(env: Path, wheel: Path) -> None:
    overlay = page_of(wheel)
    words = (env_python(env), "-I", "-m", "pip", "install", "--only-binary", ":all:", "demo==1.0")
    assert install(env, overlay, *words).returncode == 0
    _uninstall(env)
    flip(wheel)
    done = install(env, overlay, *words)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert version(env) == ""


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_what_is_not_in_the_mirror_is_not_found(env: Path, wheel: Path) -> None:
    words = (env_python(env), "-I", "-m", "pip", "install", "--only-binary", ":all:", "ninja")
    done = install(env, folder_of(wheel), *words)
    assert done.returncode != 0
    assert "No matching distribution found for ninja" in done.stderr
