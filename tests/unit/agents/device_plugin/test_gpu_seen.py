# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How GPUs are seen: the file's double, health, MIG, and what is kept when nothing can be seen."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from colocation.device_plugin.gpu_backend import Backend, NoDriver, Seen, offered
from colocation.device_plugin.gpu_file_double import FileDouble
from colocation.device_plugin.gpu_health import Health
from colocation.device_plugin.gpu_nvml import Nvml
from colocation.device_plugin.gpu_watcher import GpuWatcher

U0, U1 = (f"GPU-{n:08x}-0000-0000-0000-000000000000" for n in range(2))


def describe(file: Path, *gpus: dict[str, Any]) -> None:
    scratch = file.with_suffix(".new")
    scratch.write_text(json.dumps({"gpus": gpus}))
    scratch.replace(file)


def gpu(uuid: str, mib: int = 81920, **more: Any) -> dict[str, Any]:
    return {"uuid": uuid, "memoryMiB": mib, **more}


def test_the_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text(
        f"gpus: [{{uuid: {U0}, memoryMiB: 81920, model: H100, numa: 1, health: healthy}}, {{uuid: {U1}, memoryMiB: 9}}]"
    )
    double = FileDouble(str(file))
    assert double.poll() == (Seen(U0, 81920, "H100", 1, ""), Seen(U1, 9, "a GPU of a file", None, ""))
    describe(file, gpu(U0, health="fell off the bus"))
    assert double.poll() == (Seen(U0, 81920, "a GPU of a file", None, "fell off the bus"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus: [{uuid: GPU-1}]", "memoryMiB: is missing"),
        ("gpus: [{uuid: GPU-1, memoryMiB: 0}]", "memoryMiB: must be between 1 and"),
        ("gpus: [{uuid: 'GPU 1', memoryMiB: 5}]", '"GPU 1" is no UUID of a GPU'),
        ("gpus: [{uuid: GPU-1, memoryMiB: 5, helth: bad}]", 'did you mean "health"?'),
        ("{", "gpus.yaml"),
    ],
)
def test_a_file_that_says_nothing(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text(text)
    with pytest.raises(NoDriver) as caught:
        FileDouble(str(file)).poll()
    assert said in str(caught.value)


def test_mig_is_left_out_or_listed(tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    parts = [{"uuid": "MIG-1", "memoryMiB": 10240}, {"uuid": "MIG-2", "memoryMiB": 20480}]
    describe(file, gpu(U0, mig=parts, health="hot"), gpu(U1, mig=None))
    seen = FileDouble(str(file)).poll()
    whole, left_out = offered(seen, {}, "skip")
    assert [one.uuid for one in whole] == [U1]
    assert left_out == (f"{U0} is in MIG mode",)
    listed, left_out = offered(seen, {}, "list")
    assert [(one.uuid, one.memory_mib, one.ill) for one in listed] == [
        ("MIG-1", 10240, "hot"),
        ("MIG-2", 20480, "hot"),
        (U1, 81920, ""),
    ]
    assert not left_out


def test_a_reported_error_holds_until_nothing_was_wrong_for_a_while() -> None:
    health = Health(rest_seconds=60)
    assert health.reported(U0, 69, 100.0)
    assert health.judge({U0: "", U1: ""}, 101.0) == {U0: "the driver reported XID 69", U1: ""}
    assert health.judge({U0: "lost"}, 130.0) == {U0: "lost"}
    assert health.judge({U0: ""}, 161.0)[U0]
    assert health.reported(U0, 94, 170.0)
    assert health.judge({U0: ""}, 229.0) == {U0: "the driver reported XID 94"}
    assert health.judge({U0: ""}, 230.0) == {U0: ""}


@pytest.mark.parametrize("xid", [48, 79, 95, 119])
def test_an_error_that_needs_a_reset_holds_until_the_gpu_was_begun_anew(xid: int) -> None:
    health = Health(rest_seconds=60)
    assert health.reported(U0, xid, 100.0)
    assert health.reported(U0, 94, 110.0)  # makes it no better
    assert health.judge({U0: ""}, 9999.0) == {U0: f"the driver reported XID {xid}, which needs a reset"}
    health.begun_anew(U0)
    health.begun_anew(U1)
    assert health.judge({U0: "lost"}, 10_000.0) == {U0: "lost"}
    assert health.judge({U0: ""}, 10_059.0) == {U0: f"the driver reported XID {xid}"}
    assert health.judge({U0: ""}, 10_060.0) == {U0: ""}


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_errors_of_programs_say_nothing_of_the_gpu(xid: int) -> None:
    health = Health()
    assert not health.reported(U0, xid, 1.0)
    assert health.judge({U0: ""}, 2.0) == {U0: ""}


def illness(watcher: GpuWatcher) -> dict[str, str]:
    assert watcher.look is not None
    return {gpu.uuid: gpu.ill for gpu in watcher.look.gpus}


def test_what_can_not_be_seen_any_more_is_ill(tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    watcher = GpuWatcher(FileDouble(str(file)), "skip", 5.0, 60.0)
    watcher.poll(1.0)
    assert watcher.look is None and "can't be read" in watcher.problem
    describe(file, gpu(U0), gpu(U1))
    watcher.poll(2.0)
    assert illness(watcher) == {U0: "", U1: ""} and watcher.problem == ""
    before = watcher.look
    watcher.poll(3.0)
    assert watcher.look is before
    os.unlink(file)
    watcher.poll(4.0)
    assert "can't be read" in watcher.problem
    assert illness(watcher) == dict.fromkeys((U0, U1), watcher.problem)
    describe(file, gpu(U1))
    watcher.poll(5.0)
    assert illness(watcher) == {U0: "it is gone", U1: ""} and watcher.problem == ""
    describe(file, gpu(U0, mib=10), gpu(U1))
    watcher.poll(6.0)
    assert illness(watcher) == {U0: "", U1: ""}
    assert watcher.look is not None and watcher.look.gpus[0].memory_mib == 10


def test_instances_of_a_gpu_that_is_gone_are_ill(tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    describe(file, gpu(U0, mig=[{"uuid": "MIG-1", "memoryMiB": 10240}]), gpu(U1))
    watcher = GpuWatcher(FileDouble(str(file)), "list", 5.0, 60.0)
    watcher.poll(1.0)
    describe(file, gpu(U1))
    watcher.poll(2.0)
    assert illness(watcher) == {"MIG-1": "it is gone", U1: ""}


def test_an_instance_that_is_destroyed_is_ill_until_it_is_there_again(tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    whole = [{"uuid": "MIG-1", "memoryMiB": 10240}, {"uuid": "MIG-2", "memoryMiB": 20480}]
    other = [{"uuid": "MIG-3", "memoryMiB": 30720}]
    watcher = GpuWatcher(FileDouble(str(file)), "list", 5.0, 60.0)
    gone = "this instance of MIG is gone"
    for now, mig, seen in (
        (1.0, whole, {"MIG-1": "", "MIG-2": ""}),
        (2.0, whole[1:], {"MIG-1": gone, "MIG-2": ""}),
        (3.0, other, {"MIG-1": gone, "MIG-2": gone, "MIG-3": ""}),
        (4.0, whole, {"MIG-1": "", "MIG-2": "", "MIG-3": gone}),
        (5.0, None, {U0: ""}),
        (6.0, other, {"MIG-3": ""}),
    ):
        describe(file, gpu(U0, mig=mig))
        watcher.poll(now)
        assert illness(watcher) == seen


def test_a_driver_that_never_answers_is_a_problem(tmp_path: Path) -> None:
    """Nothing ends a call that hangs, so nobody but the clock can tell."""
    file, clock = tmp_path / "gpus.yaml", [100.0]
    describe(file, gpu(U0))
    watcher = GpuWatcher(FileDouble(str(file)), "skip", 5.0, 60.0, lambda: clock[0])
    watcher.poll(1.0)
    for now, problem in ((120.0, ""), (121.0, "the GPUs' driver has not answered for 20 s")):
        clock[0] = now
        assert watcher.problem == problem
    watcher.poll(2.0)
    assert watcher.problem == ""


def test_a_namesake_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    describe(file, gpu(U0), gpu(U0[:-1] + "1"))
    watcher = GpuWatcher(FileDouble(str(file)), "skip", 5.0, 60.0)
    watcher.poll(1.0)
    assert watcher.look is not None
    assert [one.uuid for one in watcher.look.gpus] == [U0]
    assert watcher.look.left_out == (f"{U0[:-1]}1 has the short name of another one",)


class TellingBackend(Backend):
    """One that sees what it is told to see, or no driver."""

    about = "made up"

    def __init__(self) -> None:
        self.sees: tuple[Seen, ...] | None = (Seen(U0, 10, "", None, ""),)

    def poll(self) -> tuple[Seen, ...]:
        if self.sees is None:
            raise NoDriver("it is away")
        return self.sees

    def wait(self, seconds: float) -> tuple[tuple[str, int], ...]:
        return ()

    def close(self) -> None:
        pass


@pytest.mark.parametrize("away", [None, ()])
def test_a_gpu_that_needs_a_reset_may_have_had_it_when_it_was_away(away: tuple[Seen, ...] | None) -> None:
    backend = TellingBackend()
    watcher = GpuWatcher(backend, "skip", 5.0, 60.0)
    there = backend.sees
    watcher.poll(1.0)
    watcher.reported(U0, 119, 2.0)
    watcher.poll(3.0)
    watcher.poll(1000.0)
    assert illness(watcher) == {U0: "the driver reported XID 119, which needs a reset"}
    backend.sees = away
    watcher.poll(1001.0)
    backend.sees = there
    watcher.poll(1002.0)
    assert illness(watcher) == {U0: "the driver reported XID 119"}
    watcher.poll(1061.0)
    assert illness(watcher) == {U0: ""}


def test_a_driver_that_says_that_nothing_is_to_be_done_is_believed() -> None:
    backend = TellingBackend()
    watcher = GpuWatcher(backend, "skip", 5.0, 60.0)
    watcher.poll(1.0)
    watcher.reported(U0, 119, 2.0)
    assert backend.sees is not None
    backend.sees = tuple(replace(one, cleared=True) for one in backend.sees)
    watcher.poll(3.0)
    assert illness(watcher) == {U0: "the driver reported XID 119"}
    watcher.poll(62.0)
    assert illness(watcher) == {U0: ""}


class ErringBackend(Backend):
    """One that reports an error once, and lets nobody wait."""

    about = "made up"

    def __init__(self) -> None:
        self.errors: tuple[tuple[str, int], ...] = ((U0, 94),)
        self.ended = False

    def poll(self) -> tuple[Seen, ...]:
        return (Seen(U0, 10, "", None, ""),)

    def wait(self, seconds: float) -> tuple[tuple[str, int], ...]:
        time.sleep(0.01)
        told, self.errors = self.errors, ()
        return told

    def close(self) -> None:
        self.ended = True


def test_an_error_is_seen_at_once_and_its_end_too() -> None:
    backend = ErringBackend()
    watcher = GpuWatcher(backend, "skip", 600.0, 0.3)
    watcher.start()
    try:
        for ill in (True, False):
            end = time.monotonic() + 10
            while watcher.look is None or bool(watcher.look.gpus[0].ill) != ill:
                assert time.monotonic() < end
                time.sleep(0.01)
    finally:
        watcher.stop()
    assert backend.ended


def test_where_there_is_no_driver_that_is_said() -> None:
    def absent() -> Any:
        raise ModuleNotFoundError("No module named 'pynvml'")

    nvml = Nvml(absent)
    for _time in range(2):
        with pytest.raises(NoDriver, match="there is no NVIDIA driver: No module named 'pynvml'"):
            nvml.poll()
    nvml.close()
    assert nvml.wait(600.0) == ()


@pytest.mark.parametrize(("number", "hinted"), [(errno.EPERM, True), (errno.EACCES, False), (errno.ENOENT, False)])
def test_a_driver_that_systemd_does_not_let_the_agent_use_is_said(
    number: int, hinted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What systemd's filter of devices answers is EPERM; files' modes answer EACCES."""

    def refusing(*_arguments: Any) -> Any:
        raise OSError(number, "no")

    monkeypatch.setattr("colocation.device_plugin.gpu_nvml.os.open", refusing)
    with pytest.raises(NoDriver) as caught:
        Nvml(refusing).poll()
    assert ("systemctl restart colocation-device-plugin" in str(caught.value)) is hinted
