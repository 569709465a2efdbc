"""Environments made from a lock: every archive held against its hash, killed and carried on, proved."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import Xpubuild
from support.conda_channel import MINOR, SITE, VERSION, Tiny, archive, from_wheel, make_channel, usual
from support.conda_tools import RATTLER, TOOLCHAIN, front, served, solved

from xpubuild.build.conda_host import CxxNeed, machine_need, provided
from xpubuild.build.conda_proofs import CondaEnvironmentProof, mkl_proof
from xpubuild.build.envrepair import repair
from xpubuild.conda.archives import Supply, fetch, in_folder, missing_packages
from xpubuild.conda.channels import resolve
from xpubuild.conda.engines import Engines
from xpubuild.conda.install import Installation, make_conda_env, read_lock_file
from xpubuild.conda.lockfile import packages_of, read_lock, write_lock
from xpubuild.engine.environment import base_environment
from xpubuild.errors import (
    FetchError,
    RecipeError,
    SourceIntegrityError,
    ToolchainError,
    UnsatisfiableError,
    UsageError,
)
from xpubuild.toolchain.envmark import MARK

NOTHING = Engines()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A channel, and the text of its lock."""
    folder = tmp_path_factory.mktemp("conda")
    python_package = Tiny(
        "setuptools", "80.0.0", depends=["python"], subdir="linux-64", files=dist("setuptools", "80.0.0")
    )
    channel = make_channel(folder / "chän nel", [*usual(), python_package])
    return channel, solved((*TOOLCHAIN, "setuptools"), [str(channel)], RATTLER, folder / "cache")


def dist(name: str, version: str) -> dict[str, bytes | Path]:
    """Return a Python package as conda's builders leave it: RECORD still tells of pip."""
    info = f"{SITE}/{name}-{version}.dist-info"
    inside = f"{name}-{version}.dist-info"
    pip = base64.urlsafe_b64encode(hashlib.sha256(b"pip\n").digest()).rstrip(b"=").decode()
    rows = (
        f"{inside}/INSTALLER,sha256={pip},4\n{inside}/METADATA,,\n{inside}/RECORD,,\n{inside}/REQUESTED,,0\n"
    )
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return {
        f"{info}/INSTALLER": b"conda",
        f"{info}/METADATA": metadata.encode(),
        f"{info}/RECORD": rows.encode(),
    }


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return tmp_path / "my wörk space" / "env"


def work(env: Path, text: str, cache: Path, engines: Engines = RATTLER, **supply: object) -> Installation:
    supply.setdefault("offline", True)
    return Installation(
        env, read_lock(text), Supply(cache=cache, **supply), engines, base_environment(), lambda line: None  # type: ignore[arg-type]
    )  # fmt: skip


