"""Wheels that are right, and wheels that are wrong in one way each."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.artifacts import pack, record_line, record_text, tiny_elf, unzip, wheel_files, zip_up

from xpubuild.artifacts.audit import audit_wheel
from xpubuild.artifacts.audit_checks import check_documents
from xpubuild.artifacts.audit_report import AuditPolicy, raise_for_findings
from xpubuild.artifacts.step_proofs import WheelProof
from xpubuild.artifacts.wheel import read_wheel, record_of
from xpubuild.documents import plain
from xpubuild.errors import AuditError

FILES = {"demo/__init__.py": b"answer = 42\n", "demo/daten/größe mit leer.txt": "äöü\n".encode()}
INFO = "demo-1.0.dist-info"


def problems(wheel: Path) -> list[tuple[str, str]]:
    return [(item.kind, item.object) for item in read_wheel(wheel).problems]


def repack(wheel: Path, **changes: bytes | None) -> Path:
    """Write the wheel again with some members changed or gone, RECORD as it was."""
    files = {name: changes.get(name, data) for name, data in unzip(wheel).items()}
    return zip_up(wheel, {name: data for name, data in files.items() if data is not None})


def test_a_right_wheel_has_no_problems(tmp_path: Path) -> None:
    wheel = pack(tmp_path / "ein ordner é", "demo", "1.0", {**FILES, "demo/_C.so": tiny_elf()})
    contents = read_wheel(wheel)
    assert contents.problems == ()
    assert (contents.claimed.name, contents.claimed.version) == ("demo", "1.0")
    assert {member.name: member.is_elf for member in contents.members}["demo/_C.so"]
    assert sum(member.is_elf for member in contents.members) == 1
    for member in contents.members:
        assert member.sha256 == hashlib.sha256(unzip(wheel)[member.name]).hexdigest()


def test_a_file_changed_after_packing_is_named(tmp_path: Path) -> None:
    wheel = repack(pack(tmp_path, "demo", "1.0", FILES), **{"demo/__init__.py": b"answer = 43\n"})
    [problem] = read_wheel(wheel).problems
    assert (problem.kind, problem.object) == ("changed", "demo/__init__.py")
    assert record_line("x", b"answer = 43\n")[1] in problem.message
    assert record_line("x", b"answer = 42\n")[1] in problem.message


def test_a_file_that_is_gone_and_one_that_was_added(tmp_path: Path) -> None:
    assert problems(repack(pack(tmp_path, "demo", "1.0", FILES), **{"demo/__init__.py": None})) == [
        ("record", "demo/__init__.py")
    ]
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    [problem] = read_wheel(zip_up(wheel, {**unzip(wheel), "demo/extra.py": b""})).problems
    assert problem.message == "demo/extra.py is in the wheel but not in its RECORD"


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha3_256", ""])
def test_weak_hashes_do_not_count(tmp_path: Path, algorithm: str) -> None:
    lines = [record_line(*item) for item in wheel_files("demo", "1.0", FILES).items()]
    name, _, size = lines[0]
    digest = hashlib.new(algorithm, FILES[name]).digest() if algorithm else b""
    text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    lines[0] = (name, f"{algorithm}={text}" if algorithm else "", size)
    assert problems(pack(tmp_path, "demo", "1.0", FILES, record=lines)) == [("record", name)]


@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
def test_other_strong_hashes_count(tmp_path: Path, algorithm: str) -> None:
    lines = [record_line(*item) for item in wheel_files("demo", "1.0", FILES).items()]
    name, _, size = lines[0]
    text = base64.urlsafe_b64encode(hashlib.new(algorithm, FILES[name]).digest()).decode().rstrip("=")
    lines[0] = (name, f"{algorithm}={text}", size)
    wheel = pack(tmp_path, "demo", "1.0", FILES, record=lines)
    assert problems(wheel) == []
    assert problems(repack(wheel, **{name: b"answer = 40\n"})) == [("changed", name)]


@pytest.mark.parametrize("text", ["\0\n", "only,two\n", "a,b", '"unclosed', "\xff\xfe"])
def test_a_record_that_is_none(tmp_path: Path, text: str) -> None:
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    kinds = problems(repack(wheel, **{f"{INFO}/RECORD": text.encode("latin-1")}))
    assert {kind for kind, _ in kinds} == {"record"}


def test_no_record_two_records_and_a_line_twice(tmp_path: Path) -> None:
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    assert ("record", wheel.name) in problems(repack(wheel, **{f"{INFO}/RECORD": None}))
    line = record_line("demo/__init__.py", FILES["demo/__init__.py"])
    twice = record_text([line, line]).encode()
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    assert ("record", wheel.name) in problems(repack(wheel, **{f"{INFO}/RECORD": twice}))


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../outside.py", "demo/../../x", "demo\\x.py", "C:/x", "demo//x.py", "demo/./x.py"],
)
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, b"x")
    assert ("unsafe-name", name) in problems(wheel)


def test_links_and_duplicates(tmp_path: Path) -> None:
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    link = zipfile.ZipInfo("demo/link.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(wheel, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        archive.writestr(link, b"/etc/passwd")
        archive.writestr("demo/__init__.py", b"other")
    assert problems(wheel) == [("unsafe-name", "demo/link.py"), ("duplicate", "demo/__init__.py")]


def test_a_flipped_byte_is_found_by_the_archive_itself(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    files = wheel_files("demo", "1.0", {"demo/data.bin": bytes(range(256)) * 40}, tag="py3-none-any")
    lines = [record_line(*item) for item in files.items()]
    files[f"{INFO}/RECORD"] = record_text([*lines, (f"{INFO}/RECORD", "", "")]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        place = archive.getinfo("demo/data.bin").header_offset + 200
    raw = bytearray(wheel.read_bytes())
    raw[place] ^= 1
    wheel.write_bytes(bytes(raw))
    assert ("damaged", "demo/data.bin") in problems(wheel)


def test_a_cut_file_and_a_file_that_is_no_archive(tmp_path: Path) -> None:
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    whole = wheel.read_bytes()
    for data in (b"", b"<html>404</html>", whole[: len(whole) // 2]):
        wheel.write_bytes(data)
        for read in (read_wheel, record_of):
            with pytest.raises(AuditError, match="is not a readable wheel") as caught:
                read(wheel)
            assert caught.value.fix
    wheel.unlink()
    with pytest.raises(AuditError, match="is not a readable wheel"):
        read_wheel(wheel)


@pytest.mark.parametrize("name", ["demo.zip", "demo-1.0.whl", "demo-x.y-py3-none-any.whl"])
def test_file_names_that_are_no_wheel(tmp_path: Path, name: str) -> None:
    with pytest.raises(AuditError, match="is not the name of a wheel"):
        read_wheel(zip_up(tmp_path / name, FILES))


def test_renamed_wheels(tmp_path: Path) -> None:
    wheel = pack(tmp_path, "demo", "1.0", FILES, tag="py3-none-any")
    for name in ("demo-2.0-py3-none-any.whl", "other-1.0-py3-none-any.whl"):
        renamed = wheel.rename(tmp_path / name)
        assert [kind for kind, _ in problems(renamed)] == ["metadata", "metadata"]
        wheel = renamed.rename(tmp_path / "demo-1.0-py3-none-any.whl")
    assert problems(wheel.rename(tmp_path / "demo-1.0-py3-none-linux_x86_64.whl")) == [
        ("tags", f"{INFO}/WHEEL")
    ]


def test_machine_code_in_a_wheel_for_any_machine(tmp_path: Path) -> None:
    files = {**FILES, "demo/_C.so": tiny_elf()}
    assert problems(pack(tmp_path, "demo", "1.0", files, tag="py3-none-any")) == [("tags", "demo/_C.so")]
    pure = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-linux_x86_64\n"
    assert problems(pack(tmp_path, "demo", "1.0", files, wheel=pure)) == [("tags", "demo/_C.so")]


def test_missing_or_strange_metadata(tmp_path: Path) -> None:
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    assert ("metadata", f"{INFO}/METADATA") in problems(repack(wheel, **{f"{INFO}/METADATA": None}))
    wheel = pack(tmp_path, "demo", "1.0", FILES, wheel="Wheel-Version: 2.0\nTag: py3-none-linux_x86_64\n")
    assert problems(wheel) == [("metadata", f"{INFO}/WHEEL")]
    wheel = pack(tmp_path, "demo", "1.0", {**FILES, "x-1.dist-info/METADATA": b""})
    assert ("metadata", wheel.name) in problems(wheel)


def test_compression_that_wheels_must_not_have(tmp_path: Path) -> None:
    wheel = pack(tmp_path, "demo", "1.0", FILES)
    files = unzip(wheel)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            kind = zipfile.ZIP_BZIP2 if name == "demo/__init__.py" else zipfile.ZIP_STORED
            archive.writestr(name, data, compress_type=kind)
    assert problems(wheel) == [("damaged", "demo/__init__.py")]


def test_the_digest_is_that_of_the_contents(tmp_path: Path) -> None:
    first = pack(tmp_path / "1", "demo", "1.0", FILES)
    other_order = zip_up(tmp_path / "2" / first.name, dict(reversed(unzip(first).items())))
    assert first.read_bytes() != other_order.read_bytes()
    assert read_wheel(first).digest == read_wheel(other_order).digest
    changed = pack(tmp_path / "3", "demo", "1.0", {**FILES, "demo/__init__.py": b"answer = 43\n"})
    renamed = pack(tmp_path / "4", "demo", "1.0", {"demo/init.py": b"answer = 42\n"})
    assert len({read_wheel(wheel).digest for wheel in (first, changed, renamed)}) == 3


# ---- Reports and errors: everything a reader needs is in them, and JSON can hold it


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
