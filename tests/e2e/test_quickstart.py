"""What the README promises of the quickstart, shown by running it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
import zipfile
from pathlib import Path

import pytest
from support import documents

from xpubuild.artifacts.wheel import read_wheel
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.verify.catalogue import list_checks

from .conftest import Built, Cli, command, git

pytestmark = pytest.mark.xdist_group("quickstart")


def test_the_receipt_tells_what_was_built_and_proved(built: Built) -> None:
    receipt = documents.check(built.receipt, "receipt")
    assert receipt == {**json.loads((built.workspace / "receipt.json").read_text()), **_run(receipt)}
    assert receipt["status"] == "complete"
    (wheel,) = receipt["wheels"]
    path = Path(wheel["path"])
    assert path.parent == built.workspace / "wheels"
    assert wheel["sha256"] == file_sha256(path)
    assert wheel["abi"] == 1
    assert wheel["findings"] == []
    with zipfile.ZipFile(path) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        assert "Requires-Dist: torch==2.13.0+cpu\n" in archive.read(metadata).decode()
    (library,) = wheel["objects"]
    assert library["abi_counts"]["new"] > 0
    assert library["abi_counts"]["old"] == 0
    assert not [name for name in library["needed"] if "mkl" in name or "iomp" in name]
    assert library["strings"], "MKL's own text must be inside: it is linked statically"
    assert receipt["verify"]["status"] == "pass"
    assert receipt["verify"]["failed"] == receipt["verify"]["crashed"] == receipt["verify"]["timed_out"] == 0
    checks = receipt["verify"]["checks"]
    assert [check["id"] for check in checks] == [c.id for c in list_checks() if "smoke" in c.suites]
    not_passed = {check["id"]: check["status"] for check in checks if check["status"] != "pass"}
    parts = {check["id"] for check in checks if check["id"].startswith(("vision.", "audio."))}
    # A CPU has no streams, and the quickstart neither torchvision nor torchaudio.
    absent = {"runtime.event_timing", "runtime.stream_wait"} | parts
    assert not_passed == dict.fromkeys(absent, "skip")
    (torch,) = (item for item in receipt["prebuilt"] if item["name"] == "torch")
    assert torch["version"] == "2.13.0+cpu"
    assert torch["sha256"]
    steps = {item["step"] for item in receipt["commands"]}
    assert steps >= {"env", "toolchain", "torch", "ops.wheel", "verify"}
    assert all(item["peak_bytes"] > 0 for item in receipt["commands"])


def _run(receipt: dict[str, object]) -> dict[str, object]:
    return {key: receipt[key] for key in ("ran", "up_to_date")}


def test_again_with_another_number_of_jobs_path_and_age_of_the_wheel_does_nothing(
    cli: Cli, built: Built
) -> None:
    Path(built.receipt["wheels"][0]["path"]).touch()
    env = {"PATH": f"{os.environ['PATH']}:/nowhere"}
    words = ("install", "quickstart", "--workspace", built.workspace, "--jobs", "1", "--json")
    again = cli(*words, env=env).must(0).document
    assert again["ran"] == []
    assert len(again["commands"]) == len(built.receipt["commands"])
    assert again["wheels"] == built.receipt["wheels"]


def test_a_damaged_installation_is_noticed_and_mended(cli: Cli, built: Built) -> None:
    (site,) = built.workspace.glob("env/lib/python3*/site-packages")
    lost = site / "xpubuild_ops/__init__.py"
    content = lost.read_bytes()
    lost.unlink()
    again = cli("install", "quickstart", "--workspace", built.workspace, "--json").must(0).document
    assert again["ran"] == ["ops.install"]
    assert lost.read_bytes() == content
    probe = "import torch, xpubuild_ops; print(xpubuild_ops.build_info()['cxx11_abi'])"
    argv = [built.workspace / "env/bin/python", "-W", "ignore", "-c", probe]
    shown = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert shown.stdout.strip() in ("1", "True")


def test_the_plan_of_a_finished_workspace_is_done(cli: Cli, built: Built) -> None:
    plan = cli("plan", "quickstart", "--workspace", built.workspace, "--json").must(0).document
    documents.check(plan, "plan")
    assert {step["state"] for step in plan["steps"]} == {"done"}
    assert plan["lock_digest"] == built.receipt["lock_digest"]
    ran = {tuple(item["argv"]) for item in built.receipt["commands"]}
    shown = {
        tuple(argv)
        for step in plan["steps"]
        for item in step["commands"]
        for argv in (item["argv"], *item.get("alternatives", ()), item.get("shortcut") or ())
    }
    assert ran <= shown, "something ran that the plan does not show"


def test_status_and_env(cli: Cli, built: Built) -> None:
    status = cli("status", "--workspace", built.workspace, "--json").must(0).document
    documents.check(status, "status")
    assert {step["status"] for step in status["steps"]} == {"done"}
    script = 'eval "$("$@")" && python -c "import sys; print(sys.prefix)"'
    argv = ["bash", "-c", script, "bash", *command("env", "--workspace", built.workspace)]
    shown = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == str(built.workspace / "env")


def test_verify_of_the_workspace(cli: Cli, built: Built, tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    checks = ("--only", "ops.swiglu_forward,ops.mkl_sgemm")
    answer = cli("verify", "--workspace", built.workspace, *checks, "--junit", report, "--json").must(0)
    document = documents.check(answer.document, "verify")
    assert document["status"] == "pass"
    assert "<testsuite" in report.read_text()


def test_the_users_edits_survive_and_are_refused(cli: Cli, built: Built) -> None:
    file = built.workspace / "src/ops/src/library.cpp"
    before = file.read_text()
    file.write_text(before + "// mine\n")
    refused = cli("install", "quickstart", "--workspace", built.workspace).must(31)
    assert "library.cpp" in refused.err
    assert file.read_text() == before + "// mine\n"
    # --allow-dirty: tests/integration/test_bare_trees.py.
    file.write_text(before)


@pytest.fixture(scope="module")
def new_pin(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of a site: quickstart with a repository of its own, one source file of ops changed."""
    folder = tmp_path_factory.mktemp("site")
    # With its submodules beside it: their URLs are relative.
    shutil.copytree(built.workspace / "build/embedded/ops", folder, dirs_exist_ok=True)
    origin, work = folder / "ops.git", folder / "work"
    git(folder, "clone", "--quiet", str(origin), str(work))
    source = work / "src/build_info.cpp"
    source.write_text(source.read_text() + "// a new pin\n")
    git(work, "commit", "--quiet", "--all", "--message", "touch one file")
    git(work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
    commit = git(work, "rev-parse", "HEAD")
    recipe = folder / "mine.yaml"
    recipe.write_text(
        textwrap.dedent(
            f"""\
            schema: 1
            name: mine
            extends: quickstart
            components:
              ops:
                source: {{embedded: null, url: "{origin.as_uri()}", commit: "{commit}"}}
            """
        )
    )
    return recipe


def test_a_new_pin_rebuilds_only_what_depends_on_it(cli: Cli, built: Built, new_pin: Path) -> None:
    words = ("--workspace", built.workspace, "--json")
    moved = cli("install", new_pin, *words, "--until", "ops.install").must(0).document
    assert moved["ran"] == ["ops.source", "ops.wheel", "ops.install"]
    plan = cli("plan", new_pin, *words).must(0).document
    waiting = [step["id"] for step in plan["steps"] if step["state"] != "done"]
    assert waiting == ["verify"], "what was verified is not what is installed"
    back = cli("install", "quickstart", *words, "--until", "ops.install").must(0).document
    assert back["ran"] == ["ops.source", "ops.wheel", "ops.install"]
    assert back["wheels"][0]["content_digest"] == built.receipt["wheels"][0]["content_digest"]


@pytest.mark.needs("ccache")
def test_a_compile_cache_served_the_second_build(cli: Cli, built: Built) -> None:
    """The way back of the test above: what was compiled before is a hit."""
    status = cli("status", "--workspace", built.workspace, "--json").must(0).document
    (step,) = status["compile_cache"]
    (cpp,) = (item for item in step["families"] if item["family"] == "C++")
    assert (step["step"], step["program"]) == ("ops.wheel", "ccache")
    assert cpp["hits"] >= 4, step
    assert cpp["misses"] == 0, step


@pytest.mark.on_demand
def test_the_shell_script_makes_the_same_wheel_without_xpubuild(
    cli: Cli, built: Built, kept_path: Path
) -> None:
    """Without --on-demand a script is run for a small plan: tests/integration/test_components_held.py."""
    script = kept_path / "build.sh"
    script.write_text(cli("plan", "quickstart", "--workspace", built.workspace, "--format", "sh").must(0).out)
    assert "xpubuild " not in "".join(
        line for line in script.read_text().splitlines() if line.startswith(("env ", "xpubuild "))
    )
    target = kept_path / "another folder"
    # It is compiled for real: a script has no compile cache. That with one names the same sources.
    subprocess.run(["bash", script, target], check=True, timeout=800, capture_output=True)
    (wheel,) = (target / "wheels").glob("*.whl")
    assert read_wheel(wheel).digest == built.receipt["wheels"][0]["content_digest"]


def test_a_tampered_wheel_is_refused(cli: Cli, built: Built, tmp_path: Path) -> None:
    wheel = Path(built.receipt["wheels"][0]["path"])
    cli("check", wheel, "--cxx11-abi", "1", "--search", _torch_lib(built)).must(0)
    wrong = cli("check", wheel, "--cxx11-abi", "0", "--search", _torch_lib(built)).must(60)
    assert "libxpubuild_ops.so" in wrong.err
    changed = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(changed, "w") as target:
        for item in source.infolist():
            data = source.read(item)
            target.writestr(item, data + b"# changed\n" if item.filename.endswith("__init__.py") else data)
    refused = cli("check", changed).must(60)
    assert "__init__.py" in refused.err


def _torch_lib(built: Built) -> Path:
    (found,) = built.workspace.glob("env/lib/python3*/site-packages/torch/lib")
    return found


def test_clean_removes_what_was_made_and_nothing_else(cli: Cli, built: Built) -> None:
    """Last: it takes the workspace away."""
    mine = built.workspace / "src" / "notes.txt"
    mine.write_text("mine")
    shown = cli("clean", "--workspace", built.workspace, "--dry-run", "--json").must(0).document
    documents.check(shown, "clean")
    assert (built.workspace / "env").is_dir()
    cli("clean", "--workspace", built.workspace, "--yes", "--json").must(0)
    assert mine.read_text() == "mine"
    assert not (built.workspace / "env").exists()
    # What is left is still a workspace; without the foreign file nothing is left.
    cli("install", "quickstart", "--workspace", built.workspace, "--until", "ops.source").must(0)
    mine.unlink()
    cli("clean", "--workspace", built.workspace, "--yes").must(0)
    assert not built.workspace.exists()
