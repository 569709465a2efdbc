"""Configuration files: order, errors with their lines, what a stranger's file may not set."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from support.cli import Xpubuild
from support.documents import check
from support.imports import ROOT

from xpubuild.cli.app import cli
from xpubuild.cli.config import json_schema
from xpubuild.cli.configuration import line_of, of_caller

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = "xpubuild.toml"


class Files:
    """The places of configuration files of one test."""

    def __init__(self, folder: Path) -> None:
        self.site, self.first_site, self.user = (
            folder / name / "xpubuild" / "config.toml" for name in ("site", "first-site", "user")
        )
        self.project = folder / "a project" / PROJECT
        self.recipe = self.project.with_name("ours.yaml")
        self.recipe.parent.mkdir()
        self.recipe.write_text("schema: 1\nname: ours\ntitle: t\nextends: quickstart\n")
        self.variables = {
            "XDG_CONFIG_DIRS": f"{self.first_site.parents[1]}:{self.site.parents[1]}",
            "XDG_CONFIG_HOME": str(self.user.parents[1]),
        }

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            path: Path = getattr(self, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    found = Files(tmp_path)
    for name, value in found.variables.items():
        monkeypatch.setenv(name, value)
    return found


def params(monkeypatch: pytest.MonkeyPatch, *arguments: str, **variables: str) -> dict[str, Any]:
    """Return the options of a command line as its command would get them."""
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with click.Context(cli) as context:
            name, command, rest = cli.resolve_command(context, list(arguments))
            return command.make_context(name, rest, parent=context).params


def test_the_later_wins(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = str(files.recipe)
    expected = [
        ({"site": "[plan]\njobs = 2\n"}, "2"),
        ({"first_site": "[options]\njobs = 3\n"}, "3"),
        ({"user": "[options]\njobs = 4\n"}, "4"),
        ({"user": "[options]\njobs = 9\n[plan]\njobs = 5\n"}, "5"),
        ({"project": "[options]\njobs = 6\n"}, "6"),
    ]
    for texts, number in expected:
        files.write(**texts)
        assert params(monkeypatch, "plan", recipe)["jobs"] == number
    assert params(monkeypatch, "plan", recipe, XPUBUILD_JOBS="7")["jobs"] == "7"
    assert params(monkeypatch, "plan", recipe, "--jobs", "8", XPUBUILD_JOBS="7")["jobs"] == "8"
    # The project's file is beside this recipe, and no other has it.
    assert params(monkeypatch, "plan", "quickstart")["jobs"] == "5"
    assert params(monkeypatch, "plan", XPUBUILD_RECIPE=recipe)["jobs"] == "6"
    assert params(monkeypatch, "install", "quickstart")["jobs"] == "9"


def test_a_name_of_all_commands_is_not_that_of_another_option(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(user='[options]\npython = "python3.12"\nformat = "sh"\n')
    assert params(monkeypatch, "plan", "quickstart")["form"] == "sh"
    assert params(monkeypatch, "env")["form"] != "sh"


def test_plan_shows_what_install_would_do(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(user='[options]\njobs = 1\n[install]\njobs = 2\npython = "python3"\n')
    for command in ("plan", "rehearse", "install"):
        assert params(monkeypatch, command, "quickstart")["jobs"] == "2"
        assert params(monkeypatch, command, "quickstart")["python"] == "python3"
    assert params(monkeypatch, "lock", "quickstart")["python"] is None
    files.write(user="[install]\njobs = 2\n[plan]\njobs = 4\n")
    assert params(monkeypatch, "plan", "quickstart")["jobs"] == "4"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[places]\ndata = 5", "must be text in quotes"),
        ('[proxies]\nhttps = "not a url"', "must be a URL such as http://proxy.example:3128"),
        ('[jobs]\ntime = "2 hours"', "must be a time such as 12:00:00"),
        ('[jobs.build]\ntime = "forever"', "must be a time such as 12:00:00"),
    ],
)
def test_a_value_of_another_form_is_named(xpubuild: Xpubuild, files: Files, line: str, told: str) -> None:
    files.write(user=f"# mine\n{line}\n")
    found = xpubuild("config")
    assert found.status == 20
    assert f"{files.user}:3" in found.err
    assert told in found.err


def test_values_of_every_kind(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(
        site='[options]\nmirror = "https://a.example/m"\nextra-path = "/a:/b"\neditable = true\n',
        user='[options]\nrecipe = "2.8"\nwithout = ["ops"]\ncxx11-abi = 1\n[install]\n'
        'workspace = "../$X"\nmirror = "m"\n',
    )
    found = params(monkeypatch, "install", X="w s")
    assert found["recipe"] == "2.8"
    assert found["without"] == ("ops",)
    assert found["cxx11_abi"] == "1"
    assert found["extra_path"] == (Path("/a"), Path("/b"))
    assert found["editable"] is True
    assert found["workspace"] == files.user.parent / ".." / "w s"
    assert found["mirror"] == files.user.parent / "m"
    assert params(monkeypatch, "install", X="w", XPUBUILD_RECIPE="2.9")["recipe"] == "2.9"
    assert str(params(monkeypatch, "plan", X="w")["mirror"]) == str(files.user.parent / "m")
    assert str(params(monkeypatch, "lock", X="w")["mirror"]) == "https://a.example/m"


def test_an_entered_workspace_wins_over_the_recipe_of_a_file(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(user='[options]\nrecipe = "2.8"\nworkspace = "/w"\n')
    found = params(monkeypatch, "install", XPUBUILD_ENTERED="/entered")
    assert (found["recipe"], found["workspace"]) == (None, None)


def test_an_empty_word_or_variable_switches_a_setting_off(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(
        site='[install]\nmodule-dir = "/m"\nstore = ["/s"]\noffline = true\n[share]\ngroup = "root"\n',
        user='[options]\nvariant = "minimal"\nmirror = "/mirror"\n',
    )
    monkeypatch.setenv("XPUBUILD_SHARE_GROUP", "")
    words = ("--module-dir", "", "--store", "", "--variant", "", "--mirror", "")
    found = params(monkeypatch, "install", *words)
    assert [found[name] for name in ("module_dir", "store", "variant", "mirror")] == [None, (), None, None]
    names = ("MODULE_DIR", "STORE", "OFFLINE", "MIRROR", "SHARE_GROUP")
    found = params(monkeypatch, "install", **{f"XPUBUILD_{name}": "" for name in names})
    assert [found[name] for name in ("module_dir", "store", "offline", "mirror")] == [None, (), False, None]
    assert os.environ["XPUBUILD_SHARE_GROUP"] == ""
    with pytest.raises(click.BadParameter, match="it is empty"):
        params(monkeypatch, "clean", "--workspace", "")


def test_settings_of_sites_are_defaults_of_variables(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(site='[places]\ndata = "$HOME/d"\n[proxies]\nno = ["a", "b"]\n[trust]\nowners = ["root"]\n')
    monkeypatch.setenv("NO_PROXY", "c")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("XPUBUILD_TRUSTED_OWNERS", raising=False)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", "")
        params(monkeypatch, "plan", "quickstart")
        assert os.environ["XDG_DATA_HOME"] == str(Path.home() / "d")
        assert os.environ["XPUBUILD_TRUSTED_OWNERS"] == "root"
        assert "no_proxy" not in os.environ
        assert "XPUBUILD_TRUSTED_OWNERS" not in of_caller(os.environ)
    before = os.environ["XDG_DATA_HOME"]
    params(monkeypatch, "plan", "quickstart")
    assert os.environ["XDG_DATA_HOME"] == before
    monkeypatch.delenv("XPUBUILD_TRUSTED_OWNERS")


WRONG = """\
top = 1
[options]
jobs = 0
jbos = 2
target = "gpu"
editable = "yes"
mirror = ""
extra-path = [
  "/a",
  1.5,
]

