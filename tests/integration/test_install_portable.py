"""``install --portable``: a step of the plan, whose wheel is installed, recorded and handed out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.small_world import SmallWorld, small_world
from support.documents import check

from xpubuild.artifacts.wheel import record_of

#: Packs a library that the compiler of the host made, with a folder of the builder as RPATH.
_BACKEND = r"""import base64, hashlib, pathlib, subprocess, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    library = pathlib.Path(folder) / "ext.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-Wl,-rpath,/opt/builder"],
                   input="int answer(void) { return 42; }", text=True, check=True)
    info, name = "mine-1.0.dist-info", "mine-1.0-py3-none-linux_x86_64.whl"
    files = {
        "mine/__init__.py": pathlib.Path("mine.py").read_bytes(),
        "mine/ext.so": library.read_bytes(),
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: false\n"
            b"Tag: py3-none-linux_x86_64\n",
    }
    library.unlink()
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return name
"""
_MODULE = """import ctypes, pathlib
value = ctypes.CDLL(str(pathlib.Path(__file__).with_name("ext.so"))).answer()
"""
pytestmark = pytest.mark.needs("g++")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    files = {"backend.py": _BACKEND, "mine.py": _MODULE}
    with small_world(tmp_path_factory.mktemp("world"), files) as made:
        yield made


def test_the_portable_wheel_is_installed_recorded_and_handed_out(world: SmallWorld, tmp_path: Path) -> None:
    words = ("--portable", "--wheel-dir", str(tmp_path / "out"), "--json")
    result = world.install(*words)
    assert result.status == 0, result.err
    receipt = check(json.loads(result.out), "receipt")
    (made,) = receipt["wheels"]
    wheel = Path(made["path"])
    assert wheel.parent == world.workspace / "wheels/portable"
    assert wheel.name.startswith("mine-1.0-py3-none-manylinux_2_")
    assert [item["rpath"] for item in made["objects"]] == [[]]
    assert (tmp_path / "out" / wheel.name).read_bytes() == wheel.read_bytes()
    assert "mine-1.0.dist-info/xpubuild-repair.json" in record_of(wheel)
    python = str(world.workspace / "env/bin/python")
    shown = subprocess.run(
        [python, "-c", "import mine; print(mine.value)"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "42\n"
    assert (world.site / "mine-1.0.dist-info/xpubuild-repair.json").is_file()
    steps = {step["id"]: step["status"] for step in receipt["steps"]}
    assert steps["mine.portable"] == steps["mine.install"] == "done"
    assert world("check", "--workspace", str(world.workspace)).status == 0

    # Again, there is nothing to do; without the option, the built wheel is installed, and not built anew.
    assert json.loads(world.install(*words).out)["ran"] == []
    plain = json.loads(world.install("--json").out)
    assert plain["ran"] == ["mine.install"]
    assert [item["file"] for item in plain["wheels"]] == ["mine-1.0-py3-none-linux_x86_64.whl"]


def test_an_editable_install_has_no_wheel_to_repair(world: SmallWorld) -> None:
    result = world.install("--portable", "--editable")
    assert (result.status, "--editable" in result.err) == (2, True)
