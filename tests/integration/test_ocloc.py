"""The offline compiler: the real one of Debian is asked, and plans meet a stand-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.cli import Xpubuild
from support.ocloc_standin import EVERY, LTS_2350, add_module, add_ocloc

from xpubuild.doctor.checks.driver import driver_ocloc
from xpubuild.doctor.kit import Look
from xpubuild.machine.host_report import host_report
from xpubuild.machine.ocloc import driver_folders, find_ocloc, try_ocloc
from xpubuild.recipe.load import load

SYSTEM = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xpubuild:
    return Xpubuild(capsys, monkeypatch)


@pytest.fixture
def oneapi(tmp_path: Path) -> Path:
    """An installation as Intel's installer leaves it: without ocloc, which the GPU driver brings."""
    root = standin.build_root(tmp_path / "oneapi", standin.BUNDLE_2025_3)
    (root / "compiler/2025.3/bin/ocloc").unlink()
    return root


def fake_gcc(folder: Path, version: str) -> Path:
    """Put gcc and g++ that only state a version into a folder."""
    folder.mkdir(exist_ok=True)
    for name in ("gcc", "g++"):
        path = folder / name
        path.write_text(
            f"#!/bin/sh\necho 'Target: x86_64-linux-gnu' >&2\necho 'gcc version {version} ()' >&2\n"
        )
        path.chmod(0o755)
    return folder


