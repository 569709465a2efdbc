"""A Slurm on this machine, with a build and a verify partition: the real daemons, as root.

Each of several nodes is a daemon of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_CONFIGURATION = """\
ClusterName=xpubuild
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={munge}
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
KillWait=10
SlurmdTimeout=10
ReturnToService=2
{nodes}
PartitionName=build Nodes=ALL Default=YES State=UP OverSubscribe=NO
PartitionName=verify Nodes=ALL State=UP
"""
_NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000"
    " Feature=lts2350,lts2523 State=UNKNOWN"
)
_START_S, _STOP_S = 90.0, 30.0


@dataclass
class Slurm:
    """A running Slurm: ``environment`` leads clients to it."""

    folder: Path
    environment: dict[str, str]
    names: tuple[str, ...]
    stack: contextlib.ExitStack
    node: subprocess.Popen[bytes] | None = None

    def call(self, *words: str) -> str:
        env = {**os.environ, **self.environment}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=60).stdout

    def queue(self) -> dict[str, tuple[str, str]]:
        """Return name -> (id, state) of what is queued or runs."""
        rows = [line.split() for line in self.call("squeue", "-h", "-o", "%i %T %j").splitlines()]
        return {row[2]: (row[0], row[1]) for row in rows}

    def start_node(self) -> None:
        """Start the daemons of the nodes, and wait until all take jobs."""
        conf = self.environment["SLURM_CONF"]
        for name in self.names:
            self.node = _daemon(self.stack, self.folder, "slurmd", "-D", "-N", name, "-f", conf)
        _wait(lambda: _ready(self) == len(self.names), "node")

    def kill_node(self) -> None:
        """Kill the daemon of the last node; what runs there goes on."""
        assert self.node
        self.node.kill()
        self.node.wait()

    def wait_until_empty(self, limit_s: float) -> None:
        """Wait until no job is left."""
        end = time.monotonic() + limit_s
        while self.queue():
            if time.monotonic() > end:
                raise TimeoutError(f"jobs after {limit_s} s: {self.queue()}")
            time.sleep(0.2)


@contextlib.contextmanager
def slurm(folder: Path, more: Mapping[str, str] | None = None, nodes: int = 1) -> Iterator[Slurm]:
    """Run Slurm in a folder until the block ends; ``more`` are variables of the clients."""
    host = socket.gethostname().partition(".")[0]
    names = (host,) if nodes == 1 else tuple(f"node{number}" for number in range(nodes))
    (folder / "state").mkdir(parents=True)
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    conf = folder / "slurm.conf"
    with contextlib.ExitStack() as stack:
        # Its path has to be short: 107 bytes are all that a socket may have.
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="munge-", dir="/tmp")))
        short.chmod(0o755)
        munge = short / "socket"
        ports = _free_ports(1 + nodes)
        pairs = zip(names, ports[1:], strict=True)
        rows = "\n".join(_NODE.format(name=name, host=host, port=port) for name, port in pairs)
        conf.write_text(_CONFIGURATION.format(host=host, ports=ports, munge=munge, folder=folder, nodes=rows))
        found = Slurm(folder, {"SLURM_CONF": str(conf), **(more or {})}, names, stack)
        words = ["--foreground", "--force", f"--socket={munge}", f"--key-file={key}"]
        words += [f"--{name}={folder}/munge.{name}" for name in ("pid-file", "log-file", "seed-file")]
        _daemon(stack, folder, "munged", *words)
        _wait(munge.exists, "munged")
        _daemon(stack, folder, "slurmctld", "-D", "-f", str(conf))
        found.start_node()
        try:
            yield found
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                found.call("scancel", "--full", "--user=root")
                found.wait_until_empty(_STOP_S)


def _ready(found: Slurm) -> int:
    try:
        states = found.call("sinfo", "-h", "-N", "-p", "build", "-o", "%T").split()
    except subprocess.CalledProcessError:
        return 0
    return sum(state.startswith(("idle", "alloc", "mix")) for state in states)


def _wait(there: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _START_S
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} after {_START_S} s")
        time.sleep(0.1)


def _daemon(stack: contextlib.ExitStack, folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert program
    log = stack.enter_context((folder / f"{name}.out").open("ab"))
    process = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    stack.callback(_stop, process)
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
