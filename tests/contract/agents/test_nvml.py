# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""GPUs by NVIDIA's own binding, as the locks bring it onto nodes, on a double of the driver's library."""

from __future__ import annotations

import importlib.util
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.nvml_library_double import (
    FIRST,
    XID,
    GpuOfLibrary,
    NvmlLibraryDouble,
)
from colocation.device_plugin.gpu_backend import NoDriver, Seen
from colocation.device_plugin.gpu_nvml import Nvml
from colocation.device_plugin.gpu_watcher import GpuWatcher

U0, U1 = (f"GPU-{n:08x}-f96b-ba85-c137-78c3652fea65" for n in range(2))


@pytest.fixture(scope="session")
def wheel(all_wheels: Path) -> Path:
    (found,) = all_wheels.glob("nvidia_ml_py-*.whl")
    return found


@pytest.fixture
def binding(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fresh copy of the module, which keeps the library in globals of its own."""
    with zipfile.ZipFile(wheel) as opened:
        opened.extract("pynvml.py", tmp_path)
    spec = importlib.util.spec_from_file_location("pynvml_of_the_lock", tmp_path / "pynvml.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # it looks itself up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def library(binding: Any) -> NvmlLibraryDouble:
    made = NvmlLibraryDouble(
        [GpuOfLibrary(U0, 81559, "00000000:17:00.0"), GpuOfLibrary(U1, 15360, "00000000:CA:00.0", "Tesla T4")]
    )
    made.gpus[1].failed_remaps = None  # older than that
    binding.nvmlLib = made
    return made


@pytest.fixture
def nvml(binding: Any, library: NvmlLibraryDouble, tmp_path: Path) -> Iterator[Nvml]:
    for address, node in (("0000:17:00.0", "1"), ("0000:ca:00.0", "-1")):
        (tmp_path / "pci" / address).mkdir(parents=True)
        (tmp_path / "pci" / address / "numa_node").write_text(f"{node}\n")
    made = Nvml(lambda: binding, str(tmp_path / "pci"))
    yield made
    made.close()


def test_what_there_is(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    assert nvml.poll() == (Seen(U0, 81559, "NVIDIA H100", 1, ""), Seen(U1, 15360, "Tesla T4", None, ""))
    assert library.started == 1
    assert library.registered == [FIRST, FIRST + 1]
    nvml.poll()
    assert library.started == 1 and len(library.registered) == 2


def test_a_gpu_that_is_lost_and_comes_again(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    whole = nvml.poll()
    library.gpus[0].lost = True
    other, lost = nvml.poll()
    assert (lost.uuid, lost.memory_mib) == (U0, 81559)
    assert lost.ill == "the driver says: GPU is lost"
    assert not other.ill
    library.gpus[0].lost = False
    assert nvml.poll() == whole


def test_a_gpu_that_is_lost_from_the_start_is_told_of_and_hides_no_errors_of_others(
    nvml: Nvml, library: NvmlLibraryDouble
) -> None:
    library.gpus[0].lost = True
    watcher = GpuWatcher(nvml, "skip", 5.0, 60.0)
    watcher.poll(1.0)
    assert watcher.look is not None
    assert [gpu.uuid for gpu in watcher.look.gpus] == [U1]
    assert watcher.look.left_out == ("GPU number 0 can't be asked: GPU is lost",)
    assert library.registered == [FIRST + 1]
    library.events.put((FIRST + 1, XID, 94))
    assert nvml.wait(5.0) == ((U1, 94),)
    library.gpus[0].lost = False
    watcher.poll(2.0)
    watcher.poll(3.0)
    assert [gpu.uuid for gpu in watcher.look.gpus] == [U0, U1]
    assert not watcher.look.left_out
    assert library.registered == [FIRST + 1, FIRST]


def test_a_gpu_without_events_hides_no_errors_of_others(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    library.gpus[0].events = False
    nvml.poll()
    assert library.registered == [FIRST + 1]


def test_gpus_are_known_by_their_uuids_whatever_their_numbers(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    """A driver that comes again without its first GPU numbers the others anew."""
    watcher = GpuWatcher(nvml, "skip", 5.0, 60.0)

    def illness() -> dict[str, str]:
        assert watcher.look is not None
        return {gpu.uuid: gpu.ill for gpu in watcher.look.gpus}

    watcher.poll(1.0)
    assert illness() == {U0: "", U1: ""}
    library.away = True
    watcher.poll(2.0)
    assert all("does not say how many GPUs there are" in ill for ill in illness().values())
    watcher.poll(3.0)
    assert all("there is no NVIDIA driver" in ill for ill in illness().values())
    library.away = False
    lost = library.gpus.pop(0)
    watcher.poll(4.0)
    assert illness() == {U0: "it is gone", U1: ""}
    library.gpus.append(lost)
    watcher.poll(5.0)
    assert illness() == {U0: "", U1: ""}
    assert watcher.look is not None and not watcher.look.left_out


def test_memory_that_could_not_be_replaced(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    library.gpus[0].failed_remaps = 1
    assert "row remapping failed" in nvml.poll()[0].ill


def test_memory_that_is_to_be_replaced_at_the_next_reset_can_be_used_till_then(
    nvml: Nvml, library: NvmlLibraryDouble
) -> None:
    library.gpus[0].pending_remaps = 1
    assert nvml.poll()[0].ill == ""


@pytest.mark.parametrize(
    ("action", "needs"), [(1, "a reset"), (4, "to be drained and reset"), (99, "recovery action 99")]
)
def test_what_the_driver_wants_done_to_a_gpu(nvml: Nvml, library: NvmlLibraryDouble, action: int, needs: str) -> None:
    library.gpus[0].recovery = action
    sick, other = nvml.poll()
    assert sick.ill == f"the driver says that it needs {needs}"
    assert not sick.cleared
    assert (other.ill, other.cleared) == ("", False)  # nobody says
    library.gpus[0].recovery = 0
    assert (nvml.poll()[0].ill, nvml.poll()[0].cleared) == ("", True)
    library.gpus[0].lost = True
    assert not nvml.poll()[1].cleared


def test_mig(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    library.gpus[0].mig = [("MIG-0", 10240), ("MIG-1", 20480)]
    assert nvml.poll()[0].instances == (("MIG-0", 10240), ("MIG-1", 20480))


def test_a_gpu_in_mig_mode_is_not_whole_when_the_driver_fails_to_say_so(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    library.gpus[0].mig = [("MIG-0", 10240)]
    nvml.poll()
    library.gpus[0].mig_fails = True
    (sick,) = (one for one in nvml.poll() if one.uuid == U0)
    assert (sick.instances, sick.ill) == ((("MIG-0", 10240),), "the driver says: Unknown Error")


def test_a_driver_that_goes_away_is_begun_with_anew(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    whole = nvml.poll()
    library.away = True
    with pytest.raises(NoDriver, match="does not say how many GPUs there are"):
        nvml.poll()
    with pytest.raises(NoDriver, match="there is no NVIDIA driver"):
        nvml.poll()
    library.away = False
    assert nvml.poll() == whole


def test_a_machine_without_a_driver(binding: Any) -> None:
    with pytest.raises(NoDriver, match="there is no NVIDIA driver: NVML Shared Library Not Found"):
        Nvml(lambda: binding).poll()


def test_an_error_is_heard_while_waiting_and_its_end_is_seen(nvml: Nvml, library: NvmlLibraryDouble) -> None:
    watcher = GpuWatcher(nvml, "skip", poll_seconds=0.2, rest_seconds=0.5)
    watcher.start()
    try:
        wait(lambda: watcher.look is not None)
        library.events.put((FIRST, XID, 31))  # a program's own
        library.events.put((FIRST + 1, XID, 94))
        wait(lambda: watcher.look is not None and "XID 94" in watcher.look.gpus[1].ill)
        assert watcher.look is not None and not watcher.look.gpus[0].ill
        wait(lambda: watcher.look is not None and not watcher.look.gpus[1].ill)
    finally:
        watcher.stop()


def wait(holds: Any) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