def content(env: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for path in sorted(env.rglob("*")):
        if path.is_symlink() or path.is_file():
            found[str(path.relative_to(env))] = (
                str(path.readlink()) if path.is_symlink() else path.read_bytes()
            )
    return found


def test_an_environment_is_made_once_and_is_proved(made: tuple[Path, str], env: Path, tmp_path: Path) -> None:
    channel, text = made
    assert make_conda_env(work(env, text, tmp_path)) is True
    lock = read_lock(text)
    evidence = CondaEnvironmentProof(str(env), lock).check()
    assert evidence["python"] == VERSION
    assert evidence["packages"] == {item.filename: item.sha256 for item in lock.packages}
    assert evidence["left_out"] == ["tbb"]
    assert evidence["activation_scripts_not_run"] == ["cmake.sh"]
    mkl = mkl_proof(str(env), lock)
    assert mkl is not None
    assert mkl.check()["distributions"] == {"mkl_static": "2026.0.0", "mkl_include": "2026.0.0"}
    said = subprocess.run([env / "bin/cmake"], capture_output=True, text=True, check=True).stdout
    assert said == "cmake version 3.31.2\n"
    assert str(env) in (env / "bin/cmake").read_text()
    assert make_conda_env(work(env, text, tmp_path, NOTHING)) is False
    assert [path.name for path in env.parent.iterdir()] == ["env"]
    records = "".join(path.read_text() for path in (env / "conda-meta").iterdir())
    assert channel.as_uri() in records
    assert ".env.conda" not in records


def test_the_same_bytes_whichever_program_installs(made: tuple[Path, str], env: Path, tmp_path: Path) -> None:
    _, text = made
    make_conda_env(work(env, text, tmp_path))
    first = content(env)
    shutil.rmtree(env)
    conda = Engines(conda=front(tmp_path / "bin"))
    make_conda_env(work(env, text, tmp_path, conda))
    assert content(env) == first
    CondaEnvironmentProof(str(env), read_lock(text)).check()


def test_conda_packages_do_not_look_like_a_half_done_pip(
    made: tuple[Path, str], env: Path, tmp_path: Path
) -> None:
    make_conda_env(work(env, made[1], tmp_path))
    assert repair(env / SITE) == []
    assert (env / SITE / "setuptools-80.0.0.dist-info/METADATA").exists()


def test_a_real_pip_works_in_it_and_what_it_installs_is_left_alone(env: Path, tmp_path: Path) -> None:
    """pip replaces conda's setuptools by the pinned one, as the toolchain step does."""
    packages = [item for item in usual() if item.name != "pip"]
    old = Tiny("setuptools", "80.0.0", depends=["python"], files=dist("setuptools", "80.0.0"))
    channel = make_channel(tmp_path / "channel", [*packages, from_wheel(pip_wheel()), old])
    text = solved(("python", "pip", "setuptools"), [str(channel)], RATTLER, tmp_path / "cache")
    make_conda_env(work(env, text, tmp_path))
    wheel = small_wheel(tmp_path, "setuptools", "81.0.0")
    argv = [str(env / "bin/python"), "-I", "-m", "pip", "install", "--no-index", "--no-deps", str(wheel)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "Successfully uninstalled setuptools-80.0.0" in said
    assert [path.name for path in (env / SITE).glob("setuptools-*")] == ["setuptools-81.0.0.dist-info"]
    assert repair(env / SITE) == []
    CondaEnvironmentProof(str(env), read_lock(text)).check()
    assert make_conda_env(work(env, text, tmp_path, NOTHING)) is False


def pip_wheel() -> Path:
    """Return the pip that virtualenv brings."""
    spec = importlib.util.find_spec("virtualenv.seed.wheels.embed")
    assert spec is not None
    return next(Path(str(spec.origin)).parent.glob("pip-*.whl"))


def small_wheel(folder: Path, name: str, version: str) -> Path:
    made = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(made, "w") as bundle:
        bundle.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        bundle.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        bundle.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return made


def test_a_mirror_is_enough(made: tuple[Path, str], env: Path, tmp_path: Path) -> None:
    channel, text = made
    elsewhere = text.replace(channel.as_uri(), "https://conda.example.invalid/forge")
    packages = packages_of(elsewhere)
    with pytest.raises(FetchError, match=f"{packages[0].filename} and {len(packages) - 1} others") as caught:
        make_conda_env(work(env, elsewhere, tmp_path))
    assert caught.value.exit_code == 30
    assert not env.exists()
    for package in packages[:-1]:
        place = tmp_path / "mirror" / package.sha256 / package.filename
        place.parent.mkdir(parents=True)
        shutil.copy(channel / package.subdir / package.filename, place)
    find = in_folder(tmp_path / "mirror")
    assert missing_packages(packages, Supply(tmp_path, find)) == packages[-1:]
    with pytest.raises(FetchError, match=packages[-1].filename):
        make_conda_env(work(env, elsewhere, tmp_path, find=find))
    place = tmp_path / "mirror" / packages[-1].sha256
    shutil.copy(channel / packages[-1].subdir / packages[-1].filename, place)
    assert make_conda_env(work(env, elsewhere, tmp_path, find=find)) is True
    CondaEnvironmentProof(str(env), read_lock(elsewhere)).check()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "bit": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "cut": lambda data: data[:-1],
    "empty": lambda data: b"",
    "another": lambda data: archive(Tiny("cmake", "3.31.2", files={"bin/cmake": b"#!/bin/sh\necho evil\n"})),
}


@pytest.mark.parametrize("engine", ["rattler", "conda"])
@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_wrong_archive_in_a_folder_is_found_where_rattler_would_take_it(
    made: tuple[Path, str], env: Path, tmp_path: Path, damage: str, engine: str
) -> None:
    channel = tmp_path / "copy"
    shutil.copytree(made[0], channel)
    text = made[1].replace(made[0].as_uri(), channel.as_uri())
    path = channel / "linux-64" / "cmake-3.31.2-0.conda"
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    engines = RATTLER if engine == "rattler" else Engines(conda=front(tmp_path / "bin"))
    with pytest.raises(SourceIntegrityError, match=r"cmake-3\.31\.2-0\.conda is not the one") as caught:
        make_conda_env(work(env, text, tmp_path, engines))
    assert caught.value.exit_code == 31
    assert not (env / "bin").exists()
    shutil.copy(made[0] / "linux-64" / path.name, path)
    assert make_conda_env(work(env, text, tmp_path, engines)) is True


@pytest.mark.parametrize("kind", ["sha256", "md5"])
@pytest.mark.parametrize("index", range(8))
def test_any_changed_hash_of_the_lock_is_found(
    made: tuple[Path, str], env: Path, tmp_path: Path, index: int, kind: str
) -> None:
    lock = read_lock(made[1])
    packages = list(lock.packages)
    right: str = getattr(packages[index], kind)
    wrong = ("0" if right[0] != "0" else "1") + right[1:]
    packages[index] = replace(packages[index], **{kind: wrong})  # type: ignore[arg-type]
    with pytest.raises(SourceIntegrityError, match=packages[index].filename):
        make_conda_env(work(env, write_lock(replace(lock, packages=tuple(packages))), tmp_path))


class TestOverHttp:
    def test_archives_are_fetched_once_and_a_damaged_copy_again(
        self, made: tuple[Path, str], env: Path, tmp_path: Path
    ) -> None:
        channel, text = made
        with served(channel) as url:
            text = text.replace(channel.as_uri(), url)
            assert make_conda_env(work(env, text, tmp_path / "cache", offline=False)) is True
            copies = sorted((tmp_path / "cache").glob("*/*"))
            assert len(copies) == len(packages_of(text))
            copies[0].write_bytes(copies[0].read_bytes()[:-3])
            shutil.rmtree(env)
            assert make_conda_env(work(env, text, tmp_path / "cache", offline=False)) is True
        shutil.rmtree(env)
        assert make_conda_env(work(env, text, tmp_path / "cache")) is True

    def test_a_wrong_one_is_not_kept(self, made: tuple[Path, str], env: Path, tmp_path: Path) -> None:
        channel = tmp_path / "copy"
        shutil.copytree(made[0], channel)
        (channel / "linux-64" / "ninja-1.13.0-0.tar.bz2").write_bytes(b"x" * 531)
        with served(channel) as url, pytest.raises(SourceIntegrityError, match=r"ninja-1\.13\.0"):
            make_conda_env(
                work(env, made[1].replace(made[0].as_uri(), url), tmp_path / "cache", offline=False)
            )
        assert not list((tmp_path / "cache").glob("*/ninja*"))
        assert not list((tmp_path / "cache").glob("*/.part*"))

    def test_a_token_is_used_and_not_shown(self, made: tuple[Path, str], tmp_path: Path) -> None:
        channel, text = made
        with served(channel, password="tk-secret-77") as url:
            package = packages_of(text.replace(channel.as_uri(), url))[0]
            with pytest.raises(FetchError) as caught:
                fetch(package, tmp_path)
            assert "404" in caught.value.why
            assert fetch(package, tmp_path, resolve([f"{url}/t/tk-secret-77"])).is_file()
        with pytest.raises(FetchError) as caught:
            fetch(replace(package, sha256="0" * 64), tmp_path, resolve([f"{url}/t/tk-secret-77"]))
        assert caught.value.exit_code == 30
        assert "tk-secret" not in str(caught.value.to_json())


KILLED = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[4:]
from xpubuild.conda import install
from xpubuild.conda.archives import Supply
from xpubuild.conda.engines import Engines
from xpubuild.engine.environment import base_environment
lock = install.read_lock_file(Path(sys.argv[2]))
supply = Supply(cache=Path(sys.argv[3]), offline=True)
print("started", flush=True)
work = install.Installation(
    Path(sys.argv[1]), lock, supply, Engines(rattler=sys.executable), base_environment(), print
)
install.make_conda_env(work)
"""


@pytest.mark.parametrize("after_s", [0.0, 0.03, 0.08, 0.15, 0.25])
def test_killed_at_any_moment_and_run_again_it_is_the_same(
    made: tuple[Path, str], env: Path, tmp_path: Path, after_s: float
) -> None:
    whole = tmp_path / "my wörk space" / "env"
    make_conda_env(work(whole, made[1], tmp_path))
    expected = content(whole)
    shutil.rmtree(whole)
    (tmp_path / "lock.yml").write_text(made[1])
    argv = [sys.executable, "-c", KILLED, str(env), str(tmp_path / "lock.yml"), str(tmp_path), *sys.path]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(after_s)
        child.send_signal(signal.SIGKILL)
    make_conda_env(work(env, made[1], tmp_path))
    assert content(env) == expected
    assert [path.name for path in env.parent.iterdir()] == ["env"]


@pytest.mark.parametrize("damage", ["making", "no record", "file gone", "other lock", "python gone", "venv"])
def test_one_that_is_not_whole_is_made_again(
    made: tuple[Path, str], env: Path, tmp_path: Path, damage: str
) -> None:
    make_conda_env(work(env, made[1], tmp_path))
    expected = content(env)
    mark = json.loads((env / MARK).read_text())
    (env / "left over").write_text("x")
    if damage == "making":
        (env / MARK).write_text(json.dumps({**mark, "state": "making"}))
    elif damage == "no record":
        (env / "conda-meta/cmake-3.31.2-0.json").unlink()
    elif damage == "file gone":
        (env / "lib/libmkl_core.a").unlink()
    elif damage == "other lock":
        (env / MARK).write_text(json.dumps({**mark, "conda": "0" * 64}))
    elif damage == "python gone":
        (env / "bin/python").unlink()
    else:
        (env / MARK).write_text(json.dumps({"state": "ready", "base": sys.executable, "version": MINOR}))
    assert make_conda_env(work(env, made[1], tmp_path)) is True
    assert content(env) == expected


def test_somebody_elses_folder_is_left_alone(made: tuple[Path, str], env: Path, tmp_path: Path) -> None:
    env.mkdir(parents=True)
    (env / "precious").write_text("x")
    with pytest.raises(UsageError, match="in the way"):
        make_conda_env(work(env, made[1], tmp_path))
    assert (env / "precious").exists()
    with pytest.raises(UsageError, match="no environment can be made"):
        make_conda_env(work(tmp_path / "a:b", made[1], tmp_path))


def test_without_an_engine_the_way_out_is_named(made: tuple[Path, str], env: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="cannot be installed"):
        make_conda_env(work(env, made[1], tmp_path, NOTHING))


def test_a_lock_with_a_harmful_package_is_refused_whoever_wrote_it(env: Path, tmp_path: Path) -> None:
    channel = make_channel(tmp_path / "channel", usual())
    records = solved(("python",), [str(channel)], RATTLER, tmp_path / "cache")
    lock = read_lock(records)
    bad = replace(lock.packages[0], name="gxx_linux-64", version="1.0", filename="gxx_linux-64-1.0-0.conda",
                  url=f"{channel.as_uri()}/linux-64/gxx_linux-64-1.0-0.conda")  # fmt: skip
    with pytest.raises(UnsatisfiableError, match="gxx_linux-64") as caught:
        make_conda_env(work(env, write_lock(replace(lock, packages=(*lock.packages, bad))), tmp_path))
    assert caught.value.exit_code == 22


class TestProof:
    @pytest.mark.parametrize(
        ("record", "said"),
        [
            ({"name": "tbb", "version": "1", "files": []}, "tbb is installed and not in the lock"),
            ({"name": "cmake", "version": "3.31.2", "sha256": "0" * 64}, "cmake is 3.31.2 with sha256 0000"),
        ],
    )
    def test_what_was_changed_afterwards_is_found(
        self, made: tuple[Path, str], env: Path, tmp_path: Path, record: dict[str, object], said: str
    ) -> None:
        make_conda_env(work(env, made[1], tmp_path))
        (env / "conda-meta" / "zz.json").write_text(json.dumps(record))
        with pytest.raises(ToolchainError) as caught:
            CondaEnvironmentProof(str(env), read_lock(made[1])).check()
        assert said in caught.value.why

    def test_missing_static_mkl_is_found(self, made: tuple[Path, str], env: Path, tmp_path: Path) -> None:
        make_conda_env(work(env, made[1], tmp_path))
        (env / "conda-meta/mkl-static-2026.0.0-0.json").unlink()
        proof = mkl_proof(str(env), read_lock(made[1]))
        assert proof is not None
        with pytest.raises(ToolchainError, match="not whole"):
            proof.check()

    @pytest.mark.needs("g++")
    def test_a_libstdcxx_older_than_the_driver_needs_is_named(
        self, made: tuple[Path, str], env: Path, tmp_path: Path
    ) -> None:
        """Small libraries with the names and symbol versions of the real ones."""
        old, new = (library(tmp_path / name, version) for name, version in (("old", "29"), ("new", "32")))
        assert provided(old) == "GLIBCXX_3.4.29"
        host = tmp_path / "host"
        folder = host / "usr/lib64"
        folder.mkdir(parents=True)
        assert machine_need(host) is None
        driver(folder / "libze_intel_gpu.so.1", new)
        assert machine_need(host) == CxxNeed("GLIBCXX_3.4.32", str(folder / "libze_intel_gpu.so.1"))
        assert machine_need() is not None

        brings = {"lib/libstdc++.so.6": old.read_bytes()}
        packages = [replace(p, files=brings) if p.name == "libstdcxx-ng" else p for p in usual()]
        channel = make_channel(tmp_path / "channel", packages)
        text = solved(("python",), [str(channel)], RATTLER, tmp_path / "cache")
        make_conda_env(work(env, text, tmp_path))
        proof = CondaEnvironmentProof(str(env), read_lock(text), root=str(host))
        with pytest.raises(ToolchainError, match=r"libstdcxx-ng 15\.2\.0 is older") as caught:
            proof.check()
        assert "GLIBCXX_3.4.29" in caught.value.why
        assert "libze_intel_gpu" in caught.value.why
        assert "libstdcxx-ng >=13.2" in caught.value.fix
        shutil.copy(new, env / "lib/libstdc++.so.6")
        assert proof.check()["libstdcxx"]["has"] == "GLIBCXX_3.4.32"


def library(folder: Path, minor: str) -> Path:
    """Build a libstdc++.so.6 with one symbol of one version."""
    folder.mkdir()
    (folder / "map").write_text(f"GLIBCXX_3.4.{minor} {{ global: newest; local: *; }};\n")
    (folder / "a.c").write_text("int newest(void) { return 1; }\n")
    made = folder / "libstdc++.so.6"
    argv = ["g++", "-x", "c", "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libstdc++.so.6", "a.c",
            "-Wl,--version-script,map", "-o", str(made)]  # fmt: skip
    subprocess.run(argv, cwd=folder, check=True)
    return made


def driver(path: Path, stdlib: Path) -> None:
    source = path.parent / "driver.c"
    source.write_text("int newest(void); int use(void) { return newest(); }\n")
    argv = [
        "g++",
        "-x",
        "c",
        "-shared",
        "-fPIC",
        "-nostdlib",
        str(source),
        "-x",
        "none",
        str(stdlib),
        "-o",
        str(path),
    ]
    subprocess.run(argv, check=True)
    source.unlink()


def test_the_plumbing_command(
    made: tuple[Path, str],
    env: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    xpubuild = Xpubuild(capsys, monkeypatch)
    (tmp_path / "conda-lock.yml").write_text(made[1])
    argv = (
        "plumbing",
        "conda-env",
        str(env),
        "--lock",
        str(tmp_path / "conda-lock.yml"),
        "--cache",
        str(tmp_path),
    )
    assert "is made" in xpubuild.ok(*argv, XPUBUILD_OFFLINE="1").out
    assert "is there" in xpubuild.ok(*argv).out
    missing = xpubuild(*argv[:3], "--lock", str(tmp_path / "no"), *argv[5:])
    assert missing.status == 20
    with pytest.raises(RecipeError):
        read_lock_file(tmp_path)
