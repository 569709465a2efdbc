"""Every JSON document that the code makes, held against its schema; the documents are real ones."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.cli import here
from support.documents import check
from support.pages import page_of
from support.plan_files import target_for

from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.artifacts.step_proofs import WheelProof
from xpubuild.engine.events import NullSink
from xpubuild.engine.fingerprint import fingerprints
from xpubuild.engine.model import Command, Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.errors import BuildError
from xpubuild.install.install import apply
from xpubuild.install.target import Prepared
from xpubuild.machine.host_report import host_report
from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.workspace.layout import Layout


def make_wheel(folder: Path) -> Path:
    """Pack a wheel with one module, as the wheel format asks for."""
    files = {
        "small.py": b"ANSWER = 42\n",
        "small-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: small\nVersion: 1.0\n",
        "small-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files["small-1.0.dist-info/RECORD"] = (record + "small-1.0.dist-info/RECORD,,\n").encode()
    path = folder / "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def verify_report(path: Path) -> None:
    results = (CheckResult("import.torch", "torch can be imported", "import", "pass", 1.5),)
    document = VerifyReport("smoke", sys.executable, results, device={"type": "cpu"}).to_json()
    path.write_text(json.dumps(document), "utf-8")


PIP_REPORT = {
    "install": [
        {
            "metadata": {"name": "torch", "version": "2.13.0+cpu"},
            "download_info": {"archive_info": {"hashes": {"sha256": "0" * 64}}},
        }
    ]
}


@dataclass(frozen=True)
class Works:
    """A proof that holds."""

    def describe(self) -> str:
        return "it works"

    def key(self) -> dict[str, Any]:
        return {}

    def check(self) -> dict[str, Any]:
        return {"found": 1}


def make_plan(root: Path) -> Plan:
    """A plan with one step of each kind that leaves something in the documents."""
    layout = Layout(root)
    for folder in (layout.wheels, layout.pip_report("torch", "x").parent):
        folder.mkdir(parents=True)
    make_wheel(layout.wheels)
    verify_report(layout.verify_report)
    layout.pip_report("torch", "x").write_text(json.dumps(PIP_REPORT))
    policy = AuditPolicy(forbid_needed=("libmkl_*",))
    steps = (
        Step(
            id="env",
            title="environment",
            commands=(Command(("true",), path_prefix=("/x",)),),
            proofs=(Works(),),
        ),
        Step(
            id="torch",
            title="torch",
            needs=("env",),
            commands=(Command(("false",), alternatives=(("true",),)),),
        ),
        Step(
            id="ops.wheel",
            title="wheel",
            needs=("torch",),
            commands=(Command(("sh", "-c", "echo é"), env={"A": "b"}, cwd=str(root)),),
            proofs=(WheelProof(str(layout.wheels), "*.whl", policy, ()),),
            outputs=(str(layout.wheels),),
            memory_bytes=1 << 30,
        ),
        Step(id="verify", title="verify", needs=("ops.wheel",), commands=(Command(("true",)),)),
    )
    return Plan(
        "small", str(root), "0" * 64, steps, fingerprints(steps), summary={"target": "cpu", "cxx11_abi": 1}
    )


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    root = tmp_path / "wörk space"
    plan = make_plan(root)
    text = f"torch==2.13.0+cpu --hash=sha256:{'0' * 64}\n"
    facts = {
        "python": sys.executable,
        "cache": tmp_path / "cache",
        "requirements": {"requirements/torch-2.13.0-cpu.txt": text},
    }
    (root / "journal.db").touch()  # what was put there beforehand is the workspace's own
    host = {"host": host_report(workspace=root).to_json()}
    return Prepared(target_for("quickstart", workspace=str(root), facts={**facts, **host}), plan, 0.001)


@pytest.fixture
def installed(prepared: Prepared) -> tuple[Prepared, dict[str, Any]]:
    return prepared, apply(prepared, sink=NullSink(), cancel=Cancel())


def test_receipt(installed: tuple[Prepared, dict[str, Any]]) -> None:
    prepared, receipt = installed
    check(receipt, "receipt")
    assert json.loads((Path(prepared.plan.workspace) / "receipt.json").read_text("utf-8")) == receipt
    assert receipt["status"] == "complete"
    assert [wheel["file"] for wheel in receipt["wheels"]] == ["small-1.0-py3-none-any.whl"]
    assert receipt["prebuilt"] == [
        {"step": "torch", "name": "torch", "version": "2.13.0+cpu", "sha256": "0" * 64}
    ]
    assert receipt["verify"]["passed"] == 1
    assert [command["returncode"] for command in receipt["commands"]] == [0, 1, 0, 0, 0]


def test_receipt_of_a_failed_install(prepared: Prepared) -> None:
    verify = prepared.plan.steps[-1]
    broken = Step(id=verify.id, title=verify.title, needs=verify.needs, commands=(Command(("false",)),))
    steps = (*prepared.plan.steps[:-1], broken)
    plan = Plan("small", prepared.plan.workspace, "0" * 64, steps, fingerprints(steps))
    with pytest.raises(BuildError):
        apply(replace(prepared, plan=plan), sink=NullSink(), cancel=Cancel())
    receipt = json.loads((Path(plan.workspace) / "receipt.json").read_text("utf-8"))
    check(receipt, "receipt")
    assert receipt["status"] == "partial"
    assert receipt["verify"] is None


def test_report(installed: tuple[Prepared, dict[str, Any]], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    document = check(run("status", installed[0].plan.workspace, "--html", str(page)), "report")
    assert document["status"] == "complete"
    assert document["wheels"] == installed[1]["wheels"]
    said = page_of(page).said
    for text in ("small 1.0", document["host"]["cpu"]["model"], "import.torch"):
        assert text in said, text


def run(*arguments: str, status: int = 0) -> dict[str, Any]:
    result = here(*arguments, "--json")
    assert result.status == status, result.err
    return result.document()


def test_status_env_and_clean_as_commands(installed: tuple[Prepared, dict[str, Any]]) -> None:
    workspace = ("--workspace", installed[0].plan.workspace)
    check(run("status", *workspace), "status")
    env = check(run("env", *workspace), "env")
    assert env["env"]["PYTHONHOME"] is None
    shown = check(run("clean", *workspace, "--dry-run"), "clean")
    done = check(run("clean", *workspace, "--yes"), "clean")
    assert shown["dry_run"]
    assert not done["dry_run"]
    assert done["removed"] == shown["removed"]
    assert not (Path(installed[0].plan.workspace) / "wheels").exists()


def test_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.yaml").write_text("schema: 1\nname: broken\nnonsense: 1\n")
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path))
    listed = check(run("recipes", "list"), "recipes")
    entries = {entry["name"]: entry for entry in listed["recipes"]}
    assert entries["broken"]["error"]["exit_code"] == 20
    assert entries["quickstart"]["error"] is None


def test_audit_as_a_command(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    document = check(run("check", str(wheel)), "audit")
    assert document["wheels"][0]["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_a_failed_audit_prints_one_document(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("stray.py", b"not in RECORD\n")
    document = check(run("check", str(wheel), status=60), "audit")
    assert document["wheels"][0]["status"] == "fail"
