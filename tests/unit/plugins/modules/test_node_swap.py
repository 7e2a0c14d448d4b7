# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""node_swap on a double of a node: what is on now, what a boot turns on, and what is left of both afterwards."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.modules import node_swap
from ansible_collections.colocation.kubernetes.tests.unit.plugins.swap_node import Killed, SwapNode


class Ended(Exception):
    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result.get("msg", ""))
        self.result = result


@contextmanager
def wired(node: SwapNode) -> Iterator[None]:
    """The module's hands on the double."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_swap, "ROOT", str(node.root))
        patch.setattr(node_swap, "run_for", node.run_for)
        patch.setattr(
            basic.AnsibleModule, "run_command", lambda _self, command, **options: node.run(command, **options)
        )
        patch.setattr(basic.AnsibleModule, "warn", lambda _self, text: node.warnings.append(text))
        patch.setattr(basic.AnsibleModule, "exit_json", _end(False))
        patch.setattr(basic.AnsibleModule, "fail_json", _end(True))
        yield


def _end(failed: bool) -> Callable[..., None]:
    def end(_self: object, **result: Any) -> None:
        raise Ended({"failed": failed, **result})

    return end


def call(node: SwapNode, *, check: bool = False, **options: Any) -> dict[str, Any]:
    options = {"state_dir": str(node.root / "state"), **options}
    with wired(node), patch_module_args({**options, "_ansible_check_mode": check}), pytest.raises(Ended) as ended:
        node_swap.main()
    return ended.value.result


@pytest.fixture
def node(tmp_path: Path) -> SwapNode:
    return SwapNode(tmp_path)


SOURCES: dict[str, Callable[[SwapNode], None]] = {
    "file in fstab": lambda node: node.add_fstab("/swapfile\tnone\tswap\tsw\t0\t0\n"),
    "partition in fstab": lambda node: node.add_fstab("UUID=ab-cd none swap nofail 0 0"),
    "admin's unit": lambda node: node.add_unit("swap-a.swap", "/swap/a"),
    "vendor's unit, wanted by multi-user": lambda node: node.add_unit(
        "swap-b.swap", "/swap/b", "usr/lib/systemd/system", "multi-user.target"
    ),
    "root disk's partition": lambda node: node.add_gpt_swap(),
    "zram-generator": lambda node: node.add_zram_generator("[zram0]\n"),
    "zram-generator's vendor": lambda node: node.add_zram_generator(
        "[zram2]\nzram-size=512\n", "usr/lib/systemd/zram-generator.conf"
    ),
    "zram-generator's drop-in": lambda node: node.add_zram_generator(
        "[zram3]\n", "usr/lib/systemd/zram-generator.conf.d/50-x.conf"
    ),
    "zramswap": lambda node: node.add_service("zramswap.service"),
    "zram-config": lambda node: node.add_service("zram-config.service"),
    "dphys-swapfile": lambda node: node.add_service("dphys-swapfile.service"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_source_is_off_now_and_after_a_boot(node: SwapNode, name: str) -> None:
    SOURCES[name](node)
    assert node.boot(), "the double must turn this on, or the test proves nothing"

    result = call(node)

    assert not result["failed"], result
    assert result["changed"]
    assert len(result["active_before"]) == 1
    assert [source for source in result["persistent_sources"] if source["done"]]
    assert node.on() == set()
    assert node.boot() == set()
    assert node.boot() == set()
    assert call(node)["changed"] is False


@settings(max_examples=40, deadline=None)
@given(names=st.sets(st.sampled_from(sorted(SOURCES)), min_size=1))
def test_any_mix_is_off_and_check_mode_foretells_the_steps(names: set[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        node = SwapNode(Path(directory))
        for name in sorted(names):
            SOURCES[name](node)
        before = node.boot()
        standing = node.tree()

        foretold = call(node, check=True)
        assert node.on() == before
        assert node.tree() == standing
        assert not (node.root / "state").exists()

        done = call(node)
        assert not done["failed"], done
        for key in ("steps", "changed", "persistent_sources", "active_before", "diff"):
            assert done[key] == foretold[key]
        assert (node.on(), node.boot(), node.on()) == (set(), set(), set())
        second = call(node)
        assert (second["failed"], second["changed"], second["steps"]) == (False, False, [])


def test_a_run_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    for kill_at in itertools.count():
        node = SwapNode(tmp_path / str(kill_at))
        for add in SOURCES.values():
            add(node)
        node.boot()
        node.kill_at = kill_at
        try:
            call(node)
        except Killed:
            pass
        else:
            break
        node.kill_at = None
        result = call(node)
        assert not result["failed"], result
        assert node.on() == set()
        assert call(node)["changed"] is False
        assert node.boot() == set()
    assert kill_at > 20, "the kill came at every call"


def test_nothing_to_do_changes_nothing(node: SwapNode) -> None:
    node.boot()
    standing = node.tree()
    result = call(node)
    assert (result["failed"], result["changed"], result["steps"]) == (False, False, [])
    assert result["diff"] == {"before": "", "after": ""}
    assert node.tree() == standing
    assert not (node.root / "state").exists()


def test_swap_target_is_masked_only_for_the_root_disks_partition(node: SwapNode) -> None:
    for name, add in SOURCES.items():
        if name != "root disk's partition":
            add(node)
    node.boot()
    assert "mask swap.target" not in call(node)["steps"]
    assert not node.path("etc/systemd/system/swap.target").is_symlink()


def test_commenting_fstab_does_not_wake_the_root_disks_partition(node: SwapNode) -> None:
    node.add_gpt_swap()
    node.add_fstab("UUID=ab-cd none swap sw 0 0\n")
    assert node.boot() == {"/dev/disk/by-uuid/ab-cd"}, "fstab keeps the generator away"
    foretold = call(node, check=True)["steps"]
    assert call(node)["steps"] == foretold
    assert "mask swap.target" in foretold
    assert node.boot() == set()


def test_noauto_lines_stay_and_keep_the_generator_away(node: SwapNode) -> None:
    node.add_gpt_swap()
    node.add_fstab("/swapfile none swap noauto 0 0\n")
    assert node.boot() == set()
    standing = node.tree()
    assert call(node)["changed"] is False
    assert node.tree() == standing


def test_the_rest_of_fstab_is_not_touched(node: SwapNode) -> None:
    before = b"# tabs\tand CRLF\r\nUUID=1 / ext4 ro 0 1\r\n/swapfile none swap sw\r\n\t /swap2\tnone\tswap\n/x /y \xff"
    node.write("etc/fstab", before, 0o640)
    call(node)
    marker = b"# colocation.kubernetes node_swap: "
    expected = before.replace(b"/swapfile", marker + b"/swapfile").replace(b"\t /swap2", marker + b"\t /swap2")
    assert node.path("etc/fstab").read_bytes() == expected
    assert node.path("etc/fstab").stat().st_mode & 0o777 == 0o640


def ledger_of(node: SwapNode) -> dict[tuple[str, str], dict[str, Any]]:
    entries = [json.loads(path.read_text("utf-8")) for path in (node.root / "state/ledger").glob("*.json")]
    return {(entry["kind"], os.path.basename(entry["name"])): entry for entry in entries}


def test_the_ledger_knows_all_that_was_changed(node: SwapNode) -> None:
    for add in SOURCES.values():
        add(node)
    node.boot()
    fstab = node.path("etc/fstab").read_bytes()
    unit = node.path("etc/systemd/system/swap-a.swap").read_bytes()
    on = {os.path.basename(device) for device in node.on()}
    call(node)
    ledger = ledger_of(node)
    originals = {path.read_bytes() for path in (node.root / "state/ledger").glob("*.original")}
    assert {fstab, unit} <= originals
    assert {name for kind, name in ledger if kind == "swap"} == on
    assert ledger["swap", "swapfile"]["before"]["type"] == "file"
    assert ledger["swap", "zram0"]["before"]["type"] == "zram"
    assert ledger["swap", "zram0"]["before"]["active"] is True
    assert ledger["swap", "zram0"]["after"] == {"active": False}
    masked = {name for (kind, name), entry in ledger.items() if kind == "unit" and entry["after"]["masked"]}
    assert {"swap.target", "dev-zram0.swap", "zramswap.service", "swap-b.swap"} <= masked
    assert ledger["unit", "zramswap.service"]["before"]["active"] is True
    assert ledger["file", "swap-a.swap"]["after"]["target"] == "/dev/null"
    assert not node.running & {"zramswap.service", "zram-config.service", "dphys-swapfile.service"}
    assert {entry["owner"] for entry in ledger.values()} == {"node_prep"}


def test_memory_is_checked_before_anything_is_changed(node: SwapNode) -> None:
    SOURCES["file in fstab"](node)
    node.used_kib, node.mem_available = 300 * 1024, 200 * 1024
    node.boot()
    standing = node.tree()
    for check in (True, False):
        result = call(node, check=check)
        assert result["failed"]
        assert "300 MiB are swapped out" in result["msg"]
        assert "100 MiB are missing" in result["msg"]
        assert node.tree() == standing
        assert node.on() == {"/swapfile"}
    assert not call(node, force=True)["failed"]
    assert node.on() == set()


def test_memory_that_just_suffices_is_enough(node: SwapNode) -> None:
    SOURCES["file in fstab"](node)
    node.used_kib = node.mem_available = 200 * 1024
    node.boot()
    assert not call(node)["failed"]


def test_a_swapoff_without_end_is_named_and_the_boot_is_clean(node: SwapNode) -> None:
    SOURCES["file in fstab"](node)
    node.boot()
    node.stuck = {"/swapfile"}
    result = call(node, timeout=7)
    assert result["failed"]
    assert "swapoff /swapfile did not end within 7 s" in result["msg"]
    assert "longer timeout" in result["msg"]
    assert node.boot() == set(), "what lasts was done first"


def test_what_comes_back_is_named(node: SwapNode) -> None:
    SOURCES["zramswap"](node)
    node.boot()
    node.returns = {"/dev/zram0"}
    node.running.clear()  # stopping it does not help either
    result = call(node)
    assert result["failed"]
    assert "Swap is still not off for good: on now: /dev/zram0" in result["msg"]


def test_a_deleted_swap_file_needs_a_reboot(node: SwapNode) -> None:
    node.set_on({"/swapfile (deleted)"})
    node.stuck = set()
    node.run_for = lambda _command, _seconds: (255, "", "swapoff: /swapfile (deleted): No such file or directory")  # type: ignore[method-assign]
    result = call(node)
    assert result["failed"]
    assert "only a reboot" in result["msg"]


def test_swap_that_nothing_explains_is_turned_off_with_a_warning(node: SwapNode) -> None:
    node.set_on({"/by-hand"})
    result = call(node)
    assert (result["failed"], result["changed"]) == (False, True)
    assert node.on() == set()
    assert "/by-hand was on" in node.warnings[0]


def test_a_stale_unit_is_forgotten(node: SwapNode) -> None:
    """fstab was commented by hand and systemd never told."""
    SOURCES["file in fstab"](node)
    node.boot()
    node.set_on(set())
    fstab = node.path("etc/fstab")
    fstab.write_text(fstab.read_text("utf-8").replace("/swapfile", "#/swapfile"), "utf-8")
    result = call(node)
    assert result["steps"] == ["have systemd read its files again"]
    assert result["persistent_sources"][0]["kind"] == "stale"
    assert call(node)["changed"] is False


def test_kept_changes_nothing_and_answers_for_the_kubelet(node: SwapNode) -> None:
    SOURCES["file in fstab"](node)
    node.boot()
    standing = node.tree()
    for fails_on_swap, failed in ((True, True), (False, False), (None, False)):
        options = {} if fails_on_swap is None else {"kubelet_fail_swap_on": fails_on_swap}
        result = call(node, state="kept", **options)
        assert result["failed"] is failed
        assert result["active_before"][0]["name"] == "/swapfile"
        assert [source["done"] for source in result["persistent_sources"]] == [""]
    assert "failSwapOn: false" in call(node, state="kept", kubelet_fail_swap_on=True)["msg"]
    assert (node.tree(), node.on()) == (standing, {"/swapfile"})


def test_kept_without_swap_suits_any_kubelet(node: SwapNode) -> None:
    node.boot()
    assert call(node, state="kept", kubelet_fail_swap_on=True)["failed"] is False


def test_an_unreadable_line_of_proc_swaps_is_an_error(node: SwapNode) -> None:
    node.write("proc/swaps", "Filename Type Size Used Priority\nwhat is this\n")
    result = call(node)
    assert result["failed"]
    assert "/proc/swaps line 2" in result["msg"]


def test_timeout_must_be_positive(node: SwapNode) -> None:
    assert "timeout is 0" in call(node, timeout=0)["msg"]
