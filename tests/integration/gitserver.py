"""A real git server on loopback for tests: git http-backend behind http.server, with faults on order."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit


@dataclass
class Faults:
    """What goes wrong. Counters count down; the rest stays until changed.

    ``cut``: how many of the next pack responses end after ``cut_after`` bytes of the body.
    ``fail``: how many of the next requests are answered with ``fail_status``.
    ``hang``: requests are read and never answered. ``old_protocol``: the server speaks protocol 0, which
    gives no single commits unless the repository allows it. ``credentials``: user:password to ask for.
    """

    cut: int = 0
    cut_after: int = 2000
    fail: int = 0
    fail_status: int = 503
    hang: bool = False
    old_protocol: bool = False
    credentials: str = ""


@dataclass
class GitServer:
    """``url(name)`` is served from ``root/name``. ``requests`` are the paths asked for, in order."""

    root: Path
    port: int = 0
    faults: Faults = field(default_factory=Faults)
    requests: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{quote(name)}"

    def take(self, counter: str) -> bool:
        """Use up one of a counted fault."""
        with self.lock:
            left: int = getattr(self.faults, counter)
            setattr(self.faults, counter, max(0, left - 1))
            return left > 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self._body())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        data = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _serve(self, body: bytes) -> None:
        world = self.server.world
        with world.lock:
            world.requests.append(self.path)
        if world.faults.hang:
            world.stopping.wait(60)
            self.close_connection = True
            return
        if world.take("fail"):
            self._plain(world.faults.fail_status)
            return
        wanted = world.faults.credentials
        if wanted and self.headers.get("Authorization") != _basic(wanted):
            self._plain(401, ("WWW-Authenticate", 'Basic realm="test"'))
            return
        self._backend(body)

    def _plain(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _backend(self, body: bytes) -> None:
        world = self.server.world
        parts = urlsplit(self.path)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(world.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": unquote(parts.path),
            "QUERY_STRING": parts.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        if not world.faults.old_protocol:
            env["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        done = subprocess.run(
            [shutil.which("git") or "git", "http-backend"],
            input=body,
            env=env,
            capture_output=True,
            check=False,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        self.send_response(status)
        for name, value in headers:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if b"PACK" in content and world.take("cut"):
            self.wfile.write(content[: world.faults.cut_after])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    world: GitServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away (killed, by design of a test) is no error of the server."""


def _basic(credentials: str) -> str:
    return "Basic " + base64.b64encode(credentials.encode()).decode()


