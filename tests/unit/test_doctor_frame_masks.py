"""What of a host is told in a report and what is masked, name by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.doctor_frame import a_check, a_context, report_of

from xpubuild.doctor.bundle import bundle_text
from xpubuild.doctor.identity import Anonymiser, Identity
from xpubuild.doctor.report import doctor_document
from xpubuild.engine.redact import Redactor

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
