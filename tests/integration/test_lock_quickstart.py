"""The lock of the real quickstart: the same bytes everywhere, checked through the command line."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cli import XPUBUILD, Xpubuild
from support.documents import check

from xpubuild.errors import LockMismatchError, RecipeError
from xpubuild.install.lock_file import dump, read_lock
from xpubuild.resources import recipes_dir


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lock")
    written = folder / "quickstart.lock.yaml"
    subprocess.run([*XPUBUILD, "lock", "quickstart", "-q"], cwd=folder, check=True, timeout=120)
    return written


def elsewhere(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of somebody else: nothing of it may be in a lock."""
    home = folder / "home of ünser user"
    home.mkdir(parents=True)
    return {
        **os.environ,
        "HOME": str(home),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TMPDIR": str(folder),
        "USER": "somebody",
        "LOGNAME": "somebody",
        "GIT_AUTHOR_NAME": "Some Body",
        "GIT_COMMITTER_DATE": "2001-01-01T00:00:00 +0900",
        **variables,
    }


def test_another_folder_user_and_language_give_the_same_bytes(lock: Path, tmp_path: Path) -> None:
    folder = tmp_path / "another place"
    folder.mkdir()
    argv = [
        *XPUBUILD,
        "lock",
        "quickstart",
        "--workspace",
        str(folder / "w s"),
        "--jobs",
        "1",
        "-o",
        "x.yaml",
    ]
    env = elsewhere(folder, TZ="America/New_York", LC_ALL="tr_TR.UTF-8", PYTHONHASHSEED="2", COLUMNS="20")
    done = subprocess.run(
        argv, cwd=folder, env=env, umask=0o077, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "x.yaml").read_bytes() == lock.read_bytes()
    assert not (folder / "w s").exists()


def test_nothing_of_the_machine_is_in_it(lock: Path) -> None:
    text = lock.read_text()
    for incidental in (str(Path.cwd()), str(lock.parent), socket.gethostname(), f"/{getpass.getuser()}"):
        assert incidental not in text
    assert "file://" not in text


def test_every_input_of_the_quickstart_is_in_it(lock: Path) -> None:
    found = read_lock(lock)
    assert found.options.components == ["torch", "ops"]
    ops = found.repositories["ops"]
    assert ops.url == "embedded://ops"
    assert [(path, item.url) for path, item in ops.submodules.items()] == [
        ("third_party/fused", "embedded://fused"),
        ("third_party/fused/third_party/vecmath", "embedded://vecmath"),
    ]
    for name, file in found.requirements.items():
        text = (recipes_dir() / name).read_text()
        assert sum(len(pin.hashes or ()) for pin in file.pins.values()) == text.count("--hash=sha256:")
        assert len(file.pins) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
    assert found.machine.compilers["cxx"].startswith("gcc ")


def test_the_documents_are_as_their_schemas_say(lock: Path, xpubuild: Xpubuild, tmp_path: Path) -> None:
    file = str(tmp_path / "a.yaml")
    first = check(xpubuild.json("lock", "quickstart", "-o", file), "written-lock")
    assert first["changed"]
    assert first["repositories"] == 3
    again = check(xpubuild.json("lock", "quickstart", "-o", file), "written-lock")
    assert not again["changed"]
    verified = check(xpubuild.json("check", file, "--lock-policy", "exact"), "verify-lock")
    assert (verified["status"], verified["lock"]) == ("ok", first["lock"])
    assert Path(file).read_bytes() == lock.read_bytes()


