"""The proofs of a conda environment: what was changed afterwards, MKL, libstdc++."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support.conda_channel import make_channel, usual
from support.conda_environments import work
from support.conda_tools import RATTLER, solved

from xpubuild.errors import ToolchainError
from xpubuild.supply.conda.environment import CondaEnvironmentProof, make_conda_env, mkl_proof
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.conda.traps import CxxNeed, machine_need, provided


class TestProof:
    @pytest.mark.parametrize(
        ("record", "said"),
        [
            ({"name": "tbb", "version": "1", "files": []}, "tbb is installed, but not in the lock"),
            ({"name": "cmake", "version": "3.31.2", "sha256": "0" * 64}, "cmake is 3.31.2 with sha256 0000"),
        ],
    )
    def test_what_was_changed_afterwards_is_found(
        self, conda: tuple[Path, str], env: Path, tmp_path: Path, record: dict[str, object], said: str
    ) -> None:
        make_conda_env(work(env, conda[1], tmp_path))
        (env / "conda-meta" / "zz.json").write_text(json.dumps(record))
        with pytest.raises(ToolchainError) as caught:
            CondaEnvironmentProof(str(env), read_lock(conda[1])).check()
        assert said in caught.value.why

    def test_missing_static_mkl_is_found(self, conda: tuple[Path, str], env: Path, tmp_path: Path) -> None:
        make_conda_env(work(env, conda[1], tmp_path))
        (env / "conda-meta/mkl-static-2026.0.0-0.json").unlink()
        proof = mkl_proof(str(env), read_lock(conda[1]))
        assert proof is not None
        with pytest.raises(ToolchainError, match="incomplete"):
            proof.check()

    @pytest.mark.needs("g++")
    def test_a_libstdcxx_older_than_the_driver_needs_is_named(
        self, conda: tuple[Path, str], env: Path, tmp_path: Path
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
