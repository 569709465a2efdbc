"""The xpubuild of an image: the running one as a wheel again; its dependencies stand in a hashed file."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import io
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

from xpubuild.artifacts.record import record_hash
from xpubuild.errors import ToolchainError
from xpubuild.resources import CHECKOUT, PACKAGE

#: The name of the file with its dependencies, in ``recipes/requirements`` and beside the wheel.
REQUIREMENTS = "xpubuild.txt"
_NAME = "xpubuild"
#: What describes one installation, and the list that is made again.
_OF_INSTALLATION = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"})


@functools.cache
def own_wheel() -> tuple[str, bytes]:
    """Return name and content of a wheel: what RECORD lists, or the files of the checkout that is linked.

    The same files make the same bytes.

    Raises:
        ToolchainError: an installed file is missing, or is not as RECORD has it.
    """
    installed = importlib.metadata.distribution(_NAME)
    listed = {str(path): path for path in installed.files or () if path.suffix != ".pyc"}
    whole = f"{_NAME}/__init__.py" in listed
    found = {} if whole else _of_checkout()
    for name, path in listed.items():
        folder = path.parts[0]
        about = folder.endswith(".dist-info") and path.name not in _OF_INSTALLATION
        if about or (whole and folder == _NAME):
            place = Path(str(path.locate()))
            found[name] = place
            if not place.is_file() or (
                path.hash and f"sha256={path.hash.value}" != _hash(place.read_bytes())
            ):
                raise ToolchainError(
                    f"the installed file {place} is missing or was changed",
                    why="the image would get another xpubuild than its version says",
                    fix="install xpubuild again, or pass a wheel of it with --xpubuild",
                )
    return f"{_NAME}-{installed.version}-py3-none-any.whl", _packed(found, f"{_NAME}-{installed.version}")


def _of_checkout() -> dict[str, Path]:
    """Return the files of the checkout that runs, by their names in a wheel."""
    package, found = PACKAGE, dict[str, Path]()
    folders = {f"{_NAME}/_data/{name}": package.parent / folder for name, folder in CHECKOUT.items()}
    for name, folder in {_NAME: package, **folders}.items():
        files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
        found |= {f"{name}/{path.relative_to(folder)}": path for path in files}
    return found


def _packed(files: Mapping[str, Path], stem: str) -> bytes:
    buffer, record, rows = io.BytesIO(), f"{stem}.dist-info/RECORD", list[str]()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            data = path.read_bytes()
            mode = 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
            _add(archive, name, data, mode)
            rows.append(f"{name},{_hash(data)},{len(data)}")
        _add(archive, record, "\n".join([*rows, f"{record},,", ""]).encode(), 0o644)
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name)  # of 1980
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (stat.S_IFREG | mode) << 16
    archive.writestr(info, data)


def _hash(data: bytes) -> str:
    return record_hash(hashlib.sha256(data).digest())
