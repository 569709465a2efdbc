"""What migrate shows: how much it rewrote, and each place that is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xpubuild.ui.parts import Document, Part, Parts, facts, listed


def migrate_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.migrate/1`` document."""
    changed = [item for item in document["files"] if item["state"] == "changed"]
    verb = "changed" if document["written"] else "would change"
    edits = sum(item["edits"] for item in changed)
    left = [item for item in document["findings"] if item["level"] == "finding"]
    notes = [item for item in document["findings"] if item["level"] == "note"]
    return (
        facts({
            "files": f"{document['read']} read, {len(changed)} {verb} in {edits} places",
            "torch": f"{document['torch']}, for {document['to']}",
            "left": f"{len(left)} findings" if left else "nothing",
            "accepted": f"{document['known']} findings of the baseline" if document["known"] else "",
        }),
        *_by_reason("Left as it is", left),
        *_by_reason("Needs no change", notes),
    )  # fmt: skip


def _by_reason(title: str, findings: Iterable[Document]) -> Iterator[Part]:
    """Yield a part for each reason, with the places that it is about."""
    groups: dict[tuple[str, str], list[Document]] = {}
    for item in findings:
        groups.setdefault((item["id"], item["reason"]), []).append(item)
    for (name, why), items in groups.items():
        places = {_place(item): item["text"] or "-" for item in items}
        rest = {"instead": items[0]["alternative"], "see": items[0]["source"]}
        yield facts({"why": why, **rest, **places}, f"{title}: {name}")


def proof_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.migrate-proof/1`` document."""
    found = document["processes"]
    trips = [{**trip, "process": item["process"]} for item in found for trip in item["trips"]]
    fallbacks = [{"text": text} for text in sorted({text for item in found for text in item["fallbacks"]})]
    device = "the stand-in, Intel's OpenCL CPU device" if document["stand_in"] else ""
    return (
        facts({"command": " ".join(document["command"]), "status": document["status"], "device": device}),
        listed("What ran on the device", found, {
            "process": "process", "torch": "torch", "device": "device",
            ">kernels": lambda item: item["kernels"] if item["profiled"] else "not recorded",
            ">memory": "memory_bytes|size", ">to the host": "to_host",
            "error": "error",
        }),
        listed("What asked for CUDA", trips, {
            "call": "call", "place": _place, ">times": "count", "process": "process",
        }),
        listed("What ran on the CPU instead", fallbacks, {"warning": "text"}),
    )  # fmt: skip


def _place(finding: Document) -> str:
    return f"{finding['path']}:{finding['line']}"
