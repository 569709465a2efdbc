"""What the tests of the conda route share: channels, locks, environments, a stand-in for conda."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from support.conda_channel import SITE, Tiny, make_channel, usual
from support.files import script
from xpubuild.engine.environment import base_environment
from xpubuild.supply.archives import Supply
from xpubuild.supply.conda.environment import make_conda_env
from xpubuild.supply.conda.lockfile import read_lock, resolve
from xpubuild.supply.conda.solve import CondaLocker, Wanted, make_lock

TOOLCHAIN = ("python", "pip", "cmake >=3.27,<4", "ninja")
CONDA_LOCK = Path(sys.executable).parent / "conda-lock"
#: What ``channel_and_lock`` makes.
CHANNEL, LOCK = "chän nel", "conda-lock.yml"


def conda_locker(folder: Path) -> CondaLocker:
    """Return conda-lock itself; the ``conda`` that it runs is a stand-in over rattler, no real conda."""
    front = Path(__file__).with_name("conda_front.py")
    program = script(folder / "conda", f'exec "{sys.executable}" "{front}" "$@"')
    return CondaLocker(str(CONDA_LOCK), str(program))


def solved(
    specs: tuple[str, ...], channels: list[str], cache: Path, locker: CondaLocker | None = None
) -> str:
    wanted = Wanted(specs, resolve(channels))
    return make_lock(wanted, locker, environment=base_environment(), cache=cache, report=lambda line: None)


@contextmanager
def served(folder: Path, *, login: str = "") -> Iterator[str]:
    """Serve a folder on loopback, to who has the ``login`` (user:password) where there is one."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def translate_path(self, path: str) -> str:
            wanted = f"Basic {base64.b64encode(login.encode()).decode()}"
            known = not login or self.headers.get("Authorization") == wanted
            return super().translate_path(path) if known else str(folder / "no such file")

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def channel_and_lock(folder: Path) -> None:
    """Make a channel with what a build needs, and its lock."""
    # As conda's builders leave a Python package: RECORD still tells of pip.
    info = "setuptools-80.0.0.dist-info"
    pip = base64.urlsafe_b64encode(hashlib.sha256(b"pip\n").digest()).rstrip(b"=").decode()
    rows = f"{info}/INSTALLER,sha256={pip},4\n{info}/METADATA,,\n{info}/RECORD,,\n{info}/REQUESTED,,0\n"
    metadata = b"Metadata-Version: 2.1\nName: setuptools\nVersion: 80.0.0\n"
    files = {"INSTALLER": b"conda", "METADATA": metadata, "RECORD": rows.encode()}
    inside = {f"{SITE}/{info}/{name}": content for name, content in files.items()}
    python_package = Tiny("setuptools", "80.0.0", depends=["python"], subdir="linux-64", files=inside)
    channel = make_channel(folder / CHANNEL, [*usual(), python_package])
    text = solved((*TOOLCHAIN, "setuptools"), [str(channel)], folder / "cache")
    (folder / LOCK).write_text(text, "utf-8")


def work(env: Path, text: str, cache: Path, **supply: object) -> bool:
    supply.setdefault("offline", True)
    found = Supply(cache=cache, **supply)  # type: ignore[arg-type]
    return make_conda_env(env, read_lock(text), found, base_environment(), lambda line: None)
