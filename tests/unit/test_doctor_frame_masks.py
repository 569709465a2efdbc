"""What of a host is told in a report and what is masked, name by name."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from support.doctor_frame import a_check, a_context, report_of

from xpubuild.doctor.bundle import bundle_text
from xpubuild.doctor.identity import Anonymiser, Identity, Words
from xpubuild.doctor.report import doctor_document
from xpubuild.engine.redact import Redactor

NOBODY = Identity()
TOLD = (
    "ONEAPI_ROOT", "ZE_A", "ZET_A", "ZES_A", "SYCL_A", "UR_A", "OCL_A", "PYTORCH_A", "TORCH_A",
    "TRITON_A", "TORCHINDUCTOR_A", "CCL_A", "I_MPI_ROOT", "FI_A", "IGC_A", "NEO_A", "SETVARS_A",
    "CMPLR_ROOT", "MKL_A", "TBB_A", "UMF_A", "PTI_A", "CMAKE_A", "XPUBUILD_A", "MKLROOT", "TBBROOT",
    "DPCPP_HOME", "USE_XPU", "USE_A1", "MAX_JOBS", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS",
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "OverrideGpuAddressSpace", "EnableImplicitScaling", "TMPDIR", "LANG", "LC_ALL",
)  # fmt: skip
USERS = ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "SLURM_JOB_USER", "SLURM_JOB_ACCOUNT", "PBS_O_LOGNAME")
HOSTS = (
    "HOSTNAME", "HOST", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST", "SLURM_CLUSTER_NAME", "SLURM_NODELIST",
    "SLURM_JOB_NODELIST", "PBS_O_HOST", "PBS_SERVER", "LSB_HOSTS", "SSH_CONNECTION", "SSH_CLIENT", "DISPLAY",
)  # fmt: skip
HOMES = ("HOME", "PBS_O_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
COMMON = (
    "root", "nobody", "user", "admin", "ubuntu", "debian", "runner", "docker", "build", "builder", "jenkins",
    "daemon", "bin", "sys", "sync", "games", "mail", "video", "render", "intel", "vscode", "centos",
    "ec2-user", "Root", "x",
)  # fmt: skip


def lines_of(environ: dict[str, str]) -> list[str]:
    text = bundle_text(doctor_document(report_of(a_check("a.b"))), environ, NOBODY)
    return text.split("## Environment\n\n```\n")[1].split("\n```")[0].splitlines()


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have no account and this machine a common name."""

    def no_account(_number: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", no_account)
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    monkeypatch.setattr("xpubuild.doctor.identity.os.uname", lambda: type("u", (), {"nodename": "linux"}))


@pytest.mark.usefixtures("nobody")
def test_who_and_where_is_in_these_variables(tmp_path: Path) -> None:
    empty = Identity(frozenset(), frozenset(), frozenset(), frozenset())
    for name in USERS:
        assert Identity.of({name: " alice "}, tmp_path) == Identity(users=frozenset({"alice"}))
    for name in HOSTS:
        found = {"a.b.example", "a.b.example"[2:], "node7"}
        assert Identity.of({name: "a.b.example,node7 :0 10"}, tmp_path).hosts == found
        assert Identity.of({name: "top.example"}, tmp_path).hosts == {"top.example", "top"}
    for name in HOMES:
        assert Identity.of({name: "/h/x//"}, tmp_path) == Identity(homes=frozenset({"/h/x"}))
        assert Identity.of({name: "/"}, tmp_path) == empty
    for word in COMMON:
        assert Identity.of({"USER": word}, tmp_path) == empty
    for word in ("localhost", "localdomain", "localhost.localdomain", "none", "(none)", "Linux"):
        assert Identity.of({"HOST": word}, tmp_path).hosts <= {"localdomain"} - {"localdomain"}
    assert Identity.of({"OTHER": "alice"}, tmp_path) == empty


@pytest.mark.usefixtures("nobody")
def test_who_and_where_is_in_these_files(tmp_path: Path) -> None:
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    names = ("product_serial", "product_uuid", "board_serial", "chassis_serial", "chassis_asset_tag")
    for name in names:
        (dmi / name).write_text(f"of-{name}\n")
    (dmi / "product_name").write_text("of-a-product")
    assert Identity.of({}, tmp_path).serials == {f"of-{name}" for name in names}
    for name, text in zip(names, ("None", "Default string", "x", "123", ""), strict=True):
        (dmi / name).write_text(text)
    assert Identity.of({}, tmp_path).serials == frozenset()
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "resolv.conf").write_text("domain one.lan\n\nsearch two.lan three.lan\noptions four.lan\n")
    (etc / "hostname").write_text("box\n")
    accounts = [("a1", "1000"), ("b1", "59999"), ("c1", "999"), ("d1", "60000"), ("e1", "x")]
    lines = [f"{name}:x:{number}:1::/home/{name}" for name, number in accounts]
    (etc / "passwd").write_text("\n".join([*lines, "f1:x:1000:1:"]))
    found = Identity.of({}, tmp_path)
    assert found.hosts == {"box", "one.lan", "two.lan", "three.lan"}
    assert (found.users, found.homes) == ({"a1", "b1"}, {"/home/a1", "/home/b1"})


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


def test_a_word_is_removed_however_its_accents_are_stored() -> None:
    for word in ("NFC", "NFD"):
        mask = Words([unicodedata.normalize(word, "müller")])
        assert [mask(unicodedata.normalize(form, "/proj/Müller")) for form in ("NFC", "NFD")] == [
            "/proj/REDACTED"
        ] * 2
