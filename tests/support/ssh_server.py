"""A real sshd on loopback: a host key, users' keys and a configuration of its own, and no right of root's."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.net import free_port

_START_S = 20.0
#: sshd started by root gives up its rights in here (sshd(8)); nothing is ever put into it.
_RIGHTS = Path("/run/sshd")


@dataclass(frozen=True)
class SshServer:
    """``command`` is a GIT_SSH_COMMAND that knows the server; ``log`` is what the server says."""

    port: int
    user: str
    command: str
    log: Path

    def url(self, path: Path | str, user: str = "") -> str:
        return f"ssh://{user or self.user}@127.0.0.1:{self.port}{path}"

    def logins(self) -> int:
        """Return how many connections were let in so far."""
        return self.log.read_text("utf-8", "replace").count("Accepted publickey")


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Run sshd until the block ends; ``folder`` takes its keys and its log."""
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    if os.geteuid() == 0:
        _RIGHTS.mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port, user = free_port(), pwd.getpwuid(os.geteuid()).pw_name
    shutil.copyfile(folder / "user.pub", folder / "allowed")
    key = (folder / "host.pub").read_text().split()[:2]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {' '.join(key)}\n")
    log, config = folder / "log", folder / "config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/allowed\n"
        f"PidFile none\nUsePAM {'yes' if _is_locked(user) else 'no'}\nPasswordAuthentication no\n"
        f"KbdInteractiveAuthentication no\nStrictModes no\nPermitRootLogin yes\nPrintMotd no\n"
    )
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "sshd"
    with subprocess.Popen([program, "-D", "-f", str(config), "-E", str(log)]) as server:
        try:
            _wait(server, log)
            words = ["ssh", "-F", "none", "-i", str(folder / "user"), "-o", "IdentitiesOnly=yes",
                     "-o", "StrictHostKeyChecking=yes", "-o",
                     f"UserKnownHostsFile={folder}/known"]  # fmt: skip
            yield SshServer(port, user, shlex.join(words), log)
        finally:
            server.terminate()


def _is_locked(user: str) -> bool:
    """Whether the password of an account is locked: without PAM, sshd lets nobody in then, by key neither."""
    try:
        lines = Path("/etc/shadow").read_text().splitlines()
    except PermissionError:
        return False
    return any(line.startswith(f"{user}:!") for line in lines)


def _wait(server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while not (log.exists() and "Server listening" in log.read_text("utf-8", "replace")):
        assert server.poll() is None, log.read_text() if log.exists() else "sshd ended"
        assert time.monotonic() < until, "sshd does not listen"
        time.sleep(0.02)
