"""One attempt at one step: run its commands under a watcher, check the results, publish and record them."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from xpubuild.engine import files
from xpubuild.engine.environment import ERROR_FILE, base_environment
from xpubuild.engine.events import Sink, StepOutput, notify
from xpubuild.engine.failure import (
    by_space,
    explain_failure,
    full_place,
    own_temporary,
    read_child_error,
    without_network,
)
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.journal import Journal, StepRecord
from xpubuild.engine.lines import passing
from xpubuild.engine.model import XPUBUILD, Command, Keeper, Publish, Step, Stop, Verdict
from xpubuild.engine.process import LOOPBACK, Cancel, ProcessResult, run
from xpubuild.engine.progress import ProgressMeter
from xpubuild.engine.redact import Redactor
from xpubuild.engine.state import PUBLISHED, WATCHED, published_hashes, require_still, witnesses_of
from xpubuild.errors import AuditError, InterruptedByUserError, NoSpaceError, ToolchainError, XpuBuildError

#: The proof under which the evidence of a step holds which network its isolated commands had.
NETWORK = "network of the build"


class Monitor:
    """What one attempt at a step needs to be watched; harmless for a step without a watcher."""

    def __init__(self, step: Step, sink: Sink, cancel: Cancel) -> None:
        #: Set where the user wants to stop or the watcher does.
        self.cancel = Cancel(cancel)
        self._user, self._step, self._sink = cancel, step.id, sink
        self._watcher = step.watch() if step.watch is not None else None
        self._warnings: list[dict[str, Any]] = []
        self._number = 0
        self._stop: XpuBuildError | None = None

    def line(self, line: str) -> None:
        """Take a line that the command printed."""
        if self._watcher is not None and not passing(line):
            self._number += 1
            self._judge(self._watcher.line(line, self._number))

    def poll(self) -> None:
        """Let the watcher look at files."""
        if self._watcher is not None and self._stop is None:
            self._judge(self._watcher.poll())

    def raise_stop(self, log: Path) -> None:
        """Raise what the watcher stopped the command with, if it did; call it when the command has ended."""
        if not self._user and self._watcher is not None and self._stop is None:
            self._judge(self._watcher.poll())
        if self._stop is not None:
            self._stop.log = self._stop.log or log
            raise self.explain(self._stop)

    def explain(self, error: XpuBuildError) -> XpuBuildError:
        """Return the error to show for a command that failed."""
        if self._watcher is None:
            return error
        found = self._watcher.explain(error)
        found.log = found.log or error.log
        if cause := found.likely_cause():
            notify(self._sink, f"likely cause: {cause}", level="error", step=self._step)
        return found

    def evidence(self) -> list[dict[str, Any]]:
        """Return what belongs into the receipt."""
        return [{"proof": WATCHED, "warnings": self._warnings}] if self._warnings else []

    def _judge(self, verdicts: Iterable[Verdict]) -> None:
        for item in verdicts:
            if self._stop is not None:
                return
            if isinstance(item, Stop):
                self._stop = item.error
                self.cancel.set(item.error.what)
            else:
                warning = {"id": item.id, "text": item.text, "lines": list(item.lines), **item.evidence}
                self._warnings.append(warning)
                notify(self._sink, item.text, level="warning", step=self._step)


@dataclass
class Execution:
    """One attempt at one step; ``peak`` is the most memory (bytes) that one of its commands had."""

    step: Step
    log: Path
    journal: Journal
    sink: Sink
    cancel: Cancel
    workspace: Path
    lock_fd: int
    peak: int = 0

    def __post_init__(self) -> None:
        self._full: Path | None = None
        self._networks: dict[str, list[str]] = {}
        self._meter = ProgressMeter(self.step.id)
        self._monitor = Monitor(self.step, self.sink, self.cancel)

    def perform(self, fingerprint: str) -> None:
        """Run the commands, check the results, publish and record them."""
        step, journal = self.step, self.journal
        before = journal.record(step.id)
        self._refuse_foreign()
        self._require_as_proved()
        if before is not None:
            self._remove_resealed(before)
        journal.begin(step.id, fingerprint)
        journal.add_made(step.id, [*step.makes(), str(self.log), str(self.log.with_suffix(".log.1"))])
        changed = before is not None and before.fingerprint != fingerprint
        for path in (*step.fresh, *(step.stale if changed else ())):
            files.remove_tree(Path(path))
        self._clear_stage()
        taken = self._taken()
        evidence = taken or self._made()
        published = self._publish(step.publish, before.published if before else [])
        if published:
            hashes = {path: file_sha256(Path(path)) for path in published}
            evidence.append({"proof": "published as proved", PUBLISHED: hashes})
        # The journal is flushed when it says done; without this a power cut takes what it speaks of.
        files.sync_filesystems([self.workspace, *map(Path, step.makes())])
        found = (sorted(Path(folder).glob(glob)) for folder, glob in step.witness_globs)
        globbed = [str(path) for paths in found for path in paths]
        witnesses = witnesses_of(step, [*step.witnesses, *globbed, *published])
        journal.done(step.id, evidence=evidence, witnesses=witnesses, published=published)
        if step.keeper is not None and not taken:
            self._keep(step.keeper, published, evidence)

    def _refuse_foreign(self) -> None:
        """Only remove what xpubuild made here, never another folder of the same name."""
        made = self.journal.made()
        for path in self.step.fresh:
            if os.path.lexists(path) and not any(str(p) in made for p in (Path(path), *Path(path).parents)):
                raise ToolchainError(
                    f"{path} already exists and was not created by xpubuild",
                    why=f"step '{self.step.title}' would replace it",
                    fix="move it away, or use another --workspace",
                    commands=(shlex.join(["mv", path, f"{path}.old"]),),
                )

    def _require_as_proved(self) -> None:
        """Hash what the steps before published: their audit was of those bytes, and of no others."""
        for need in self.step.needs:
            record = self.journal.record(need)
            for path, sha256 in published_hashes(record).items() if record is not None else ():
                with files.explained(Path(path), "reading what was built"):
                    found = file_sha256(Path(path)) if Path(path).is_file() else "missing"
                if found != sha256:
                    self.journal.failed(need, f"{Path(path).name} was damaged after it was proved")
                    raise damaged_wheel(path, found, sha256)

    def _remove_resealed(self, before: StepRecord) -> None:
        """Remove what agrees with itself and not with what was made: the commands would take it for whole."""
        try:
            require_still(self.step, before)
        except XpuBuildError as error:
            if error.mend is None:
                raise
            self._notice(f"{error.what}: {error.why}; it is made again")
            error.mend()

    def _clear_stage(self) -> None:
        """Empty the staging folder: what a run that was killed left must not be published with this one's."""
        if self.step.publish is not None:
            stage = Path(self.step.publish.stage)
            files.remove_tree(stage)
            with files.explained(stage, "creating a staging folder"):
                stage.mkdir(parents=True, exist_ok=True)

    def _made(self) -> list[dict[str, Any]]:
        """Run the commands; return the evidence of the proofs, of the watcher and of the keeper."""
        self._run_commands()
        keeper = self.step.keeper
        own = keeper.built() if keeper is not None else None
        try:
            proved = self._prove()
        except XpuBuildError as error:
            if error.mend is None:
                raise
            # What the commands took for whole and is not, they make again, once.
            self._notice(f"{error.what}: {error.why}; what is damaged is made again")
            error.mend()
            self._run_commands()
            proved = self._prove()
        networks = [{"proof": NETWORK, "network": it, "asked": asked} for it, asked in self._networks.items()]
        return [*proved, *networks, *self._monitor.evidence(), *([own] if own else [])]

    def _taken(self) -> list[dict[str, Any]]:
        """Return the evidence of what was kept and passes the step's proofs; nothing where none does."""
        keeper, publish = self.step.keeper, self.step.publish
        if keeper is None or publish is None:
            return []
        try:
            if (taken := keeper.take(Path(publish.stage))) is None:
                return []
            proved = [*self._prove(), taken]
        except (InterruptedByUserError, NoSpaceError):
            raise
        except XpuBuildError as error:
            keeper.refuse(error.what)
            self._notice(f"{error.what}: {error.why}; it is built instead")
            self._clear_stage()
            return []
        self._notice(f"taken {keeper.describe()}, and proved", level="info")
        return proved

    def _keep(self, keeper: Keeper, published: list[str], evidence: list[dict[str, Any]]) -> None:
        """Keep the result for others; whatever prevents that is no failure of the step, which is done."""
        try:
            commands = [item for item in self.journal.commands() if item["step"] == self.step.id]
            for reason in keeper.keep([Path(path) for path in published], evidence, commands):
                self._notice(reason)
        except XpuBuildError as error:
            self._notice(f"{self.step.id} is not kept in the store: {error.what} ({error.why})")

    def _notice(self, text: str, level: str = "warning") -> None:
        notify(self.sink, text, level=level, step=self.step.id)

    def _run_commands(self) -> None:
        with files.explained(self.log, "writing a log"):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            if self.log.exists():
                self.log.replace(self.log.with_suffix(".log.1"))
            with self.log.open("wb") as stream:
                for command in self.step.commands:
                    self._run_command(command, stream)

    def _run_command(self, command: Command, stream: IO[bytes]) -> None:
        shortcut = (command.shortcut,) if command.shortcut else ()
        for argv in (*shortcut, command.argv, *command.alternatives):
            result, child = self._run_argv(argv, command, stream)
            self._monitor.raise_stop(self.log)
            if result.ok:
                return
            if result.cancelled or result.timed_out:
                break
            if argv is command.shortcut:
                why = f"{child.what}: {child.why}" if child is not None else f"{self.log} tells why"
                self._notice(f"the faster way did not work, the usual one is taken ({why})")
        error = by_space(explain_failure(self.step, result, self.log, child), self._full)
        error = without_network(error, result.asked)
        raise error if result.cancelled else self._monitor.explain(error)

    def _run_argv(
        self, argv: tuple[str, ...], command: Command, stream: IO[bytes]
    ) -> tuple[ProcessResult, XpuBuildError | None]:
        env = command_environment(command, base_environment())
        redact = Redactor.from_environment({**os.environ, **env})
        # Of one command: what a failed alternative counted says nothing about the next.
        self._meter = ProgressMeter(self.step.id)
        overlay = [f"{name}={value}" for name, value in sorted(command.env.items())]
        header = redact(f"$ {shlex.join(['env', *overlay, *argv] if overlay else argv)}")
        stream.write(f"{header}\n".encode())
        for line in header.split("\n"):
            self._monitor.line(line)
        error_file = self.log.with_suffix(".error.json")
        error_file.unlink(missing_ok=True)
        with own_temporary({**env, ERROR_FILE: str(error_file)}) as own:
            result = run(
                # xpubuild is this interpreter with this package.
                (sys.executable, "-m", *argv) if argv[0] == XPUBUILD else argv,
                env=own,
                # Never the caller's folder: `python -m pip` imports what lies in it, a types.py for one.
                cwd=Path(command.cwd) if command.cwd else self.workspace,
                log=stream,
                on_line=self._on_line,
                deadline_s=command.deadline_s,
                cancel=self._monitor.cancel,
                on_tick=self._monitor.poll,
                redact=redact,
                hold=(self.lock_fd,) if self.lock_fd >= 0 else (),
                isolated=command.isolated,
            )
            # Before what fills it is removed.
            self._full = None if result.ok else full_place((own.get("TMPDIR", "/tmp"), self.workspace))  # noqa: S108
        child = read_child_error(error_file, redact)
        error_file.unlink(missing_ok=True)
        self.peak = max(self.peak, result.peak_tree_bytes)
        self._note_network(result)
        self.journal.command(self.step.id, [redact(word) for word in argv], result, str(self.log))
        return result, child

    def _note_network(self, result: ProcessResult) -> None:
        """Note what an isolated command had of the network; what it looked up is not in what it made."""
        if not result.network:
            return
        if result.network != LOOPBACK and result.network not in self._networks:
            self._notice(f"{self.step.id} has the network of this machine: {result.network}")
        self._networks.setdefault(result.network, []).extend(result.asked)
        if result.ok and result.asked:
            self._notice(f"{self.step.id} has no network, and looked up {', '.join(result.asked)}")

    def _on_line(self, line: str) -> None:
        self.sink.emit(StepOutput(time.time(), self.step.id, line))
        self._monitor.line(line)
        if (progress := self._meter.feed(line)) is not None:
            self.sink.emit(progress)

    def _prove(self) -> list[dict[str, Any]]:
        evidence = []
        for proof in self.step.proofs:
            try:
                evidence.append({"proof": proof.describe(), **proof.check()})
            except XpuBuildError as error:
                error.log = error.log or self.log
                raise
        return evidence

    def _publish(self, publish: Publish | None, earlier: list[str]) -> list[str]:
        if publish is None:
            return []
        folder, journal = Path(publish.folder), self.journal
        names = sorted(path for path in Path(publish.stage).glob(publish.pattern) if path.is_file())
        # Registered before it is moved: a run killed in between has published what no `done` row names.
        own = (Path(path) for path, step in journal.made().items() if step == self.step.id)
        unfinished = [str(path) for path in own if path.parent == folder and path.match(publish.pattern)]
        journal.add_made(self.step.id, [str(folder / path.name) for path in names])
        published = [str(files.publish_file(path, folder)) for path in names]
        for old in {*earlier, *unfinished} - set(published):
            files.remove_tree(Path(old))
        files.remove_tree(Path(publish.stage))
        return published


def damaged_wheel(path: str, found: str, sha256: str) -> AuditError:
    """Return the error of a built file that is not what was proved any more."""
    return AuditError(
        f"{path} is damaged",
        why=f"its sha256 is {found}; when it was built and audited it was {sha256}",
        fix="run the same install again: it builds the file again",
        evidence={"path": path, "found": found, "expected": sha256},
    )


def command_environment(command: Command, base: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a command: base, overlay, and folders in front of PATH."""
    env = {**base, **command.env, **command.tuning}
    if command.path_prefix:
        env["PATH"] = os.pathsep.join((*command.path_prefix, env["PATH"]))
    if command.argv[0] == XPUBUILD:
        # xpubuild itself may live in the user's site-packages; what it builds with may not.
        env.pop("PYTHONNOUSERSITE", None)
    return env
