"""The report for bug threads: planted secrets, names and addresses do not get into it, facts do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.doctor_frame import a_check, a_context, report_of

from xpubuild.doctor.bundle import bundle_text, differs_from_stand_in, write_bundle
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


# ---- What of a host is told in a report and what is masked, name by name


NOBODY = Identity()


def test_the_account_of_this_process_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = type("account", (), {"pw_name": "zoe", "pw_gecos": "Zoe Q,Room 7,", "pw_dir": "/data/zoe"})
    monkeypatch.setattr("pwd.getpwuid", lambda _number: account)
    found = Identity.of({}, tmp_path)
    assert (found.users, found.homes) == ({"zoe", "Zoe Q", "Room 7"}, {"/data/zoe"})


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("me@a.example x@y", "MAIL x@y"),
        ("00:1b:21:aa:bb:cc 00-1b-21-aa-bb-cc 00:1b:21:aa:bb", "MAC MAC 00:1b:21:aa:bb"),
        ("0123456789abcdef0123456789abcdef 0123456789ABCDEF0123456789ABCDEF",
         "UUID 0123456789ABCDEF0123456789ABCDEF"),
        ("123e4567-e89b-12d3-a456-426614174000", "UUID"),
        ("serial number: A1 Serial-No=B2 s/n C3 asset tag #D4 serial E",
         "serial number: SERIAL Serial-No=SERIAL s/n SERIAL asset tag #SERIAL serial E"),
        ("10.1.2.3 127.0.0.1 0.0.0.0 300.1.2.3 1.2.3.4.5 10.1.2.3:80",
         "ADDRESS 127.0.0.1 0.0.0.0 300.1.2.3 1.2.3.4.5 ADDRESS:80"),
        ("fe80::1%eth0 ::1 :: 12:30:45 2001:db8::8", "ADDRESS ::1 :: 12:30:45 ADDRESS"),
        ("https://me:pw@x.corp:1/y http://localhost:2 git://u@github.com/a ssh://notgithub.com",
         "https://****@HOST:1/y http://localhost:2 git://****@github.com/a ssh://HOST"),
        ("https://raw.githubusercontent.com https://gitlab.com https://a.PyTorch.org https://intel.com",
         "https://raw.githubusercontent.com https://gitlab.com https://a.PyTorch.org https://intel.com"),
        ("https://python.org https://kernel.org https://launchpad.net https://huggingface.co https://huggingface.com",
         "https://python.org https://kernel.org https://launchpad.net https://huggingface.co https://HOST"),
        ("secret=a token=b credential=c credentials=d passphrase=e key='f g'",
         "secret=**** token=**** credential=**** credentials=**** passphrase=**** key=****"),
        # Homes of clusters, and settings inside of values.
        ("/gpfs/users/carol/p:/lus/home/dave/q:/opt/x", "~/p:~/q:/opt/x"),
        ("/export/home/erin;/global/homes/f/frank/y", "~;~/y"),
        ("//gpfs/Users/carol/p", "~/p"),
        ("/home2/carol/p and /people/dave", "~/p and ~"),
        ("file:///gpfs/home/dave/q", "file://HOST/q"),
        ("-I/lus/home/dave/q -isystem/home/eve", "-I~/q -isystem~"),
        ("-DKEY=abcd1234secret -DUSE_XPU=1", "-DKEY=**** -DUSE_XPU=1"),
        ("password=a,b/c passwd=x TOKEN='a b' x", "password=**** passwd=**** TOKEN=**** x"),
    ],
)  # fmt: skip
def test_what_is_masked_whoever_it_is(text: str, masked: str) -> None:
    assert Anonymiser(NOBODY, Redactor.from_environment({}))(text) == masked


def test_names_are_masked_as_whole_words() -> None:
    known = Identity(
        frozenset({"al", "al b"}), frozenset({"box"}), frozenset({"/h/al", "/h/al/x"}), frozenset({"S1"})
    )
    mask = Anonymiser(known, Redactor.from_environment({}))
    said = mask("al al b AL also _al_ BOX boxes S1 or s1 /h/al/x/y /h/al/z /h/also /h/al.d")
    assert said == "USER USER AL also _USER_ HOST boxes SERIAL or s1 ~/y ~/z /h/also /h/USER.d"


@pytest.mark.parametrize(
    "key", ["serial", "a_UUID", "guid", "mac", "mac_address", "asset", "hostname", "nodename", "user_name",
            "username", "email", "e_mail", "x_pw", "x_pass", "x_key"],
)  # fmt: skip
def test_values_of_these_keys_are_masked_whole(key: str) -> None:
    mask = Anonymiser(NOBODY, Redactor.from_environment({}))
    values = ["x", 7, "", None, True, False, ["y", {"z": "w"}]]
    assert mask.tree({key: values}) == {
        key: ["MASKED", "MASKED", "", None, True, False, ["MASKED", {"z": "w"}]]
    }
    others = {"machine": "x", "keyed": ("y", 7), "pass_x": "z"}
    assert mask.tree(others) == {"machine": "x", "keyed": ["y", 7], "pass_x": "z"}


def test_a_report_of_an_image_masks_who_is_in_it_and_who_makes_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("imagebox\n")
    (tmp_path / "etc/passwd").write_text("mara:x:1001:1001::/data/mara:/bin/sh\n")
    (tmp_path / "sys/class/dmi/id").mkdir(parents=True)
    (tmp_path / "sys/class/dmi/id/board_serial").write_text("BS-77\n")
    environ = {
        "USER": "ivo",
        "HOME": "/u/ivo",
        "HOST": "makerbox",
        "CC": "imagebox mara /data/mara BS-77 makerbox ivo /u/ivo",
    }
    document = doctor_document(report_of(a_check("a.b"), context=a_context(tmp_path)))
    text = bundle_text(document, environ)
    assert "CC=HOST USER ~ SERIAL HOST USER ~\n" in text


def test_checks_that_end_otherwise_than_on_the_stand_in_are_listed() -> None:
    checks = [
        {"id": "aten.indexing", "status": "fail", "detail": "rows 3 and 4 differ"},
        {"id": "aten.elementwise", "status": "pass", "detail": ""},
        {"id": "not.known.there", "status": "fail", "detail": ""},
    ]
    found = differs_from_stand_in(checks)
    assert found == [
        {"check": "aten.indexing", "here": "fail", "stand_in": "pass", "why": "rows 3 and 4 differ"}
    ]
