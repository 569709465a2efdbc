"""Hostile wheels: damaged bytes, and archives with other members."""

from __future__ import annotations

import io
import zipfile

from support.ordeal.attack import Attack
from support.ordeal.judge import CARRIED_ON, CLEAR, LetInError


def wheel(attack: Attack) -> str:
    """A wheel: no change of what it holds passes audit; installed from an index it writes nothing outside."""
    source = attack.rng.choice(
        [attack.trial.world.wheel, *(attack.good.trial.workspace / "wheels").glob("*.whl")]
    )
    path = attack.trial.place / source.name
    good = source.read_bytes()
    path.write_bytes(attack.hostile.flipped(good) if attack.rng.random() < 0.6 else _rezipped(attack, good))
    accepted = attack.ask("check", path, "--json") == 0
    if accepted and _members(path.read_bytes()) != _members(good):
        raise LetInError(f"audit accepts {_members(path.read_bytes())}")
    index = attack.trial.world.index
    if source == attack.trial.world.wheel:
        kept = index.files[source.name]
        index.files[source.name] = path.read_bytes()
        try:
            attack.install(attack.trial.world.install[1], "--until", "tiny")
        finally:
            index.files[source.name] = kept
    return CARRIED_ON if accepted else CLEAR


def _members(data: bytes) -> list[tuple[str, int, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return sorted(
            (info.filename, info.external_attr >> 28, archive.read(info)) for info in archive.infolist()
        )


def _rezipped(attack: Attack, good: bytes) -> bytes:
    made, rng = io.BytesIO(), attack.rng
    with zipfile.ZipFile(io.BytesIO(good)) as archive, zipfile.ZipFile(made, "w") as target:
        chosen = rng.choice(archive.infolist())
        for info in archive.infolist():
            data = archive.read(info)
            if info is chosen:
                name = str(attack.hostile.value()).replace("\0", "")[:20000] or "x"
                attack.hostile.said = f"member {name[:60]!r} for {info.filename}"
                if rng.random() < 0.3:
                    info.external_attr = 0o120777 << 16
                    data = str(attack.hostile.canary.parent / "planted").encode()
                elif rng.random() < 0.5:
                    target.writestr(name.encode("utf-8", "replace").decode(), data)
                else:
                    info.filename = name.encode("utf-8", "replace").decode()
            target.writestr(info, data)
    return made.getvalue()
