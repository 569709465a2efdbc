"""Device images: each way in which a compiler registers them, each format, and altered libraries."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from support.artifacts import pack, read_device_images
from support.sycl_library import SECTION, SPIRV, Image, archive, native, patch_tokens, sycl_library

from xpubuild.artifacts.audit import audit_wheel
from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.artifacts.device_findings import describe, has_code_for
from xpubuild.artifacts.device_images import UnreadableImageError, read_code
from xpubuild.documents import plain
from xpubuild.errors import AuditError

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress


def nested(depth: int) -> bytes:
    return archive([("x", nested(depth - 1))]) if depth else native("12.60.7", 0xC08)


PVC = native("12.60.7", 0xC08)
BMG = native("20.1.0", 0xC09)
BOTH = archive([("pad_0", b"      64"), ("64.12.60.7", PVC), ("64.bmg", BMG)])
ALL = ("add", "mul", "swiglu<float>")
MIXED = [Image("spir64", SPIRV, ALL), Image("spir64_gen", BOTH, ALL[:2]), Image("spir64_gen", PVC, ALL[2:])]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"version": 1},
        {"version": 3},
        {"new_entries": True},
        {"new_entries": True, "sections": "{}"},
        {"version": 3, "sections": "OFFLOAD_DEVICE_CODE"},
        {"flags": ["-Wl,-z,pack-relative-relocs"]},
        {"flags": ["-s"]},
        {"program": True},
    ],
    ids=lambda how: " ".join(how) or "plain",
)
def test_images_are_found_however_they_are_registered(tmp_path: Path, how: dict[str, object]) -> None:
    path = sycl_library(tmp_path / "libk.so", MIXED, **how)  # type: ignore[arg-type]
    images = read_device_images(path)
    assert [(image.target, image.code.kind) for image in images] == [
        ("spir64", "SPIR-V"),
        ("spir64_gen", "native"),
        ("spir64_gen", "native"),
    ]
    assert [image.kernels for image in images] == [frozenset(ALL), frozenset(ALL[:2]), frozenset(ALL[2:])]
    assert [device.config for device in images[1].code.devices] == ["12.60.7", "20.1.0"]
    assert [image.size for image in images] == [len(SPIRV), len(BOTH), len(PVC)]


def test_a_library_without_device_code_has_no_images(tmp_path: Path) -> None:
    path = tmp_path / "plain.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", path], check=True)
    assert read_device_images(path) == ()


@pytest.mark.parametrize(
    ("data", "kind", "shown", "compressed"),
    [
        (SPIRV, "SPIR-V", [], False),
        (b"BC\xc0\xde" + bytes(8), "LLVM IR", [], False),
        (PVC, "native", ["pvc (12.60.7)"], False),
        (BOTH, "native", ["pvc (12.60.7)", "bmg (20.1.0)"], False),
        (compress(BOTH), "native", ["pvc (12.60.7)", "bmg (20.1.0)"], True),
        (compress(SPIRV), "SPIR-V", [], True),
        (patch_tokens(0xC08), "native", ["Xe-HPC"], False),
        (archive([("64.12.60.7", patch_tokens(0xC08))]), "native", ["pvc (12.60.7)"], False),
        (native("99.1.2", 0x9999), "native", ["99.1.2"], False),
        (b"something else", "unknown", [], False),
    ],
)
def test_what_an_image_is(data: bytes, kind: str, shown: list[str], compressed: bool) -> None:
    code = read_code(data)
    assert (code.kind, code.compressed) == (kind, compressed)
    assert [describe(device) for device in code.devices] == shown


@pytest.mark.parametrize(
    "data",
    [compress(BOTH)[:-5], BOTH[:-5], BOTH[:100], b"CTNI", PVC[:70], b"!<arch>\n" + bytes(70), nested(5)],
)
def test_a_cut_image_is_said_to_be_one(data: bytes) -> None:
    with pytest.raises(UnreadableImageError):
        read_code(data)


@pytest.mark.parametrize(
    ("target", "data", "has"),
    [
        ("pvc", PVC, True),
        ("pvc", BOTH, True),
        ("pvc", patch_tokens(0xC08), True),
        ("pvc", native("12.61.7", 0xC08), False),
        ("bmg", PVC, False),
        ("12.60.3", PVC, True),
        ("xe-lpg", native("12.70.4", 0xC07), False),
        ("xe-lpg", archive([("a", native("12.70.4", 0xC07)), ("b", native("12.71.4", 0xC07))]), True),
        ("dg2", patch_tokens(0xC08), False),
        ("pvc", SPIRV, False),
    ],
)
def test_which_target_native_code_is_for(target: str, data: bytes, has: bool) -> None:
    assert has_code_for(read_code(data).devices, target) is has


def audited(folder: Path, images: list[Image], *targets: str) -> list[tuple[str, str, str]]:
    library = sycl_library(folder / "libk.so", images).read_bytes()
    policy = AuditPolicy(device_targets=targets, unresolved_symbols="warning")
    report = audit_wheel(pack(folder, "demo", "1.0", {"demo/libk.so": library}), policy)
    return [
        (item.severity, item.kind, item.message)
        for item in report.findings
        if item.kind != "unresolved-symbol"
    ]


def test_all_that_was_asked_for_is_there(tmp_path: Path) -> None:
    assert audited(tmp_path, MIXED, "pvc") == []
    assert audited(tmp_path, MIXED) == []
    assert audited(tmp_path, MIXED, "none") == []


def test_a_kernel_without_native_code_is_named(tmp_path: Path) -> None:
    [finding] = audited(tmp_path, MIXED, "pvc", "bmg")
    assert finding[:2] == ("error", "aot")
    assert "has native code for bmg for 2 of 3 kernels, not for swiglu<float>;" in finding[2]
    assert finding[2].endswith("it has native code for bmg (20.1.0), pvc (12.60.7)")
    [finding] = audited(tmp_path, MIXED[:1], "pvc")
    assert "for pvc for 0 of 3 kernels, not for add, mul, ...; it has native code for no GPU" in finding[2]


def test_a_target_that_nobody_knows_is_a_warning(tmp_path: Path) -> None:
    [finding] = audited(tmp_path, MIXED, "0x0bd5")
    assert finding[:2] == ("warning", "aot-unknown")


def test_kernels_for_another_gpu_alone_are_a_warning(tmp_path: Path) -> None:
    """PyTorch has libraries of that kind: nothing is compiled at first use, they are not for this GPU."""
    [finding] = audited(tmp_path, [Image("spir64_gen", BOTH, ALL)], "lnl-m")
    assert finding[:2] == ("warning", "aot")


def test_an_image_that_is_nothing_known_is_an_error(tmp_path: Path) -> None:
    """A link that lost the image itself, for instance: zeros."""
    [lost, missing] = audited(tmp_path, [Image("spir64_gen", bytes(64), ALL)], "pvc")
    assert lost[:2] == ("error", "device-code")
    assert "the device image of add, mul, ... is neither SPIR-V nor native code" in lost[2]
    assert missing[1] == "aot"


def test_no_kernel_at_all_is_an_error(tmp_path: Path) -> None:
    [finding] = audited(tmp_path, [Image("spir64", SPIRV)], "pvc")
    assert finding[:2] == ("error", "no-device-code")


def test_images_that_the_linker_lost_are_missed(tmp_path: Path) -> None:
    path = sycl_library(tmp_path / "libk.so", MIXED)
    subprocess.run(["objcopy", "--rename-section", f"{SECTION}spir64=.x", "--rename-section",
                    f"{SECTION}spir64_gen=.y", path], check=True)  # fmt: skip
    whole = sycl_library(tmp_path / "libwhole.so", MIXED).read_bytes()
    files = {"demo/libk.so": path.read_bytes(), "demo/libwhole.so": whole}
    policy = AuditPolicy(device_targets=("pvc",), unresolved_symbols="warning")
    report = audit_wheel(pack(tmp_path, "demo", "1.0", files), policy)
    [error] = report.errors
    assert (error.kind, error.object) == ("device-code", "demo/libk.so")


def test_code_that_no_descriptor_names_is_an_error(tmp_path: Path) -> None:
    """Somebody put an image into the section, or overwrote a descriptor: neither is passed over."""
    path = sycl_library(tmp_path / "libk.so", [*MIXED, Image("spir64", SPIRV + bytes(4096), ("late",))])
    raw = path.read_bytes()
    # version 2, kind 4, format 2 is how each descriptor begins
    broken = raw.replace(b"\x02\x00\x04\x02", b"\x07\x00\x04\x02")
    assert broken != raw
    path.write_bytes(broken)
    with pytest.raises(AuditError, match="damaged") as caught:
        read_device_images(path)
    assert "belong to no device image" in caught.value.why


def test_a_damaged_library_is_an_audit_error_or_harmless(tmp_path: Path) -> None:
    whole = sycl_library(tmp_path / "libk.so", MIXED).read_bytes()
    numbers = random.Random(20261122)  # noqa: S311
    path, refused = tmp_path / "mutated.so", 0
    for _ in range(300):
        raw = bytearray(whole)
        for _ in range(numbers.randint(1, 8)):
            raw[numbers.randrange(16, len(raw))] = numbers.randrange(256)
        path.write_bytes(bytes(raw[: numbers.randrange(64, len(raw))] if numbers.random() < 0.1 else raw))
        try:
            read_device_images(path)
        except AuditError:
            refused += 1
    assert 30 < refused < 300


def test_the_numbers_of_a_report(tmp_path: Path) -> None:
    images = [*MIXED, Image("spir64", compress(SPIRV + bytes(2000)), ("late",))]
    library = sycl_library(tmp_path / "libk.so", images).read_bytes()
    report = audit_wheel(
        pack(tmp_path, "demo", "1.0", {"demo/libk.so": library}), AuditPolicy(unresolved_symbols="warning")
    )
    assert plain(report)["objects"][0]["device_code"] == {
        "images": 4,
        "kernels": 4,
        "spirv": 4,
        "native": {"bmg (20.1.0)": 2, "pvc (12.60.7)": 3},
        "compressed": 1,
    }
