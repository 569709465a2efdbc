"""A small tree that asks for the same things as triton's setup.py and CMake, through the same variables.

It wants an LLVM and a json as unpacked folders, clones a translator at the commit in a file, and the headers
that the translator names; it puts a link below TRITON_HOME, else below the home folder.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

LLVM, JSON = "llvm-12345678-almalinux-x64", "include.zip"
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """
import base64, hashlib, json, os, subprocess, zipfile
from pathlib import Path

def system_path(variable):
    if os.environ.get(variable):
        return Path(os.environ[variable])
    if os.environ.get("TRITON_OFFLINE_BUILD") == "1":
        raise RuntimeError(f"Requested an offline build but {variable} is not set")
    raise RuntimeError("this tree downloads nothing in tests")

def cloned(url, commit, into):
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", url, into], check=True)
    subprocess.run(["git", "-C", into, "checkout", "--quiet", commit], check=True)
    return Path(into)

def build_wheel(folder, config_settings=None, metadata_directory=None):
    llvm, headers = system_path("LLVM_SYSPATH"), system_path("JSON_SYSPATH")
    link = Path(os.environ.get("TRITON_HOME") or os.environ["HOME"], ".triton", "llvm", "llvm-here")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(llvm)
    scratch = Path(os.environ["TRITON_HOME"]) / "scratch"
    subprocess.run(["rm", "-rf", scratch], check=True)
    translator = cloned("@TRANSLATOR@", Path("translator.conf").read_text().strip(), scratch / "translator")
    spirv = cloned("@HEADERS@", (translator / "headers.conf").read_text().strip(), scratch / "headers")
    seen = {
        "llvm": (llvm / "lib/cmake/llvm/LLVMConfig.cmake").read_text(),
        "json": (headers / "include/json.hpp").read_text(),
        "headers": (spirv / "spirv.hpp").read_text(),
        "tool": subprocess.run([llvm / "bin/tool"], check=True, capture_output=True, text=True).stdout,
        "flags": os.environ["CXXFLAGS"],
    }
    files = {
        "like_triton.json": json.dumps(seen),
        "like_triton-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: like-triton\\nVersion: 1.0\\n",
        "like_triton-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\n"
        "Root-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    rows = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(text.encode())}\\n")
    record = "like_triton-1.0.dist-info/RECORD"
    with zipfile.ZipFile(Path(folder, "like_triton-1.0-py3-none-any.whl"), "w") as wheel:
        for name, text in {**files, record: "".join(rows) + f"{record},,\\n"}.items():
            wheel.writestr(name, text)
    return "like_triton-1.0-py3-none-any.whl"
"""
RECIPE = """
schema: 1
name: like
title: a tree that asks for the same things as triton
target: cpu
needs: {{disk_gib: 0.01}}
abi: {{default: 0}}
components:
  like:
    kind: source
    dist: like-triton
    source:
      url: {tree}
      commit: {commit}
      configure_time:
        - {{url: "{translator}", pin_file: translator.conf, when: always}}
        - {{url: "{headers}", commit: {headers_commit}, when: always}}
    build:
      env: {{TRITON_OFFLINE_BUILD: 1, TRITON_HOME: "{{build}}/triton-home"}}
      cxx11_abi: 1
      archives:
        llvm:
          url: {served}/{llvm}.tar.gz
          variable: LLVM_SYSPATH
          folder: {llvm}
          pin_file: llvm-hash.txt
          commit: "1234567812345678123456781234567812345678"
        json: {{url: "{served}/include.zip", variable: JSON_SYSPATH, sha256: {sha256}}}
    audit: {{cxx11_abi: false}}
"""


def llvm_archive(text: str = "the first LLVM\n") -> bytes:
    """Return an archive of LLVM's layout: a CMake package and a program below one folder."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content, mode in (
            ("lib/cmake/llvm/LLVMConfig.cmake", text, 0o644),
            ("bin/tool", "#!/bin/sh\necho runs\n", 0o755),
        ):
            info = tarfile.TarInfo(f"{LLVM}/{name}")
            info.size, info.mode = len(content), mode
            tar.addfile(info, io.BytesIO(content.encode()))
    return gzip.compress(data.getvalue(), mtime=0)


def write_archives(folder: Path) -> None:
    folder.mkdir()
    (folder / f"{LLVM}.tar.gz").write_bytes(llvm_archive())
    with zipfile.ZipFile(folder / JSON, "w") as archive:
        archive.writestr("include/json.hpp", "json\n")
