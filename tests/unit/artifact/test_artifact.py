# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The artifact holds every file of the checkout that is meant for users, and runs where only it is installed."""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.colocation.kubernetes.tests.run import stage

CHECKOUT = Path(os.environ.get("COLOCATION_CHECKOUT") or Path(__file__).resolve().parents[3])
PLAYBOOKS = sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))
MADE_BY_THE_BUILD = {Path("MANIFEST.json"), Path("FILES.json")}
FOR_THE_BUILD = {Path("galaxy.yml")}
OF_AGENTS = ["colocation/a.py", "requirements.lock", "protos/api.proto", "pyproject.toml", "tests/b.bin", "w.whl"]
JUNK = [
    "files/agents/colocation/__pycache__/x.cpython-311.pyc",
    "plugins/modules/__pycache__/y.cpython-311.pyc",
    "tests/output/junit/z.xml",
    "roles/preflight/tasks/.main.yml.swp",
    ".mypy_cache/3.11/a.json",
    "colocation-kubernetes-0.0.1.tar.gz",
]


def ansible(command: str, *arguments: str | Path, cwd: Path, collections: Path | None = None) -> str:
    """Run an Ansible command in an environment that knows no collection but the given ones."""
    kept = ("PATH", "LANG", "TMPDIR")
    env = {name: value for name, value in os.environ.items() if name in kept}
    env |= {"HOME": str(cwd), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    if collections is not None:
        env["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
    program = Path(sys.executable).with_name(command)
    done = subprocess.run([program, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "DEPRECATION" not in said
    return said


def installed(tree: Path, scratch: Path) -> Path:
    """Build a tree and install the artifact into an empty path, without any server."""
    ansible("ansible-galaxy", "collection", "build", tree, "--output-path", scratch / "out", cwd=scratch)
    (artifact,) = (scratch / "out").glob("*.tar.gz")
    target = scratch / "installed"
    ansible("ansible-galaxy", "collection", "install", artifact, "-p", target, "--offline", "--no-deps", cwd=scratch)
    return target


def expected(tree: Path, names: list[Path]) -> set[Path]:
    """The files that galaxy.yml does not leave out."""
    patterns = yaml.safe_load((tree / "galaxy.yml").read_text())["build_ignore"]

    def left_out(name: Path) -> bool:
        ways = [name, *name.parents][:-1]
        return any(fnmatch.fnmatchcase(str(way), pattern) for way in ways for pattern in patterns)

    return {name for name in names if not left_out(name)} - FOR_THE_BUILD


def content(tree: Path) -> set[Path]:
    """Every file of an installed collection."""
    root = tree / stage.INSIDE
    return {path.relative_to(root) for path in root.rglob("*") if not path.is_dir()} - MADE_BY_THE_BUILD


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the checkout."""
    copied = tmp_path / "tree"
    stage.copy(CHECKOUT, copied)
    return copied


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact of the checkout, installed."""
    scratch = tmp_path_factory.mktemp("artifact")
    stage.copy(CHECKOUT, scratch / "tree")
    return installed(scratch / "tree", scratch)


def plant(tree: Path, name: str) -> Path:
    """A new file in a tree."""
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("planted\n")
    return Path(name)


def test_nothing_is_lost_and_no_junk_comes_along(tree: Path, tmp_path: Path) -> None:
    names = stage.files(CHECKOUT)
    agents = [plant(tree, f"files/agents/{name}") for name in OF_AGENTS]
    for name in JUNK:
        plant(tree, name)
    assert content(installed(tree, tmp_path)) == expected(tree, [*names, *agents])


def test_what_galaxy_yml_leaves_out_of_the_agents_is_noticed(tree: Path, tmp_path: Path) -> None:
    names = [*stage.files(CHECKOUT), plant(tree, "files/agents/w.whl")]
    should = expected(tree, names)
    with (tree / "galaxy.yml").open("a") as file:
        file.write("  - files/agents/*.whl\n")
    assert should - content(installed(tree, tmp_path)) == {Path("files/agents/w.whl")}


def test_users_get_what_they_run_and_read_and_no_tests(artifact: Path) -> None:
    tops = {name.parts[0] for name in content(artifact)}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "meta", "plugins"} <= tops
    assert not tops & {"tests", "molecule", "test", "demo", "bench", ".collections", ".git", "ansible.cfg"}


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_installed_playbooks_are_called_by_their_full_name(playbook: str, artifact: Path, tmp_path: Path) -> None:
    arguments = ("--syntax-check", "-i", "localhost,", f"colocation.kubernetes.{playbook}")
    ansible("ansible-playbook", *arguments, cwd=tmp_path, collections=artifact)


@pytest.mark.parametrize("kind", ["module", "filter", "role"])
def test_everything_has_its_documentation(kind: str, artifact: Path, tmp_path: Path) -> None:
    here = {"module": "plugins/modules/*.py", "filter": "plugins/filter/*.py", "role": "roles/*"}[kind]
    names = {f"colocation.kubernetes.{path.stem}" for path in CHECKOUT.glob(here)}
    arguments = ("--type", kind, "--json", *sorted(names))
    said = json.loads(ansible("ansible-doc", *arguments, cwd=tmp_path, collections=artifact))
    assert set(said) == names
    assert not [name for name, entry in said.items() if "error" in entry]


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_playbooks_run_from_a_bare_checkout(playbook: str, tree: Path) -> None:
    ansible("ansible-playbook", "--syntax-check", "-i", "localhost,", f"playbooks/{playbook}.yml", cwd=tree)


def test_a_bare_checkout_finds_itself_under_its_full_name(tree: Path) -> None:
    role = tree / "roles" / "made_for_this_test" / "tasks"
    role.mkdir(parents=True)
    (role / "main.yml").write_text("- ansible.builtin.debug:\n    msg: it is {{ role_path }}\n")
    play = "- hosts: localhost\n  gather_facts: false\n  roles: [colocation.kubernetes.made_for_this_test]\n"
    (tree / "playbooks" / "made_for_this_test.yml").write_text(play)
    said = ansible("ansible-playbook", "-i", "localhost,", "-c", "local", "playbooks/made_for_this_test.yml", cwd=tree)
    assert f"it is {tree / '.collections' / stage.INSIDE}/roles/made_for_this_test" in said


def test_the_commands_can_be_run() -> None:
    for name in ("test", "demo", "bench", ".ci/run"):
        assert os.access(CHECKOUT / name, os.X_OK), name
