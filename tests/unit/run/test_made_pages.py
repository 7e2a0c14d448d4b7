# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is said when made pages are old, and what makes a version a tested one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run import made_pages, support


def test_old_missing_and_left_over_pages_are_named_and_written_anew(tmp_path: Path) -> None:
    made = {Path("docs/roles/prep.md"): "new\n", Path("docs/modules/do.md"): "new\n"}
    (tmp_path / "docs/roles").mkdir(parents=True)
    (tmp_path / "docs/roles/prep.md").write_text("old\n")
    (tmp_path / "docs/roles/gone.md").write_text("old\n")
    assert made_pages.differences(tmp_path, made) == [
        "docs/roles/prep.md is not what its source makes now",
        "docs/modules/do.md is missing",
        "docs/roles/gone.md describes nothing that there is",
    ]
    made_pages.write(tmp_path, made)
    assert made_pages.differences(tmp_path, made) == []


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """One scenario that is always run, and one that is asked for."""
    for name, options in (
        ("agents", '[--containerd, "2.3", --node, plain, --node, "plain,suite=bookworm"]'),
        ("upgrade", '[--node, dhyana, --kubernetes, "1.34"]'),
    ):
        folder = tmp_path / "molecule" / name
        folder.mkdir(parents=True)
        (folder / "cluster.yml").write_text(f"cluster_options: {options}\n")
        (folder / "molecule.yml").write_text(f"---\n# It shows\n# {name}.\n")
    (tmp_path / "tests").mkdir()
    for name, version in (("requirements", "2.19.14"), ("newest-core", "2.21.5")):
        (tmp_path / "tests" / f"{name}.lock").write_text(f"ansible-core=={version} \\\n")
    return tmp_path


def test_a_scenario_tells_what_it_runs_with(collection: Path) -> None:
    agents, upgrade = support.scenarios(collection)
    assert (agents.about, agents.core, agents.kubernetes) == ("It shows agents.", "2.19", "1.36")
    assert (agents.containerds, agents.suites) == (("2.3",), ("bookworm", "trixie"))
    assert (upgrade.asked_for, upgrade.kubernetes, upgrade.containerds) == (True, "1.34", ("1.7",))
    assert upgrade.shapes == ("dhyana",)


def test_only_what_is_always_run_is_called_tested(collection: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = support.table(support.scenarios(collection))
    assert "| Kubernetes | 1.36 |" in table
    assert "| containerd | 2.3 |" in table
    assert "| nodes | Debian 12, 13 |" in table
    monkeypatch.setattr(support, "LONG", ())
    table = support.table(support.scenarios(collection))
    assert "| Kubernetes | 1.34, 1.36 |" in table
    assert "| containerd | 1.7, 2.3 |" in table


def test_the_table_goes_between_its_marks() -> None:
    readme = f"before\n{support.BEGIN}old\n{support.END}after\n"
    assert support.put_into(readme, "new\n") == f"before\n{support.BEGIN}new\n{support.END}after\n"
    with pytest.raises(SystemExit, match="lost its marks"):
        support.put_into("a README", "new\n")
