"""The report for bug threads: planted secrets, names and addresses do not get into it, facts do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.doctor_frame import a_check, a_context, report_of

from xpubuild.doctor.bundle import bundle_text, write_bundle
from xpubuild.doctor.identity import Anonymiser, Identity
from xpubuild.doctor.kit import Fix, Outcome
from xpubuild.doctor.report import doctor_document
from xpubuild.engine.redact import Redactor
from xpubuild.errors import UsageError
from xpubuild.machine.system import OsFacts

IDENTITY = Identity(
    users=frozenset({"zoe", "Zoë Quux"}),
    hosts=frozenset({"pvc-node07", "pvc-node07.hpc.example", "hpc.example"}),
    homes=frozenset({"/lustre/people/zoe"}),
    serials=frozenset({"SN4711X"}),
)
ENVIRON = {
    "HF_TOKEN": "hf_abcdefghij",
    "http_proxy": "http://zoe:s3cretpw@proxy.hpc.example:3128",
    "AWS_SECRET_ACCESS_KEY": "aws-key-value",
    "ONEAPI_ROOT": "/lustre/people/zoe/oneapi",
    "LD_LIBRARY_PATH": "/home/walter/lib:/opt/intel/oneapi/compiler/2025.1/lib",
    "ZE_AFFINITY_MASK": "0",
    "UNRELATED": "private thing",
    "PATH": "/usr/bin",
}
PLANTED = (
    "zoe", "Zoë", "walter", "hf_abcdefghij", "s3cretpw", "aws-key-value", "pvc-node07", "hpc.example",
    "SN4711X", "10.11.12.13", "fe80::1ff:fe23:4567:890a", "2001:db8::8", "00:1b:21:aa:bb:cc", "ABC12345",
    "zoe@hpc.example", "0123456789abcdef0123456789abcdef", "123e4567-e89b-12d3-a456-426614174000",
    "private thing", "mirror.corp.lan", "jo.doe",
)  # fmt: skip
TEXT = (
    "/lustre/people/zoe/x and /home/walter/y on PVC-NODE07 and pvc-node07.hpc.example by zoe (Zoë Quux),"
    " zoe_ws, 10.11.12.13:22 fe80::1ff:fe23:4567:890a 2001:db8::8 00:1b:21:aa:bb:cc zoe@hpc.example"
    " mail to jo.doe@uni.example, serial number: ABC12345"
    " 0123456789abcdef0123456789abcdef 123e4567-e89b-12d3-a456-426614174000"
    " https://mirror.corp.lan/simple hf_abcdefghij http://zoe:s3cretpw@proxy.hpc.example:3128 SN4711X"
)


def mask() -> Anonymiser:
    return Anonymiser(IDENTITY, Redactor.from_environment(ENVIRON))


def test_nothing_planted_is_in_the_report() -> None:
    evidence = {"text": TEXT, TEXT: 1, "serial": "XYZ-1", "nested": [{"a": (TEXT,)}], "uuid": "gpu-uuid-9"}
    fix = Fix(f"ask {TEXT}", (f"cat {TEXT}",))
    check = a_check("gpu.leak", Outcome("fail", TEXT, evidence, fix))
    context = a_context(
        environ=ENVIRON, os=OsFacts(id="debian", name="Debian of zoe", kernel="6.8.0-pvc-node07")
    )
    text = bundle_text(doctor_document(report_of(check, context=context)), ENVIRON, IDENTITY)
    for secret in (*PLANTED, "XYZ-1", "gpu-uuid-9"):
        assert secret.lower() not in text.lower(), secret
    assert "ZE_AFFINITY_MASK=0" in text
    assert "ONEAPI_ROOT=~/oneapi" in text
    assert "LD_LIBRARY_PATH=~/lib:/opt/intel/oneapi/compiler/2025.1/lib" in text


@pytest.mark.parametrize(
    "fact",
    [
        "0000:3a:00.0", "8086:0bd5", "libze-intel-gpu1 25.18.33578.15-1146~24.04", "1.3.27642.40-803~22.04",
        "sycl::_V1::queue", "std::vector<int>::at", "12:30:45", "/dev/dri/renderD128", "6.8.0-45-generic",
        "b" * 40, "sha256:" + "a" * 64, "127.0.0.1", "::1", "https://github.com/intel/torch-xpu-ops",
        "Intel(R) Data Center GPU Max 1550", "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE", "/opt/x/y", "gcc 13.2.0",
        "GLIBCXX_3.4.30", "torch==2.8.0+xpu", "mkl_serial.so", "level_zero:gpu:0", "https://pytorch.org/x",
    ],
)  # fmt: skip
def test_facts_stay(fact: str) -> None:
    assert mask()(f"it is {fact} here") == f"it is {fact} here"


def test_the_report_is_markdown_with_the_document_in_it() -> None:
    check = a_check("gpu.odd", Outcome("fail", "```\nfence | pipe <b>", {"raw": "````"}))
    text = bundle_text(doctor_document(report_of(check)), {}, IDENTITY)
    assert "| gpu.odd | fail | ``` fence \\| pipe &lt;b> |" in text
    block = re.search(r"^(`{5,})json\n(.*?)^\1$", text, re.DOTALL | re.MULTILINE)
    assert block
    assert json.loads(block[2])["checks"][0]["id"] == "gpu.odd"


def test_a_place_that_cannot_be_written_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_bundle(doctor_document(report_of(a_check("a.b"))), {}, tmp_path / "no" / "b.md")


def test_who_and_where_is_gathered_from_environment_and_files(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nproxy:x:13:13::/bin:/bin/sh\nmara:x:1001:1001:Mara:/data/mara:/bin/sh\nbad\n"
    )
    (tmp_path / "etc/hostname").write_text("imagebox\n")
    (tmp_path / "etc/resolv.conf").write_text("search corp.lan\nnameserver 10.0.0.1\n")
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "product_serial").write_text("PS-99\n")
    environ = {"USER": "ivo", "HOME": "/u/ivo", "SLURMD_NODENAME": "n042.hpc.example", "DISPLAY": ":0"}
    known = Identity.of(environ, tmp_path)
    assert {"ivo", "mara"} <= known.users
    assert not {"root", "proxy"} & known.users
    assert {"imagebox", "corp.lan", "n042", "n042.hpc.example", "hpc.example"} <= known.hosts
    assert ":0" not in known.hosts
    assert {"/u/ivo", "/data/mara"} <= known.homes
    assert known.serials == {"PS-99"}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("/gpfs/users/carol/p:/lus/home/dave/q:/opt/x", "~/p:~/q:/opt/x"),
        ("/export/home/erin;/global/homes/f/frank/y", "~;~/y"),
        ("//gpfs/Users/carol/p", "~/p"),
        ("/home2/carol/p and /people/dave", "~/p and ~"),
        ("file:///gpfs/home/dave/q", "file://HOST/q"),
        ("-I/lus/home/dave/q -isystem/home/eve", "-I~/q -isystem~"),
        ("-DKEY=abcd1234secret -DUSE_XPU=1", "-DKEY=**** -DUSE_XPU=1"),
        ("password=a,b/c passwd=x TOKEN='a b' x", "password=**** passwd=**** TOKEN=**** x"),
    ],
)
def test_homes_of_clusters_and_settings_inside_values_are_masked(text: str, masked: str) -> None:
    assert mask()(text) == masked


def test_variables_of_secrets_and_settings_in_variables_are_masked_in_the_report() -> None:
    environ = {
        "CMAKE_PREFIX_PATH": "/gpfs/users/carol/p:/global/homes/f/frank",
        "CMAKE_ARGS": "-DKEY=abcd1234secret -GNinja",
        "SYCL_PW": "password=hunter22",
        "CCL_PASS": "hunter23",
    }
    text = bundle_text(doctor_document(report_of(a_check("a.b"))), environ, IDENTITY)
    for planted in ("carol", "frank", "abcd1234secret", "hunter22", "hunter23", "gpfs"):
        assert planted not in text
    assert "CMAKE_ARGS=-DKEY=**** -GNinja" in text