def said(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.needs("ocloc")
def test_the_real_one_compiles_for_max_and_names_the_target_that_it_does_not_know() -> None:
    program = find_ocloc(SYSTEM)
    assert program is not None
    assert try_ocloc(program, ("pvc",), SYSTEM).ok
    together = try_ocloc(program, ("pvc", "tomorrow"), SYSTEM)
    assert (together.ok, together.unknown) == (False, ("tomorrow",))
    assert try_ocloc(program, ("tomorrow",), SYSTEM).unknown == ("tomorrow",)


def test_one_that_ends_well_and_makes_nothing_has_compiled_nothing(tmp_path: Path) -> None:
    program = add_ocloc(tmp_path, before="exit 0")
    answer = try_ocloc(str(program), ("pvc",), SYSTEM)
    assert not answer.ok
    assert answer.unknown == ()
    assert "without a device image" in answer.words


def test_flash_attention_for_a_target_that_ocloc_does_not_know_is_refused(
    xpubuild: Xpubuild, oneapi: Path, tmp_path: Path
) -> None:
    """The failing build: GCC 13, LTS 2350, --arch pvc. Only the sycl-tla files are compiled for bmg too."""
    lts = add_ocloc(tmp_path / "lts", LTS_2350).parent
    gcc = fake_gcc(tmp_path / "gcc", "13.2.0")
    path = f"{gcc}:{lts}:/usr/bin:/bin"
    args = ("plan", "2.12", "--oneapi-root", str(oneapi), "--arch", "pvc")
    refused = xpubuild(*args, PATH=path)
    assert refused.status == 22
    assert "ocloc here does not know bmg, and --arch does not change these targets" in said(refused.err)
    assert "set CC and CXX to GCC 12 or older" in said(refused.err)
    fake_gcc(gcc, "12.3.0")
    plan = xpubuild.json(*args, PATH=path)
    assert any("flash attention" in item for item in plan["summary"]["loses"])
    fake_gcc(gcc, "13.2.0")
    add_ocloc(lts, EVERY)
    assert xpubuild(*args, PATH=path).status == 0


def test_without_ocloc_no_plan_that_compiles_ahead_of_time(
    xpubuild: Xpubuild, oneapi: Path, tmp_path: Path
) -> None:
    gcc = fake_gcc(tmp_path / "gcc", "12.3.0")
    environment = {"PATH": f"{gcc}:{_without_ocloc(tmp_path)}"}
    refused = xpubuild("plan", "2.12", "--oneapi-root", str(oneapi), **environment)
    assert refused.status == 40
    assert "ocloc, the GPU driver's offline compiler, was not found" in said(refused.err)
    plan = xpubuild.json("plan", "2.12", "--oneapi-root", str(oneapi), "--arch", "none", **environment)
    assert plan["summary"]["arch"] == "none"


def test_a_module_s_ocloc_needs_the_folders_that_builds_do_not_get(
    xpubuild: Xpubuild, oneapi: Path, tmp_path: Path
) -> None:
    """A shell with the module: ocloc runs in it, and not in the build, whose environment is clean."""
    programs, libraries = add_module(tmp_path / "a module", EVERY)
    gcc = fake_gcc(tmp_path / "gcc", "12.3.0")
    shell = {"PATH": f"{programs}:{gcc}:/usr/bin:/bin", "LD_LIBRARY_PATH": f"/nowhere:{libraries}"}
    args = ("plan", "2.12", "--oneapi-root", str(oneapi))
    refused = xpubuild(*args, **shell)
    assert refused.status == 40
    assert f"export XPUBUILD_EXTRA_LIBRARY_PATH='{libraries}'" in said(refused.err)
    plan = xpubuild.json(*args, XPUBUILD_EXTRA_LIBRARY_PATH=str(libraries), **shell)
    whole = xpubuild.json(
        *args, "--extra-path", str(programs), "--extra-library-path", str(libraries),
        PATH=f"{gcc}:{_without_ocloc(tmp_path)}",
    )  # fmt: skip
    for document, prefix in ((plan, False), (whole, True)):
        command = _torch(document)
        assert command["env"]["LD_LIBRARY_PATH"].split(":")[-1] == str(libraries)
        assert (str(programs) in command["path_prefix"]) == prefix
    verify = next(step for step in plan["steps"] if step["id"] == "verify")
    assert str(libraries) in verify["commands"][0]["env"]["LD_LIBRARY_PATH"]
    gone = xpubuild(*args, "--extra-library-path", str(tmp_path / "gone"), **shell)
    assert gone.status == 2
    assert "--extra-library-path" in gone.err
    gone = {"XPUBUILD_EXTRA_PATH": str(tmp_path / "gone")}
    assert xpubuild(*args, "--target", "cpu", **gone, **shell).status == 0, "builds for the CPU do not use it"


def test_doctor_compiles_in_the_environment_of_a_build(tmp_path: Path) -> None:
    programs, libraries = add_module(tmp_path / "module", LTS_2350)
    shell = {"PATH": f"{programs}:/usr/bin:/bin", "LD_LIBRARY_PATH": str(libraries)}
    outcome = driver_ocloc(_context(shell))
    assert outcome.status == "warn"
    assert "builds do not get" in outcome.detail
    assert outcome.fix is not None
    (command,) = outcome.fix.commands
    name, _, value = command.removeprefix("export ").partition("=")
    assert driver_ocloc(_context({**shell, name: value})).detail.endswith("compiles for pvc")
    older = driver_ocloc(_context({**shell, name: value}, "2.9"))
    assert (older.status, older.evidence["targets"]) == ("ok", "pvc")


def test_doctor_asks_for_exactly_what_the_recipe_will(tmp_path: Path) -> None:
    """``ocloc ids bmg`` may end well; the kernel for sycl-tla's targets does not."""
    lts = add_ocloc(tmp_path / "lts", LTS_2350).parent
    gcc = fake_gcc(tmp_path / "gcc", "13.2.0")
    shell = {"PATH": f"{gcc}:{lts}:/usr/bin:/bin"}
    outcome = driver_ocloc(_context(shell, "2.14"))
    assert outcome.status == "fail"
    assert "does not know bmg, which flash attention (sycl-tla) is compiled for" in outcome.detail
    assert (
        driver_ocloc(_context({"PATH": f"{fake_gcc(gcc, '12.2.0')}:{lts}:/usr/bin:/bin"}, "2.14")).status
        == "ok"
    )


def test_folders_of_the_driver_are_found_by_their_libraries(tmp_path: Path) -> None:
    for name in ("libze_intel_gpu.so.1", "libigc.so.2", "libother.so"):
        (tmp_path / name.split(".")[0]).mkdir()
        (tmp_path / name.split(".")[0] / name).touch()
    folders = [str(tmp_path / name) for name in ("libother", "libigc", "libze_intel_gpu", "libigc")]
    assert driver_folders(":".join(("", ".", *folders))) == (folders[1], folders[2])


def _context(environ: dict[str, str], recipe: str | None = None) -> Look:
    return Look(host_report(environment=environ), environ, recipe=load(recipe) if recipe else None)


def _without_ocloc(tmp_path: Path) -> str:
    """Return a PATH with the programs that a plan starts and no ocloc, whatever this machine has."""
    folder = tmp_path / "programs"
    folder.mkdir(exist_ok=True)
    for program in Path("/usr/bin").iterdir():
        link = folder / program.name
        if program.name != "ocloc" and not link.is_symlink():
            link.symlink_to(program)
    return str(folder)


def _torch(plan: dict[str, Any]) -> dict[str, Any]:
    *_, command = next(step for step in plan["steps"] if step["id"] == "torch.wheel")["commands"]
    found: dict[str, Any] = command
    return found
