# SPDX-License-Identifier: Apache-2.0
"""send and recv, which the library does not have, through PyTorch's store: right and in order, but
at the store's speed. What was sent lies there, in pieces that it takes, until it is received."""
from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch._C._distributed_c10d import Work as _Work

from .._errors import MismatchError, UnsupportedError
from ._meeting import await_any
from ._work import seconds_of

_PIECE = 4 << 20  # The store takes 8 MiB at most.


def _bytes_of(tensor: torch.Tensor) -> bytes:
    host = tensor.detach().cpu().contiguous()
    return host.view(-1).view(torch.uint8).numpy().tobytes() if host.numel() else b""


def _put_back(tensor: torch.Tensor, data: bytes) -> None:
    if len(data) != tensor.numel() * tensor.element_size():
        raise MismatchError(f"recv: {len(data)} bytes came for a tensor of "
                            f"{tensor.numel() * tensor.element_size()}")
    if data:
        read = torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
        with torch.no_grad():
            tensor.copy_(read.view(tensor.dtype).view(tensor.shape))


class Sent(_Work):
    """What is in the store has been sent."""

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def get_future(self) -> Any:
        future: torch.futures.Future[List[torch.Tensor]] = torch.futures.Future()
        future.set_result([])
        return future

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> List[torch.Tensor]:
        return []


class Mailbox:
    """The messages of one rank. Those of one sender and one tag are received in their order."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float) -> None:
        self._store, self._rank, self._size, self.timeout = store, rank, size, timeout
        self._sent: "Counter[Tuple[int, int]]" = Counter()
        self._received: "Counter[Tuple[int, int]]" = Counter()
        self._lock = threading.Lock()

    def send(self, tensor: torch.Tensor, to: int, tag: int) -> Sent:
        data = _bytes_of(tensor)
        with self._lock:
            number = self._sent[to, tag]
            self._sent[to, tag] += 1
        name = self._name(self._rank, to, tag, number)
        pieces = range(0, len(data), _PIECE)
        for k, start in enumerate(pieces):
            self._store.set(f"{name}/{k}", data[start:start + _PIECE])
        self._store.set(name, str(len(pieces)))
        return Sent()

    def recv(self, tensor: torch.Tensor, source: Optional[int], tag: int) -> Received:
        return Received(self, tensor, source, tag)

    def expect(self, source: Optional[int], tag: int) -> Dict[str, int]:
        """The keys of the messages that may be next, and whose they are. From one known sender the
        next receive gets the one after."""
        with self._lock:
            sources = range(self._size) if source is None else [source]
            keys = {self._name(s, self._rank, tag, self._received[s, tag]): s for s in sources}
            if source is not None:
                self._received[source, tag] += 1
            return keys

    def there(self, keys: Dict[str, int]) -> bool:
        return any(self._store.check([key]) for key in keys)

    def await_one(self, keys: Dict[str, int], timeout: Optional[float]) -> str:
        senders = "any rank" if len(keys) > 1 else f"rank {next(iter(keys.values()))}"
        return await_any(self._store, list(keys), timeout or self.timeout,
                         f"recv: nothing came from {senders}")

    def take(self, key: str) -> bytes:
        names = [f"{key}/{k}" for k in range(int(self._store.get(key)))]
        data = b"".join(self._store.get(name) for name in names)
        for name in [*names, key]:
            self._store.delete_key(name)
        return data

    def count(self, source: int, tag: int) -> None:
        with self._lock:
            self._received[source, tag] += 1

    @staticmethod
    def _name(source: int, to: int, tag: int, number: int) -> str:
        return f"echelon/from/{source}/to/{to}/{tag}/{number}"


class Received(_Work):
    """Comes when it is waited for. One from any rank takes what is there first, in that moment."""

    def __init__(self, mailbox: Mailbox, tensor: torch.Tensor, source: Optional[int],
                 tag: int) -> None:
        super().__init__()
        self._mailbox, self._tensor, self._any, self._tag = mailbox, tensor, source is None, tag
        self._keys = mailbox.expect(source, tag)
        self._source = source
        self._done = False

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        if self._done:
            return True
        if self._any:
            self._keys = self._mailbox.expect(None, self._tag)
        key = self._mailbox.await_one(self._keys, seconds_of(timeout))
        self._source = self._keys[key]
        if self._any:
            self._mailbox.count(self._source, self._tag)
        self._done = True
        _put_back(self._tensor, self._mailbox.take(key))
        return True

    def is_completed(self) -> bool:
        return self._done or self._mailbox.there(self._keys)

    def is_success(self) -> bool:
        return self._done

    def exception(self) -> None:
        return None

    def get_future(self) -> Any:
        raise UnsupportedError("a receive has no future: call wait()")

    def result(self) -> Sequence[torch.Tensor]:
        self.wait()
        return [self._tensor]

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        if self._source is None:
            raise UnsupportedError("the sender is known after wait()")
        return self._source

    _source_rank = source_rank
