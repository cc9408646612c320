# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a process group find each other: through PyTorch's store, and that through
Echelon where PyTorch does not know the launcher."""
from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import Any, Callable, Iterator, List, Tuple

import torch
import torch.distributed as dist

from .._errors import TimeoutError
from .._gathers import broadcast_object
from .._process_sets import ProcessSet, global_process_set, init, is_initialized, meet, unique_id

# A thread that waits inside the store keeps all others of its process out of it, so none does.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02


def wait_until(came: Callable[[], bool], timeout: float, what: str) -> None:
    """Until it has. `what` has not happened where it does not."""
    end, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while not came():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} within {timeout:g} s")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _use(device: torch.device) -> None:
    """Makes a GPU this thread's, so that the communicator is made for it. That of device 0, which
    every thread begins with, gets a context only by the first call that needs one."""
    torch.cuda.set_device(device)
    torch.cuda.Stream(device).record_event()


def meet_in(store: Any, rank: int, size: int, timeout: float, device: torch.device) -> ProcessSet:
    """Rank 0 leaves a unique id in the store. Every rank counts its visits, so that an id that an
    earlier group of the same name left is not taken for this one's."""
    if device.type == "cuda":
        _use(device)
    if size == 1:
        return meet(unique_id("lo"), 0, 1, timeout)
    visit = (store.add("echelon/visits", 1) - 1) // size
    key = f"echelon/id/{visit}"
    if rank == 0:
        store.set(key, unique_id().hex())
    wait_until(lambda: bool(store.check([key])), timeout,
               "rank 0 of the process group did not come to its first operation")
    return meet(bytes.fromhex(store.get(key).decode()), rank, size, timeout)


def _own_address(world: ProcessSet) -> str:
    """Of rank 0, as the others reach it: as the launcher says, or the default route's. After a
    shrink() that may be another than the launcher knows."""
    root = os.environ.get("ECHELON_ROOT")
    if root and os.environ.get("ECHELON_RANK") == "0":
        return root.rpartition(":")[0].strip("[]")
    if world.cross_size() == 1:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # for documentation; sends nothing
        return str(probe.getsockname()[0])


def _store_of_launcher(url: str, timeout: timedelta = dist.default_pg_timeout,
                       **_: Any) -> Iterator[Tuple[Any, int, int]]:
    """For init_method="echelon://". Where there are torchrun's variables, they are used; else the
    ranks find each other as echelon.init() does, or have done so, and rank 0 tells the others where
    its store is."""
    if not is_initialized() and "MASTER_ADDR" in os.environ and "RANK" in os.environ:
        yield from dist.rendezvous("env://", timeout=timeout)
        return
    init()
    world = global_process_set
    where: List[Any] = []
    if world.rank() == 0:
        address = _own_address(world)
        store = dist.TCPStore(address, 0, world.size(), True, timeout, wait_for_workers=False)
        where = [address, store.port]
    where = broadcast_object(where)
    if world.rank() != 0:
        store = dist.TCPStore(*where, world.size(), False, timeout, wait_for_workers=False)
    yield store, world.rank(), world.size()
    raise RuntimeError("the ranks of echelon:// cannot be found a second time")


def register() -> None:
    dist.register_rendezvous_handler("echelon", _store_of_launcher)
