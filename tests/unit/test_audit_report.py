"""Reports and errors: everything a reader needs is in them, and JSON can hold it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.artifacts import pack, tiny_elf

from xpubuild.artifacts.audit import audit_wheel
from xpubuild.artifacts.audit_checks import check_documents
from xpubuild.artifacts.audit_report import AuditPolicy, raise_for_findings
from xpubuild.artifacts.step_proofs import WheelProof
from xpubuild.documents import plain
from xpubuild.errors import AuditError

LOST = tiny_elf(soname="", needed=["libnobody.so.1"])


def test_a_report_is_json_and_names_what_is_wrong(tmp_path: Path) -> None:
    wheel = pack(tmp_path, "demo", "1.0", {"demo/_C.so": LOST})
    report = audit_wheel(wheel, AuditPolicy(), search=[tmp_path])
    document = json.loads(json.dumps(plain(report)))
    assert document["status"] == "fail"
    assert document["size"] == wheel.stat().st_size
    assert document["objects"][0]["path"] == "demo/_C.so"
    assert document["objects"][0]["missing"] == ["libnobody.so.1"]
    [finding] = document["findings"]
    assert (finding["kind"], finding["object"], finding["symbol_or_path"]) == (
        "missing-library",
        "demo/_C.so",
        "libnobody.so.1",
    )
    assert str(tmp_path) in finding["message"]
    with pytest.raises(AuditError) as caught:
        raise_for_findings(report)
    error = caught.value
    assert error.exit_code == 60
    assert "demo/_C.so" in error.what
    assert "libnobody.so.1" in error.what
    assert "allow_missing" in error.fix
    json.dumps(error.to_json())


def test_objects_for_another_machine(tmp_path: Path) -> None:
    files = {"demo/x.so": tiny_elf(bits=32), "demo/gpu.so": tiny_elf(order=">")}
    report = audit_wheel(pack(tmp_path, "demo", "1.0", files), AuditPolicy())
    assert {finding.object for finding in report.errors if finding.kind == "tags"} == {
        "demo/x.so",
        "demo/gpu.so",
    }
    other = pack(tmp_path, "demo", "1.0", {"demo/x.so": tiny_elf(bits=32)}, tag="py3-none-linux_i686")
    assert audit_wheel(other, AuditPolicy()).status == "ok"


def test_one_sycl_runtime_only(tmp_path: Path) -> None:
    policy = AuditPolicy(allow_missing=("libsycl*",))
    seven = pack(tmp_path, "seven", "1.0", {"seven.so": tiny_elf(needed=["libsycl.so.7"])})
    eight = pack(tmp_path, "eight", "1.0", {"eight.so": tiny_elf(needed=["libsycl.so.8"])})
    both = pack(tmp_path, "both", "1.0", {
        "a.so": tiny_elf(needed=["libsycl.so.7"]), "b.so": tiny_elf(needed=["libsycl.so.8"]),
    })  # fmt: skip
    reports = [audit_wheel(wheel, policy) for wheel in (seven, eight)]
    assert [report.status for report in reports] == ["ok", "ok"]
    assert [finding.kind for finding in audit_wheel(both, policy).errors] == ["two-sycl"]


def test_the_proof_wants_exactly_one_wheel(tmp_path: Path) -> None:
    stage = tmp_path / "stage mit leer é"
    proof = WheelProof(str(stage), "demo-*.whl", AuditPolicy(cxx11_abi=1))
    with pytest.raises(AuditError, match=r"one wheel demo-\*\.whl") as caught:
        proof.check()
    assert "has: none" in caught.value.why
    first = pack(stage / "deeper", "demo", "1.0", {"demo/_C.so": tiny_elf()})
    evidence = proof.check()
    assert evidence["audit"]["wheel"] == str(first)
    json.dumps(evidence)
    pack(stage, "demo", "2.0", {})
    with pytest.raises(AuditError) as caught:
        proof.check()
    assert "demo-1.0" in caught.value.why
    assert "demo-2.0" in caught.value.why


def _wheel(name: str, *needed: str) -> dict[str, Any]:
    library = {"path": f"{name}/lib{name}.so", "needed": list(needed), "found": {}, "soname": ""}
    return {"file": f"{name}-1-py3-none-any.whl", "objects": [library]}


def test_two_runtimes_are_refused_and_named() -> None:
    with pytest.raises(AuditError) as caught:
        check_documents([_wheel("torch", "libsycl.so.8"), _wheel("ops", "libsycl.so.7")])
    assert "libsycl.so.7" in caught.value.why
    assert "torch-1-py3-none-any.whl:torch/libtorch.so" in caught.value.why