def test_a_new_lock_says_what_it_changes(lock: Path, xpubuild: Xpubuild, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    old = read_lock(lock)
    options = old.options.model_copy(update={"packages": "conda"})
    file.write_text(dump(old.model_copy(update={"options": options})))
    result = xpubuild.ok("lock", "quickstart", "-o", str(file))
    assert "options.packages" in result.err
    assert "conda" in result.err
    assert file.read_bytes() == lock.read_bytes()
    file.write_text(lock.read_text().replace("3.31.10", "3.31.11"))
    result = xpubuild.ok("lock", "quickstart", "-o", str(file))
    assert "is replaced: the lock was edited" in result.err
    assert file.read_bytes() == lock.read_bytes()


def test_a_recipe_that_changed_is_named(lock: Path, xpubuild: Xpubuild, tmp_path: Path) -> None:
    text = (recipes_dir() / "quickstart.yaml").read_text()
    (tmp_path / "quickstart.yaml").write_text(text.replace(">=11.3", ">=11.2"))
    recipes = str(tmp_path)
    assert xpubuild("check", str(lock), XPUBUILD_RECIPES=recipes).status == 21
    result = xpubuild("check", str(lock), "--recipe", str(tmp_path / "quickstart.yaml"), "--json")
    assert result.status == 21
    document = check(result.document(), "verify-lock")
    assert [item["path"] for item in document["differences"]] == [
        "recipe.needs.gcc",
        "plan",
    ]
    (tmp_path / "quickstart.yaml").write_text(text.replace("  ops:", "  spo:").replace("[ops]", "[spo]"))
    result = xpubuild("check", str(lock), XPUBUILD_RECIPES=recipes)
    assert result.status == 21
    assert "component 'ops'" in result.err


def conda_lock(path: Path, cmake: str) -> str:
    """Write a conda-lock.yml of packages that nobody has."""
    names = {"python": "3.11.9", "cmake": cmake, "ninja": "1.12", "mkl-static": "1", "mkl-include": "1"}
    packages = [
        {
            "name": name, "version": version, "manager": "conda", "platform": "linux-64", "dependencies": {},
            "url": f"https://host.example/t/tk-secret/conda-forge/linux-64/{name}-{version}-0.conda",
            "hash": {"md5": "0" * 32, "sha256": "1" * 64}, "category": "main", "optional": False,
        }
        for name, version in names.items()
    ]  # fmt: skip
    channels = [{"url": "https://host.example/conda-forge", "used_env_vars": []}]
    metadata = {
        "content_hash": {"linux-64": "a" * 64},
        "channels": channels,
        "platforms": ["linux-64"],
        "sources": [],
    }
    path.write_text(yaml.safe_dump({"version": 1, "metadata": metadata, "package": packages}))
    return str(path)


def test_the_packages_of_a_conda_environment_are_in_it(xpubuild: Xpubuild, tmp_path: Path) -> None:
    packages = conda_lock(tmp_path / "conda-lock.yml", "3.31.6")
    file = tmp_path / "x.yaml"
    xpubuild.ok("lock", "quickstart", "--packages", "conda", "--conda-lock", packages, "-o", str(file))
    conda = read_lock(file).conda
    assert conda is not None
    assert conda["cmake"].file == "conda-forge/linux-64/cmake-3.31.6-0.conda"
    assert "tk-secret" not in file.read_text()
    assert "host.example" not in file.read_text()
    argv = ("check", str(file), "--conda-lock", packages, "--json")
    assert xpubuild.ok(*argv).document()["status"] == "ok"
    conda_lock(tmp_path / "conda-lock.yml", "3.31.7")
    result = xpubuild(*argv)
    assert result.status == 21
    assert "does not match: conda.cmake.version" in result.err


def test_files_that_are_no_lock(xpubuild: Xpubuild, tmp_path: Path) -> None:
    file = tmp_path / "x.lock.yaml"
    file.write_bytes((recipes_dir() / "quickstart.yaml").read_bytes())
    result = xpubuild("check", str(file))
    assert result.status == 20
    assert f"{file} is not" in result.err
    assert xpubuild("check", str(tmp_path / "none.lock.yaml")).status == 20
    assert xpubuild("check", str(tmp_path)).status == 2, "a folder is no lock"


@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_character_of_a_real_lock_is_found_or_changes_no_value(
    lock: Path, tmp_path: Path, data: st.DataObject
) -> None:
    text, flipped = lock.read_text(), tmp_path / "flipped.yaml"
    place = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters(max_codepoint=126).filter(lambda one: one != text[place]))
    flipped.write_text(text[:place] + character + text[place + 1 :])
    with contextlib.suppress(RecipeError, LockMismatchError):
        assert read_lock(flipped) == read_lock(lock)