[trust]
owner = "x"
[install]
dry-run = true
module-default = true
wheel-dir = "$NO_SUCH_VARIABLE/x"
[instal]
jobs = 1
[recipes]
check = 1
"""
FOUND = [
    (1, "top", "1", "is not a key of the configuration"),
    (3, "options.jobs", "0", "at least 1"),
    (4, "options.jbos", "2", "did you mean 'jobs'?"),
    (5, "options.target", '"gpu"', "one of xpu, cpu"),
    (6, "options.editable", '"yes"', "true or false, without quotes"),
    (7, "options.mirror", '""', "is empty"),
    (8, "options.extra-path", '["/a", 1.5]', "must be text in quotes"),
    (14, "trust.owner", '"x"', "did you mean 'owners'?"),
    (16, "install.dry-run", "true", "given when a command is called"),
    (17, "install.module-default", "true", "given when a command is called"),
    (18, "install.wheel-dir", '"$NO_SUCH_VARIABLE/x"', "no variable NO_SUCH_VARIABLE"),
    (19, "instal", "", "did you mean 'install'?"),
    (22, "recipes.check", "1", "must be a table"),
]


def test_each_error_is_named_with_file_line_and_value(xpubuild: Xpubuild, files: Files) -> None:
    files.write(user=WRONG)
    answer = xpubuild("config", "--json")
    assert answer.status == 20
    problems = check(answer.document(), "error")["error"]["evidence"]["problems"]
    told = [(item["line"], item["key"], item["value"]) for item in problems]
    assert told == [expected[:3] for expected in FOUND]
    for problem, (*_, what) in zip(problems, FOUND, strict=True):
        assert what in problem["what"]
        assert problem["path"] == str(files.user)
    files.write(site="wrong = 1\n")
    answer = xpubuild("config")
    assert f"{files.site}:1: wrong = 1: is not a key" in answer.err
    assert f"{files.user}:22: recipes.check = 1: must be a table" in answer.err
    refused = xpubuild("plan", "quickstart")
    assert refused.status == 20
    assert f"{files.user}:3: options.jobs = 0: must be" in refused.err
    assert "(and 9 more)" in refused.err


STRANGE = [
    'mirror = "/x"', 'oneapi-root = "/x"', 'extra-path = "/x"', 'extra-library-path = "/x"',
    'conda-channel = ["x"]', 'conda-lock = "x"', 'workspace = "/x"', 'lock-policy = "ignore"',
    "allow-dirty = true", "offline = true", 'recipe = "./other.yaml"', 'python = "./python"',
]  # fmt: skip


@pytest.mark.parametrize("line", STRANGE)
def test_a_projects_file_is_a_strangers(xpubuild: Xpubuild, files: Files, line: str) -> None:
    files.write(project=f"[options]\n{line}\n")
    answer = xpubuild("plan", str(files.recipe))
    assert answer.status == 20
    assert f"{files.project}:2: options." in answer.err
    assert "a file beside a recipe may" in answer.err


def test_files_that_cannot_be_read(xpubuild: Xpubuild, files: Files, tmp_path: Path) -> None:
    files.write(user="[options]\njobs = = 3\n")
    assert f"{files.user}:2: not valid TOML" in xpubuild("plan", "quickstart").err
    files.user.write_bytes(b"# caf\xe9\n")
    assert "cannot be read" in xpubuild("plan", "quickstart").err
    files.user.write_text("#" * 300_000)
    assert "larger than" in xpubuild("plan", "quickstart").err
    files.user.write_text("")
    files.user.chmod(0o666)
    assert f"run: chmod o-w {files.user}" in xpubuild("plan", "quickstart").err


def test_a_mistyped_line_shows_no_password(xpubuild: Xpubuild, files: Files) -> None:
    files.write(user='[proxies]\nhtpps = "http://user:hunter22@proxy.example:1"\n')
    answer = xpubuild("plan", "quickstart")
    assert "did you mean 'https'?" in answer.err
    assert "http://****@proxy.example:1" in answer.err
    assert "hunter22" not in answer.err + xpubuild("config").err


def test_help_reads_no_file_and_commands_of_plans_neither(xpubuild: Xpubuild, files: Files) -> None:
    files.write(user="nonsense")
    assert xpubuild("plan", "--help").status == 0
    assert xpubuild("config", "init", "--help").status == 0
    assert "nonsense" not in xpubuild("plumbing", "digest-of-nothing").err


def test_config_shows_values_and_their_places(xpubuild: Xpubuild, files: Files) -> None:
    files.write(
        site="[plan]\njobs = 2\n", user='# mine\n[options]\njobs = 4\n[proxies]\nhttp = "http://u:pw@h:1"\n'
    )
    document = check(xpubuild.json("config", XPUBUILD_TARGET="cpu"), "config")
    rows = {(row["key"], row["layer"]): row for row in document["settings"]}
    assert rows["plan.jobs", "site"]["overridden_by"] == f"{files.user}:3"
    assert rows["options.jobs", "user"]["source"] == f"{files.user}:3"
    assert rows["options.jobs", "user"]["overridden_by"] == ""
    assert rows["options.target", "environment"]["source"] == "XPUBUILD_TARGET"
    assert "pw@" not in json.dumps(document)
    every = xpubuild.json("config", "--all")["settings"]
    assert {"options.wheel-dir", "places.data", "lock.output"} <= {row["key"] for row in every}
    assert f"{files.user}:3" in xpubuild.ok("config").out
    files.write(project="[options]\njobs = 6\n")
    of_project = xpubuild.json("config", "--recipe", str(files.recipe))["settings"]
    assert "project" in {row["layer"] for row in of_project}


def uncommented(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line[1:] if line.startswith("#") and line[1:2].isalpha() else line for line in lines)


def test_init_writes_every_setting_and_changes_nothing(
    xpubuild: Xpubuild, files: Files, tmp_path: Path
) -> None:
    document = check(xpubuild.json("config", "init"), "config-init")
    assert document["file"] == str(files.user)
    text = files.user.read_text()
    assert not [row for row in xpubuild.json("config")["settings"] if row["layer"] == "user"]
    again = xpubuild("config", "init")
    assert again.status == 2
    assert "exists" in again.err
    assert files.user.read_text() == text
    told: dict[str, Any] = tomllib.loads(uncommented(text))
    assert {"options", "trust", "places", "proxies", "verify", "doctor"} <= told.keys()
    assert {"jobs", "oneapi-root", "mirror"} <= told["options"].keys()
    # What an option does for every command is said in the words of install.
    assert '# Interpreter to build for.\n#python = "' in text.partition("[trust]")[0]
    project = tmp_path / "new" / PROJECT
    xpubuild.ok("config", "init", "--output", str(project))
    of_project = tomllib.loads(uncommented(project.read_text()))
    assert "mirror" not in of_project["options"]
    assert "trust" not in of_project


def test_the_schema_says_the_same_as_the_check(files: Files) -> None:
    schema = json.loads((ROOT / "docs/schema/xpubuild.configuration.1.json").read_text())
    assert schema == json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(tomllib.loads('[options]\njobs = 4\nwith = ["ops"]\n[recipes.check]\ntree = "/x"\n'))
    errors = {".".join(map(str, item.path)) for item in validator.iter_errors(tomllib.loads(WRONG))}
    assert {
        "options.jobs",
        "options.target",
        "options.editable",
        "recipes.check",
    } <= errors


def test_lines_of_keys() -> None:
    text = '# c\n[a]\nx = """\ny = 1\n"""\n\n# about y\ny = [\n 1,\n]\nb.c = 2\n[d.e]\nf = {g = 1}\n'
    keys = [
        (("a", "x"), 3),
        (("a", "y"), 8),
        (("a", "b", "c"), 11),
        (("d", "e"), 12),
        (("d", "e", "f", "g"), 13),
    ]
    assert [(key, line_of(text, key)) for key, _ in keys] == keys