@contextlib.contextmanager
def git_server(root: Path) -> Iterator[GitServer]:
    """Serve the repositories below ``root`` until the block ends."""
    world = GitServer(root)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.world = world
    world.port = int(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield world
    finally:
        world.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
    "GIT_AUTHOR_NAME": "A. Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "A. Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


def git(*args: str, cwd: Path, env: dict[str, str] | None = None, stdin: bytes = b"") -> str:
    """Run git for a test, with no configuration but the repository's; return its output."""
    done = subprocess.run(
        ["git", *args], cwd=cwd, env={**GIT_ENV, **(env or {})}, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, f"git {args}: {done.stderr.decode()}"
    return done.stdout.decode().strip()


@dataclass
class Upstream:
    """A bare repository that commits are made in without a work tree."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> Upstream:
        path.mkdir(parents=True)
        git("init", "--quiet", "--bare", "-b", "main", ".", cwd=path)
        return cls(path)

    def commit(
        self,
        files: dict[str, str | bytes],
        *,
        links: dict[str, str] | None = None,
        parent: str | None = None,
        branch: str = "main",
        modes: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
    ) -> str:
        """Commit exactly ``files`` and ``links`` (path -> commit of a submodule); return the commit."""
        env = {**(env or {}), "GIT_INDEX_FILE": str(self.path / "index.tmp")}
        lines = []
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            blob = git("hash-object", "-w", "--stdin", cwd=self.path, stdin=data)
            lines.append(f"{(modes or {}).get(name, '100644')} {blob}\t{name}\n")
        lines += [f"160000 {commit}\t{name}\n" for name, commit in (links or {}).items()]
        git("read-tree", "--empty", cwd=self.path, env=env)
        git("update-index", "--add", "--index-info", cwd=self.path, env=env, stdin="".join(lines).encode())
        tree = git("write-tree", "--missing-ok", cwd=self.path, env=env)
        parents = ["-p", parent] if parent else []
        commit = git("commit-tree", *parents, "-m", "a commit", tree, cwd=self.path, env=env)
        git("update-ref", f"refs/heads/{branch}", commit, cwd=self.path)
        return commit


def gitmodules(*submodules: tuple[str, str]) -> str:
    """Return a ``.gitmodules`` for (path, url) pairs."""
    return "".join(f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n' for path, url in submodules)


@dataclass
class Nested:
    """Three levels of repositories with relative URLs, at two pins; the second one changes all of them.

    ``top`` has ``third_party/mid``, which has ``deps/inner``. At ``second``, top gains ``extra`` and mid
    drops ``deps/inner`` for ``deps/other``.
    """

    top: Upstream
    first: str
    second: str

    @classmethod
    def make(cls, root: Path) -> Nested:
        inner, other, extra, mid, top = (
            Upstream.make(root / f"{name}.git") for name in ("inner", "other", "extra", "mid", "top")
        )
        inner1 = inner.commit({"inner.h": "inner 1\n"})
        other1 = other.commit({"other.h": "other 1\n"})
        extra1 = extra.commit({"extra.h": "extra 1\n"})
        common = {f"src/file {n}.c": f"int f{n};\n" * 200 for n in range(30)}
        mid1 = mid.commit(
            {".gitmodules": gitmodules(("deps/inner", "../inner.git")), "mid.c": "mid 1\n"},
            links={"deps/inner": inner1},
        )
        mid2 = mid.commit(
            {".gitmodules": gitmodules(("deps/other", "./../other.git")), "mid.c": "mid 2\n"},
            links={"deps/other": other1},
            parent=mid1,
        )
        first = top.commit(
            {
                ".gitmodules": gitmodules(("third_party/mid", "../mid.git")),
                ".gitignore": "*.o\nbuild/\n",
                "grüße.txt": "eins\n",
                "run.sh": "#!/bin/sh\n",
                "old.txt": "goes\n",
                "link": "grüße.txt",
                **common,
            },
            links={"third_party/mid": mid1},
            modes={"run.sh": "100755", "link": "120000"},
        )
        second = top.commit(
            {
                ".gitmodules": gitmodules(("third_party/mid", "../mid.git"), ("extra", "../extra.git")),
                ".gitignore": "*.o\nbuild/\n",
                "grüße.txt": "zwei\n",
                "run.sh": "#!/bin/sh\n",
                "new/deep/file.txt": "comes\n",
                "link": "run.sh",
                **{name: text + "int more;\n" * 100 for name, text in common.items()},
            },
            links={"third_party/mid": mid2, "extra": extra1},
            modes={"run.sh": "100755", "link": "120000"},
            parent=first,
        )
        return cls(top, first, second)


def snapshot(folder: Path) -> dict[str, str]:
    """Return path -> kind and content of every file of a work tree, ``.git`` left out."""
    found = {}
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder).as_posix()
        if ".git" in place.split("/"):
            continue
        if file.is_symlink():
            found[place] = f"link {file.readlink()}"
        elif file.is_file():
            found[place] = f"{'x' if os.access(file, os.X_OK) else '-'} {file.read_bytes()!r}"
    return found


def plain_clone(url: str, commit: str, into: Path) -> dict[str, str]:
    """Clone with nothing but git, and return the snapshot: what every other way has to equal."""
    allow = ("-c", "protocol.file.allow=always")
    git(*allow, "clone", "--quiet", "--no-checkout", url, str(into), cwd=into.parent)
    git("checkout", "--quiet", "--detach", commit, cwd=into)
    git(*allow, "submodule", "--quiet", "update", "--init", "--recursive", cwd=into)
    return snapshot(into)
