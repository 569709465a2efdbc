"""An interpreter that has torch imported already: each call of it is a fork of one that waits.

Importing torch takes several times as long as most checks. What a call runs, its environment, its folder, its
streams and how it ends are those of a start from the beginning; ``PYTHONPATH`` and its ``sitecustomize`` too.

The module is three programs: the fixture's side, the interpreter that waits (``SERVER``, run by the target),
and the program that is called instead of the interpreter (``CLIENT``).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SERVER = """\
import importlib.abc, importlib.machinery, importlib.util
import json, os, runpy, select, signal, socket, sys, tempfile
import torch

def serve(listener):
    calls = 0
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            attend(connection)
        connection.close()
        calls += 1
        while calls and os.waitpid(-1, os.WNOHANG)[0]:
            calls -= 1

def attend(connection):
    data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    call = json.loads(data)
    pid = os.fork()
    if pid == 0:
        connection.close()
        run(call, streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:  # whoever called is gone
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        connection.sendall(str(status).encode())
    finally:
        os._exit(0)

class Again(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    # Finds torch as if it were not imported yet: mutations wait for its import.

    def __init__(self):
        self.module = sys.modules.pop("torch")
        self.spec = self.module.__spec__

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "torch" else None

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        module.__spec__ = self.spec

def run(call, streams):
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["env"])
    tempfile.tempdir = None
    sys.argv = call["argv"]
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.meta_path.insert(0, Again())
    status = 0
    try:
        if importlib.util.find_spec("sitecustomize"):
            importlib.import_module("sitecustomize")
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    os.write(1, b"ready")
    serve(listener)
"""

CLIENT = """\
#!{python} -IS
import json, os, signal, socket, sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    call = {{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}
    socket.send_fds(connection, [json.dumps(call).encode()], [0, 1, 2])
    status = int(connection.recv(16) or b"1")
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@contextlib.contextmanager
def warm_python(python: Path, environ: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """Yield a program that behaves as ``python`` does; ``folder`` is new and its path is short."""
    address = folder / "socket"
    program = folder / "python"
    program.write_text(CLIENT.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)
    # OpenMP reads the policy when it is loaded, and verify sets this one for what it does not measure.
    env = {**environ, "OMP_WAIT_POLICY": "passive", "PYTHONUNBUFFERED": "1"}
    argv = [str(python), "-c", SERVER, str(address)]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.read(5) == b"ready"
            yield program
        finally:
            server.kill()
