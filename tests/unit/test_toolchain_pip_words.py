"""What pip, in all its versions, says before it fails, and what is made of it: errors whole."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from xpubuild.errors import ToolchainError
from xpubuild.machine.pip_failures import explain_pip_failure, not_fetched
from xpubuild.recipe.load import load
from xpubuild.resources import recipes_dir
from xpubuild.supply.conda.solve import kind_of

INDEX = "https://extra.example/whl"
MISSING = "ERROR: No matching distribution found for torch==2.13.0+cpu"
LOCAL = "ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)"
OTHERS = "versions that require a different python version"
BROKEN = (
    "Max retries exceeded with url: /x (host='h.example')", "Read timed out. https://u:p@h.example/a",
    "Connection timed out", "ConnectionResetError(104)", "NewConnectionError", "NameResolutionError",
    "Network is unreachable", "ProxyError('x')", "407 Proxy Authentication Required", "SSLError(1)",
    "CERTIFICATE_VERIFY_FAILED", "problem confirming the ssl certificate", "IncompleteRead(1)",
    "error: incomplete-download", "Download failed", "HTTP error 503 while getting https://h.example/a",
    "403 Client Error: x for url: https://h.example/simple/a/", "429 Client Error", "502 Server Error",
    "connection broken by 'x': /simple/a/",
)  # fmt: skip


@pytest.mark.parametrize("line", BROKEN)
def test_words_for_a_network_that_fails(line: str) -> None:
    assert explain_pip_failure(["first", f"WARNING: {line}", "last"]).exit_code == 30
    assert not_fetched([line], "a==1") is not None


@pytest.mark.parametrize(
    ("tail", "indexes"),
    [
        (["OSError: Disk quota exceeded  "], ()), (["x", "Errno 122 y"], ()), (["Errno 280"], ()),
        (["THESE PACKAGES DO NOT MATCH THE HASHES", "    a==1 from x:", "    b==2: y", "  Expected 1",
          " Got  2", "no"], ()),
        (["DO NOT MATCH THE HASHES", ""], ()),
        ([LOCAL, MISSING, f"{OTHERS}: 2.13.0+cpu Requires-Python >=3.99"], ()),
        ([f"{OTHERS}: 2 Requires-Python >=3", MISSING], ()),
        (["a requires Python '>=3.99' but the running Python is 3.1"], ()), ([LOCAL], ()), ([MISSING], ()),
        ([MISSING], (INDEX,)), (["connection broken by x: host='extra.example'", MISSING], (INDEX, "/local")),
        (["Read timed out https://extra.example/a", "Read timed out host='other'", MISSING], (INDEX,)),
        (["Read timed out", MISSING], ()),
        (["connection broken by 'x': /whl/torch/", LOCAL], ()), (["error: lower"], ()),
        (["plain", "ERROR:bare"], ()),
        (["text"], ()),
    ],
    ids=range(18),
)  # fmt: skip
def test_the_error_of_a_tail(tail: list[str], indexes: tuple[str, ...]) -> None:
    assert explain_pip_failure(tail, indexes=indexes).fix


def test_retries_that_may_go_well_are_no_failure() -> None:
    assert not_fetched(["connection broken by x Retry(total=3, x)"], "a") is None
    assert not_fetched(["connection broken by x Retry(total=0, x)"], "a") is not None
    assert not_fetched(["nothing", ""], "a") is None


# ---- The hashed requirement files: complete, portable, consistent with each other


FOLDER = recipes_dir() / "requirements"
FILES = sorted(FOLDER.glob("*.txt"))
TORCH = FOLDER / "torch-2.13.0-cpu.txt"
TOOLCHAIN = FOLDER / "quickstart-toolchain.txt"
TOOLCHAINS = [path for path in FILES if "mkl-static==" in path.read_text("utf-8")]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Made by hashing the wheel itself.
TORCH_CP311 = "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "scripts" / "update-requirements.py"
    spec = importlib.util.spec_from_file_location("update_requirements", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def entries(path: Path) -> dict[str, tuple[Requirement, list[str]]]:
    """Return "name marker" -> requirement and hashes."""
    joined = path.read_text("utf-8").replace("\\\n", " ")
    found = {}
    for line in joined.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement = Requirement(line.partition("--hash")[0].strip())
            found[f"{requirement.name} {requirement.marker}"] = (
                requirement,
                re.findall(r"--hash=sha256:(\S+)", line),
            )
    return found


def pins_for(path: Path, python: str) -> dict[str, str]:
    environment = {"python_version": python, "python_full_version": f"{python}.1", "sys_platform": "linux"}
    return {
        requirement.name: str(requirement.specifier)
        for requirement, _ in entries(path).values()
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }


@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_gets_each_package_once_and_both_files_agree(python: str) -> None:
    toolchain, torch = pins_for(TOOLCHAIN, python), pins_for(TORCH, python)
    for name in ("cmake", "ninja", "mkl-static", "mkl-include", "scikit-build-core", "setuptools"):
        assert name in toolchain
    for name in ("torch", "filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "sympy"):
        assert name in torch
    assert {name: toolchain[name] for name in toolchain.keys() & torch.keys()} == {
        name: torch[name] for name in toolchain.keys() & torch.keys()
    }


@pytest.mark.parametrize("path", TOOLCHAINS, ids=lambda path: path.name)
def test_what_shadows_oneapi_is_left_out(path: Path, tool: ModuleType) -> None:
    """pip gets it from mkl-static, whose archives need none of it."""
    names = {name for python in PYTHONS for name in pins_for(path, python)}
    assert {"mkl-static", "mkl-include"} <= names
    assert not {name for name in names if kind_of(name)}
    left_out = tool.left_out(path.with_suffix(".in").read_text("utf-8"))
    assert {"intel-openmp", "tbb", "tcmlib", "umf"} <= set(left_out)
    assert all(kind_of(name) for name in left_out)
    assert ", ".join(left_out) in path.read_text("utf-8").splitlines()[1]
    recipes = [load(place.stem).recipe.toolchain for place in recipes_dir().glob("*.yaml")]
    users = [tools for tools in recipes if any(Path(file).name == path.name for file in tools.requirements)]
    assert users
    assert all(set(left_out) <= set(tools.leave_out) for tools in users)


def test_the_tool_leaves_out_what_the_list_says(tool: ModuleType, tmp_path: Path) -> None:
    compiled = "".join(
        f"{name}==1 \\\n    --hash=sha256:{'1' * 64}\n" for name in ("mkl_static", "Tbb", "umf")
    )
    names = tool.left_out("mkl-static==1  # x\n# leave out: tbb\n# leave out: UMF\n")
    assert names == ["tbb", "umf"]
    text = tool.render(tmp_path / "x.in", compiled, tool.Listed(), names)
    assert re.findall(r"^(\S+)==", text, re.MULTILINE) == ["mkl_static"]
    with pytest.raises(ToolchainError, match="nothing declares tcmlib"):
        tool.render(tmp_path / "x.in", compiled, tool.Listed(), ["tcmlib", "umf"])


def test_torch_is_the_cpu_build_and_comes_first() -> None:
    requirement, hashes = next(iter(entries(TORCH).values()))
    assert str(requirement) == "torch==2.13.0+cpu"
    assert TORCH_CP311 in hashes
    assert "+cpu" not in "".join(line for line in TOOLCHAIN.read_text("utf-8"))


def test_torch_hashes_cover_every_python_and_name_their_sources() -> None:
    listing = TORCH.with_suffix(".sha256").read_text("utf-8")
    lines = [line.split("  ") for line in listing.splitlines() if not line.startswith("#")]
    wheels = {name: digest for digest, name in lines}
    tags = {tag for name in wheels for tag in map(str, parse_wheel_filename(name)[3])}
    for python in PYTHONS:
        abi = "cp" + python.replace(".", "")
        assert f"{abi}-{abi}-manylinux_2_28_x86_64" in tags
    _, hashes = next(iter(entries(TORCH).values()))
    assert sorted(wheels.values()) == hashes
    text = TORCH.read_text("utf-8")
    assert "github.com/cdeust/Cortex, uv.lock" in text
    assert "github.com/asanderson/llm-redact, scripts/cpu_torch.py" in text


def test_rendering_puts_listed_hashes_in_and_first(tool: ModuleType, tmp_path: Path) -> None:
    one, two = "1" * 64, "2" * 64
    listing = tmp_path / "x.sha256"
    listing.write_text(f"# from somewhere\n{two}  big-1.0+cpu-cp310-cp310-linux_x86_64.whl\n"
                       f"{one}  big-1.0+cpu-cp311-cp311-linux_x86_64.whl\n")  # fmt: skip
    listed = tool.read_listed(listing)
    compiled = (
        f"aaa==1 \\\n    --hash=sha256:{two}\n    # via big\n"
        f"big==1.0+cpu \\\n    --hash=sha256:{one}\n    # via x\n"
    )
    text = tool.render(tmp_path / "x.in", compiled, listed)
    assert text.splitlines()[1:] == [
        "# from somewhere",
        "big==1.0+cpu \\",
        f"    --hash=sha256:{one} \\",
        f"    --hash=sha256:{two}",
        "    # via x",
        "aaa==1 \\",
        f"    --hash=sha256:{two}",
        "    # via big",
    ]


def test_a_wheel_that_is_not_listed_stops_the_tool(tool: ModuleType, tmp_path: Path) -> None:
    listing = tmp_path / "x.sha256"
    listing.write_text(f"{'1' * 64}  big-1.0-cp310-cp310-linux_x86_64.whl\n")
    with pytest.raises(ToolchainError, match="does not list"):
        tool.render(
            tmp_path / "x.in", f"big==1.0 \\\n    --hash=sha256:{'3' * 64}\n", tool.read_listed(listing)
        )
    listing.write_text("nonsense\n")
    with pytest.raises(ToolchainError, match="neither a comment nor a hash"):
        tool.read_listed(listing)
