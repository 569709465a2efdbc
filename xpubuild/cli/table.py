"""Every command and option, in one table: click's options, configuration files and their schema follow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Kinds of values. A tuple of words in their place is a choice.
FLAG, TEXT, LIST, NAMES, NUMBER, JOBS = "flag", "text", "list", "names", "number", "jobs"
#: One path, several, several separated by colons; a folder or URL, several of these; [COMPONENT=]DIR.
PATH, PATHS, FOLDERS, PLACE, STORES, TREES = "path", "paths", "folders", "place", "stores", "trees"
Kind = str | tuple[str, ...]


class Option(NamedTuple):
    """A row: what an option takes and means."""

    kind: Kind
    help: str
    metavar: str | None = None
    default: Any = None
    #: Help for the commands where it means something else.
    of: Mapping[str, str] = {}
    #: Words on the command line, where they are not --NAME alone; the name in Python, where it is another.
    words: str = ""
    to: str = ""
    #: What completes it: a name of ``options.KNOWN``.
    complete: str = ""
    #: Of settings in files: a regular expression that the text fits, and that in words ("must be WORDS").
    form: tuple[str, str] | None = None
    #: Of settings in files: variables that hold the same. A file sets the first, unless one of them is set.
    variables: tuple[str, ...] = ()


O = Option  # noqa: E741 - a table of two hundred rows
# fmt: off
#: NAME -> row. It is the same for all commands that have it: XPUBUILD_<NAME> in the environment (but for
#: NO_VARIABLE), and [options] of a configuration file. "COMMAND.NAME" is an option of that command alone.
OPTIONS: Mapping[str, Option] = {
    "recipe": O(TEXT, "Recipe to build: a name or a file.", "RECIPE", complete="recipes", of={
        "doctor": "Check the requirements of this recipe too.",
        "check": "Recipe file, if not in the search path."}),
    "workspace": O(PATH,
        "Folder of the workspace (default: that of RECIPE, the active one, or the only one).", of={
        **dict.fromkeys(("install", "plan", "rehearse", "image", "store pull"),
            "Folder for environment, sources, wheels and logs (default: one per user and recipe)."),
        **dict.fromkeys(("lock", "fetch"), "Existing workspace whose looked-up commits are used."),
        "test": "Folder of the workspace (default: the active one, or the only one).",
        "doctor": "Workspace whose torch and file system are checked (default: the active one)."}),
    "with": O(NAMES, "Components to add, such as vision,audio.", to="with_"),
    "without": O(NAMES, "Components to exclude."),
    "target": O(("xpu", "cpu"), "Target device.", of={"doctor": "Target device of --recipe."}),
    "variant": O(TEXT, "Named set of build switches, as 'recipes show RECIPE' lists them.", "NAME"),
    "python": O(TEXT, "Interpreter to build for.", "EXE", of={
        "doctor": "Interpreter with the torch to check.", "verify": "Interpreter with the torch to verify.",
        "test": "Interpreter with the torch to test.",
        "migrate": "Interpreter whose torch has the calls that may be written."}),
    "jobs": O(JOBS, "Number of parallel compile jobs.", "N|auto", "auto"),
    "dry-run": O(FLAG, "Show the plan, run nothing.", of={
        **dict.fromkeys(("clean", "store gc"), "Show what would be removed, remove nothing.")}),
    "yes": O(FLAG, "Do not ask for confirmation."),
    "list": O(FLAG, "List the checks and exit.", to="list_",
        of={"doctor": "List the checks and exit; -v explains them.", "explain": "List the known failures."}),
    "all": O(FLAG, "Also list what nothing sets.", to="all_",
        of={"status": "List all workspaces in the default folder, and the caches."}),
    "junit": O(PATH, "Write a JUnit report to this file.", "FILE"),
    "output": O(PATH, "Write the JSON report to this file.", "FILE",
        of={"recipes bump": "Write the proposed recipe to this file."}),
    "profile": O(("build", "run", "all"), "What the host is for: building, running, or both.", default="all"),
    "root": O(PATH, "Check the files of an image or another machine in this folder, instead of /."),
    "doctor.only": O(NAMES, "Run only these checks: ids, groups or patterns.", complete="doctor_checks"),
    "doctor.skip": O(NAMES, "Skip these checks: ids, groups or patterns.", complete="doctor_checks"),
    "bundle": O(PATH, "Write results and evidence of the workspace to one file without secrets.", "FILE",
        of={"install": "Also run verify's suites full and speed, and write all results to one file."}),
    "format": O(("table", "json", "sh", "slurm", "pbs"),
        "Output format; slurm and pbs write a folder of jobs.", default="table", to="form"),
    "plan.matrix": O(LIST, "For slurm and pbs: what to combine, such as recipes=2.8,2.13 drivers=2350,2523.",
        "KEY=NAMES"),
    "plan.output": O(PATH, "For slurm and pbs: the folder to write (default: RECIPE-slurm or RECIPE-pbs);"
        " for sh: the script, with the hashes of packages in a file beside it (default: stdout, whole)."),
    "lock.output": O(TEXT, "File to write; - for stdout (default: RECIPE.lock.yaml here).", "FILE",
        words="-o --output"),
    "for-python": O(TEXT, "Python versions to download for (default: that of install).", "VERSIONS|all"),
    "store gc.older": O(TEXT, "Remove what was not used since, such as 30d, 8w or 6m.", "AGE", "30d"),
    "repair": O(FLAG, "Recreate what is damaged; turn wheels into portable ones."),
    "device": O(("xpu", "cuda", "cpu"), "Device to test (default: the workspace's; xpu with --python)."),
    "stand-in": O(FLAG, "Use Intel's OpenCL CPU device as a GPU; the report says so."),
    "suite": O(("smoke", "full", "speed", "operators", "distributed"), "Checks to run.", default="smoke"),
    "no-gpu": O(FLAG, "Run only the checks that need no device, as in an image build."),
    "source": O(PATH, "Source tree of PyTorch with the tests (default: that of the workspace)."),
    "select": O(TEXT, "Only tests that match, as for pytest.", "EXPR", words="-k --select", to="expression"),
    "accept": O(FLAG, "Accept these failures; without PATHS and -k, those of the last run."),
    "data": O(PATH, "Folder of JPEG and PNG files for vision.files (default: it writes some)."),
    "operators": O(NAMES, "Operators for the suite operators (default: all)."),
    "minutes": O(NUMBER, "Start no operator after N minutes; the most used run first.", "N"),
    "results": O(PATH, "Folder for the table of operators; what is in it is not run again."),
    "nodes": O(NUMBER, "For the suite distributed, in a job: also run over N nodes.", "N"),
    "launcher": O(TEXT, "Command that starts ranks there, with {nodes}, {ppn} and {ranks} (default: srun or"
        " mpiexec).", "COMMAND"),
    "baseline": O(PATH, "Warn about lower speeds than in FILE; its operators must pass.", "FILE", of={
        "migrate": "Report only findings that are not in FILE."}),
    "update-baseline": O(FLAG, "Write the speeds or operators of this run to the --baseline file.", of={
        "migrate": "Write the findings of this run to the --baseline file."}),
    "bisect.good": O(TEXT, "Revision with which COMMAND passes: a tag, branch or commit.", "REV"),
    "bisect.bad": O(TEXT, "Revision with which it fails.", "REV"),
    "bisect.workspace": O(PATH, "Folder to build in (default: RECIPE-bisect, beside other workspaces)."),
    "bisect.component": O(TEXT, "Component, or repository that its build clones, such as torch-xpu-ops.",
        "NAME", "torch"),
    "verify.only": O(NAMES, "Run only these checks: ids, groups or patterns.", complete="verify_checks"),
    "verify.skip": O(NAMES, "Skip these checks: ids, groups or patterns.", complete="verify_checks"),
    "require": O(NAMES, "Optional parts that must be there and pass: ops, vision, audio, triton, ipex, or a"
        " component that has a check in its file."),
    "status.jobs": O(PATH, "Show the jobs in this folder, which 'plan --format slurm' has written."),
    "html": O(TEXT, "Write one page (-: to stdout): times, memory, proofs, failures.", "FILE"),
    "env.format": O(("bash", "zsh", "fish", "csh", "lmod", "tcl", "json"),
        "Syntax of a shell (csh also for tcsh), of a modulefile, or JSON.", default="bash",
        words="--format --shell", to="form"),
    "step": O(NAMES, "Remove only the results of these steps.", to="steps"),
    "caches": O(FLAG, "Remove the caches of sources and packages, no workspace."),
    "config.recipe": O(TEXT, "Also read the project's file beside this recipe.", "FILE"),
    "config init.output": O(PATH, "New file to write (default: your own, in XDG_CONFIG_HOME).", "FILE",
        words="-o --output"),
    "recipes matrix.gpu": O(("max", "flex", "arc-a", "arc-b", "core-ultra", "panther-lake"),
        "GPU family of the host."),
    "recipes matrix.driver": O(("lts-2350", "lts2-2523", "rolling"),
        "Driver family of the host, as 'doctor -v' shows it."),
    "recipes matrix.oneapi": O(NAMES, "Installed oneAPI versions, or none.", "VERSIONS"),
    "recipes matrix.python": O(NAMES, "Installed Python versions, or none.", "VERSIONS"),
    "recipes matrix.gcc": O(TEXT, "Version of GCC, the host compiler.", "VERSION"),
    "recipes matrix.cxx11-abi": O(("0", "1"), "C++11 ABI of the build.", words="--cxx11-abi --abi", to="abi"),
    "recipes matrix.arch": O(NAMES, "GPUs to compile kernels for ahead of time, such as pvc."),
    "recipes matrix.target": O(("xpu", "cpu"), "Target device."),
    "here": O(FLAG, "Check this host; the other options override what is found.",
        of={"explain": "The log is of this host: run the checks of doctor that confirm the findings."}),
    "tree": O(TREES, "Compare with this checked-out source tree (COMPONENT: torch by default).",
        "[COMPONENT=]DIR", of={"recipes bump": "Read torch in this checkout, which needs no tag."}),
    "base": O(TEXT, "System of the image.", "NAME", "ubuntu-24.04"),
    "image.format": O(("containerfile", "apptainer"), "Containerfile, or definition of Apptainer.",
        default="containerfile", to="form"),
    "xpubuild": O(PATH, "Wheel of xpubuild that builds (default: this xpubuild).", "FILE", to="program"),
    "image.output": O(TEXT, "File to write; what it copies is put beside it (default: stdout).", "FILE",
        words="-o --output"),
    "image.build": O(FLAG, "Build the image with the builder that is installed.", to="build_it"),
    "tag": O(TEXT, "Name of the image; of Apptainer, the file.", "NAME"),
    "cxx11-abi": O(("0", "1"), "C++11 ABI to build with.", of={"check": "C++11 ABI they must have."}),
    "arch": O(NAMES, "GPUs to compile kernels for ahead of time, such as pvc; auto (default): those of this"
        " host, or without one the recipe's."),
    "editable": O(FLAG, "Install source components in editable mode."),
    "allow-dirty": O(FLAG, "Build with local changes in src/ instead of rejecting them."),
    "source-dir": O(TREES, "Build this checkout as it is (COMPONENT: torch by default); repeatable.",
        "[COMPONENT=]DIR"),
    "quick": O(FLAG, "Do not verify, for frequent rebuilds."),
    "update": O(FLAG, "Look up branches and tags again instead of using the recorded commits."),
    "until": O(TEXT, "Stop after this step.", "STEP"),
    "compile-cache": O(("auto", "ccache", "none"), "Program that keeps compiled objects.", default="auto"),
    "oneapi-root": O(PATH, "oneAPI installation to use.", of={"check": "oneAPI to compare with."}),
    "oneapi-mode": O(("components", "setvars", "unified"),
        "Scripts to run: those of components, setvars.sh or oneapi-vars.sh.", default="components"),
    "extra-path": O(FOLDERS, "Folders to add to PATH in builds for the GPU, such as that of ocloc."),
    "extra-library-path": O(FOLDERS, "Folders to add to LD_LIBRARY_PATH there: those of the GPU driver."),
    "mirror": O(PLACE, "Mirror to use before the network: a folder, http or https URL.",
        of={"fetch": "Folder of the mirror to fill."}),
    "offline": O(FLAG, "Do not use the network; fail if something is not in the mirror.",
        of={"fetch": "Download nothing; fail if the mirror does not have everything."}),
    "store": O(STORES, "Store of wheels to reuse, besides your own; repeatable.", of={
        **dict.fromkeys(("store list", "store size", "store gc"),
            "Another store than your own: a folder; repeatable."),
        "store push": "Store to copy to: a folder; repeatable."}),
    "store-read-only": O(FLAG, "Keep nothing in any store (default in CI for releases and pull requests).",
        words="--store-read-only/--no-store-read-only"),
    "installer": O(("auto", "pip"), "Installer of Python packages; auto: uv if possible.", default="auto"),
    "packages": O(("venv", "conda"), "Kind of environment to create.", default="venv"),
    "conda-lock": O(PATH, "conda-lock.yml for --packages conda (default: solve one).", "FILE"),
    "conda-channel": O(LIST, "Channel to use instead of the recipe's; repeatable.", "CHANNEL"),
    "locked": O(FLAG, "Build from RECIPE.lock.yaml in the current folder; fail if it does not match."),
    "lock": O(PATH, "Build from this lock.", "FILE", to="lock_file"),
    "lock-policy": O(("exact", "compatible", "ignore"),
        "How strictly this machine is compared with that of the lock.", default="compatible"),
    "libtorch": O(PATH, "Also write torch's headers, libraries and CMake files, for C++ (.tar.gz).", "FILE"),
    "sign-key": O(PATH, "Sign the provenance of each wheel with this key of OpenSSH.", "FILE"),
    "wheel-dir": O(PATH, "Also copy the built wheels, and the wheels that they need, to this folder."),
    "runtime": O(PATH, "Environment with the wheels that the result will require."),
    "module-dir": O(PATH, "Also write a modulefile, xpubuild/RECIPE-PYTHON-DIGEST, into this folder."),
    "module-default": O(FLAG, "Make it the default version of the module."),
    "module-format": O(("lmod", "tcl"), "lmod: Lua, for Lmod; tcl: for Environment Modules and Lmod.",
        default="tcl"),
    "depends-on": O(NAMES, "Modules that provide oneAPI; the modulefile loads them.", "MODULES"),
    "check.allow-missing": O(LIST, "Library that the target provides; repeatable.", "PATTERN"),
    "policy": O(PATH, "File with the signers, recipes, locks and hashes that wheels must have.", "FILE"),
    "sbom": O(PATH, "Also write a CycloneDX SBOM of what is locked.", "FILE"),
    "check.search": O(PATHS, "Folder with libraries; repeatable."),
    "check.installed-in": O(PATH, "Follow RPATHs as if installed in this site-packages folder."),
    "check.arch": O(NAMES, "AOT targets, such as pvc, that SYCL kernels must have code for."),
    "check.output": O(PATH, "Folder for the repaired wheels.", "DIR", "repaired"),
    "to": O(("accelerator", "xpu"), "torch.accelerator, so that CUDA keeps working, or torch.xpu.",
        default="accelerator"),
    "torch": O(TEXT, "Release whose calls may be written (default: the newest that is known).", "RELEASE"),
    "values": O(FLAG, "Also look for devices in values of YAML, TOML and JSON files."),
    "write": O(FLAG, "Change the files."),
    "patch": O(PATH, "Write the difference to this file.", "FILE"),
    "migrate.check": O(FLAG, "Also exit with 80 if a file would change."),
    "prove": O(FLAG, "Run COMMAND and report what ran on the device, and what asked for CUDA."),
    "sarif": O(PATH, "Write the findings to this file, as SARIF 2.1.0.", "FILE"),
    "json": O(FLAG, "Print one JSON document on stdout.", to="as_json"),
    "log-format": O(("rich", "plain", "github", "jsonl"),
        "Format of progress on stderr (default: by terminal and CI)."),
    "quiet": O(FLAG, "Print only failures.", words="-q --quiet",
        of={"verify": "Print only failures and the result."}),
    "verbose": O(FLAG, "Print every line of the tools' output too.", words="-v --verbose", of={
        "doctor": "Also list passed and skipped checks.",
        "recipes show": "Show all values with their sources."}),
}
#: Settings of configuration files that are no options.
_NODES: Mapping[str, Option] = {
    "partition": O(TEXT, "Partition of Slurm, queue of PBS."),
    "account": O(TEXT, "Account (project) that the jobs are for."),
    "time": O(TEXT, "Time limit of a job: HH:MM:SS or D-HH:MM:SS.", form=(
        r"(?:\d+-)?\d+:[0-5]\d:[0-5]\d", "a time such as 12:00:00 or 1-00:00:00")),
    "cores": O(NUMBER, "Cores of a job."),
    "memory": O(TEXT, "Memory of a job, such as 64G for Slurm, 64gb for PBS."),
    "gpus": O(TEXT, "GPUs of a job: a number; Slurm also takes TYPE:NUMBER."),
    "directives": O(LIST, "More options of sbatch or qsub, such as --constraint=max."),
    "setup": O(LIST, "Lines of bash before the work of a job, such as 'module load gcc/13'."),
}
_PROXY = (r"(?:[A-Za-z][\w+.-]*://)?[^\s/]+:\d+/?|[A-Za-z][\w+.-]*://[^\s/]+/?",
          "a URL such as http://proxy.example:3128")
#: Tables of configuration files that belong to no command.
TABLES: Mapping[tuple[str, ...], Mapping[str, Option]] = {
    ("trust",): {
        "owners": O(NAMES, variables=("XPUBUILD_TRUSTED_OWNERS",),
            help="User names or numbers: oneAPI scripts and stores of these users are used, as yours are."),
        "stores": O(NAMES, variables=("XPUBUILD_TRUSTED_STORES",),
            help="Stores of built wheels (folders, URLs) that are used although others can write to them."),
    },
    ("share",): {
        "group": O(TEXT, variables=("XPUBUILD_SHARE_GROUP",),
            help="Group that uses what is made for others (default: everybody does)."),
        "mode": O(TEXT, variables=("XPUBUILD_SHARE_MODE",),
            help="Mode of folders that are made for others, such as 2750 (default: 755, with a group 2755).",
            form=(r"[02]?7[0-7]{2}", "the mode of a folder, such as 2750 or 2775")),
    },
    ("places",): {
        "data": O(PATH, "Workspaces are created in xpubuild/ below this folder.",
            variables=("XDG_DATA_HOME",)),
        "cache": O(PATH, "Sources and packages are kept in xpubuild/ below this folder.",
            variables=("XDG_CACHE_HOME",)),
    },
    ("proxies",): {
        "http": O(TEXT, "Proxy for http.", variables=("http_proxy", "HTTP_PROXY"), form=_PROXY),
        "https": O(TEXT, "Proxy for https.", variables=("https_proxy", "HTTPS_PROXY"), form=_PROXY),
        "no": O(NAMES, "Hosts that are reached without one.", variables=("no_proxy", "NO_PROXY")),
    },
    ("jobs",): _NODES,
    **{("jobs", kind): _NODES for kind in ("fetch", "build", "verify", "report")},
}

_ONCE = "yes step repair list junit update-baseline here all caches stand-in bundle build"
_ONCE += " write values prove accept module-default"
_UNNAMED = "output root no-gpu source select data operators minutes results baseline require"
_UNNAMED += " nodes libtorch html tag sbom policy to torch patch sarif"
#: Never in a file: they ask for one deed, or answer for a person.
DEEDS = frozenset((*_ONCE.split(), "dry-run", "json", "status.jobs",
    *(f"bisect.{name}" for name in ("good", "bad", "workspace"))))
#: Without a variable of the environment.
NO_VARIABLE = frozenset((*_ONCE.split(), *_UNNAMED.split()))
# fmt: on


def key_of(command: str, name: str) -> str:
    """Return the key in OPTIONS of an option of a command."""
    return f"{command}.{name}" if f"{command}.{name}" in OPTIONS else name


def variable_of(key: str) -> str | None:
    """Return the variable of the environment that gives an option; None where there is none."""
    is_own = "." in key or key in NO_VARIABLE
    return None if is_own else "XPUBUILD_" + key.upper().replace("-", "_")
