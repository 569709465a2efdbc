"""What the tests of the conda route share: solving, a stand-in for conda, a channel over http."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from support.files import script
from xpubuild.engine.environment import base_environment
from xpubuild.supply.conda.lockfile import resolve
from xpubuild.supply.conda.solve import CondaLocker, Wanted, make_lock

TOOLCHAIN = ("python", "pip", "cmake >=3.27,<4", "ninja")
CONDA_LOCK = Path(sys.executable).parent / "conda-lock"


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
