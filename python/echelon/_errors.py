# SPDX-License-Identifier: Apache-2.0
"""Exceptions, one for every status below zero. docs/errors.md says what each means."""
from __future__ import annotations

import builtins
from typing import Dict, Type


class EchelonError(RuntimeError):
    """A call failed. The text is the library's own; `status` is its ech_status."""

    status = -41


class InvalidError(EchelonError, ValueError):
    """The caller broke the contract. The call had no effect."""

    status = -1


class UnsupportedError(EchelonError):
    """Valid, but not on this machine or in this build. The call had no effect."""

    status = -2


class NoMemoryError(EchelonError, MemoryError):
    """Memory, descriptors or another resource ran out."""

    status = -3


class MismatchError(EchelonError):
    """The ranks called different things."""

    status = -20


class RankLostError(EchelonError):
    """What ranks have in common when one of them is lost: PeerError, TimeoutError or AbortedError.
    shrink() goes on with those that are left."""


class TimeoutError(RankLostError, builtins.TimeoutError):
    """The deadline passed."""

    status = -21


class PeerError(RankLostError):
    """Another rank died or left."""

    status = -22


class AbortedError(RankLostError):
    """The communicator was aborted, here or on another rank."""

    status = -23


class AuthError(EchelonError):
    """The other side does not know the job's secret."""

    status = -24


class SystemCallError(EchelonError):
    """A call of the operating system or of a driver failed."""

    status = -40


class InternalError(EchelonError):
    """A bug in Echelon."""

    status = -41


_BY_STATUS: Dict[int, Type[EchelonError]] = {
    kind.status: kind
    for kind in (
        InvalidError,
        UnsupportedError,
        NoMemoryError,
        MismatchError,
        TimeoutError,
        PeerError,
        AbortedError,
        AuthError,
        SystemCallError,
        InternalError,
    )
}


def error_of(status: int, text: str) -> EchelonError:
    """The exception for a status of the library."""
    kind = _BY_STATUS.get(status)
    if kind is None:
        return InternalError(f"unknown status {status}: {text}")
    return kind(text)
