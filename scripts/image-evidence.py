#!/usr/bin/env python3
"""Build images with buildah from nothing and use them: what docs/evidence/images records. As root.

The base is a system that mmdebstrap makes, under the base's own name: nothing is pulled. What is built stays
in a storage of its own (``--folder``), so that a second run shows what is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BASE, NAME = "debian-12", "docker.io/library/debian:12"
CHECK = "import torch, xpubuild_ops; print(torch.__version__, torch.get_num_threads() > 0)"


def told(argv: list[str]) -> str:
    """Run a command and return what it prints; its errors go to the terminal."""
    sys.stderr.write(f"$ {' '.join(argv[:6])}\n")
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout


def base(folder: Path, suite: str) -> None:
    """Make the base's root file system and import it under the base's name, once."""
    if NAME in told(["buildah", "images", "--format", "{{.Name}}:{{.Tag}}"]).split():
        return
    tree = folder / "base.tar"
    if not tree.exists():
        told(["mmdebstrap", "--variant=minbase", "--include=ca-certificates", suite, str(tree)])
    container = told(["buildah", "from", "scratch"]).strip()
    told(["buildah", "add", "--quiet", container, str(tree), "/"])
    told(["buildah", "commit", "--quiet", "--rm", "--format", "docker", container, NAME])


def image(recipe: str, folder: Path, builder: list[str]) -> dict[str, object]:
    """Build one image; return its name, time, layers, and how many steps of the file were kept."""
    wheel = sorted((folder / "dist").glob("*.whl"))[-1]
    argv = [sys.executable, "-m", "xpubuild", "image", recipe, "--base", BASE, "--xpubuild", str(wheel)]
    argv += ["--build", "--builder", "buildah", "--json", "--", *builder]
    began = time.monotonic()
    document = json.loads(told(argv))
    took = time.monotonic() - began
    log = Path(document["build"]["log"]).read_text("utf-8")
    tag = document["build"]["tag"]
    inspected = json.loads(told(["buildah", "inspect", "--type", "image", tag]))
    steps = [line for line in log.splitlines() if "] STEP " in line and "FROM" not in line]
    return {
        "tag": tag,
        "minutes": round(took / 60, 1),
        "steps": len(steps),
        "kept": log.count("--> Using cache"),
        "layers": layers(inspected["OCIv1"], folder),
        "user": inspected["OCIv1"]["config"]["User"],
        "verify": [line.strip() for line in log.splitlines() if "passed" in line][-1:],
    }


def layers(config: Any, folder: Path) -> list[str]:
    """Return the layers of an image, each as its size and what made it."""
    known = json.loads(next((folder / "store").glob("*-layers/layers.json")).read_text("utf-8"))
    sizes = {row.get("diff-digest"): row.get("diff-size", 0) for row in known}
    made_by = [row.get("created_by", "") for row in config["history"] if not row.get("empty_layer")]
    return [
        f"{sizes[digest] / 1e6:.1f} MB {' '.join(words.split())[-70:]}"
        for digest, words in zip(config["rootfs"]["diff_ids"], made_by, strict=True)
    ]


def used(tag: str) -> dict[str, object]:
    """Run what is in the image as its user, and look for what should not be there."""
    container = told(["buildah", "from", tag]).strip()
    try:
        inside = ["buildah", "run", container, "--", "sh", "-c"]
        found = told([*inside, "id -un; python -c '" + CHECK + "'; pip check"]).split("\n")
        compilers = told([*inside, "ls /usr/bin | grep -cE '^(g\\+\\+|gcc|cc|clang|ld)$' || true"]).strip()
        sizes = told([*inside, "du -sm /opt/venv /usr 2>/dev/null"]).split("\n")
    finally:
        told(["buildah", "rm", container])
    return {"prints": found[:-1], "compilers": compilers, "megabytes": sizes[:-1]}


def main() -> None:
    """Build, use, change one line, build again; write the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".images")
    parser.add_argument("--suite", default="bookworm", help="of Debian, for mmdebstrap")
    parser.add_argument("--driver", default="overlay", help="of the storage: vfs where overlay does not work")
    parser.add_argument("builder", nargs="*", help="options of buildah, after --")
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    (folder / "dist").mkdir(parents=True, exist_ok=True)
    if not list((folder / "dist").glob("*.whl")):
        told([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(ROOT)])
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "{asked.driver}"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n',
        "utf-8",
    )
    os.environ.update(CONTAINERS_STORAGE_CONF=str(storage), BUILDAH_ISOLATION="chroot")
    base(folder, asked.suite)
    recipe = folder / "site.yaml"
    results = {}
    # One line of the recipe differs: a switch of one component's build.
    for name, value in (("quickstart", "1"), ("changed", "2")):
        recipe.write_text(SITE.format(value=value), "utf-8")
        made = image(str(recipe), folder, asked.builder)
        results[name] = {**made, **used(str(made["tag"]))}
    sys.stdout.write(json.dumps(results, indent=1) + "\n")


SITE = """schema: 1
name: site
title: the quickstart of a site
extends: quickstart
components:
  ops:
    build:
      env:
        OPS_OF_SITE: {value}
"""

if __name__ == "__main__":
    main()
