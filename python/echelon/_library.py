# SPDX-License-Identifier: Apache-2.0
"""libechelon.so.0 through ctypes, which gives the interpreter's lock away during every call."""
from __future__ import annotations

import ctypes
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_void_p
from typing import Any, Dict, List, Tuple

from ._errors import error_of

_FILE = "libechelon.so.0"
UNIQUE_ID_BYTES = 128


class CommOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("unique_id", c_void_p),
        ("allgather", c_void_p),
        ("allgather_context", c_void_p),
        ("bootstrap", c_char_p),
        ("rank", c_int),
        ("size", c_int),
        ("interface_name", c_char_p),
        ("fabric_file", c_char_p),
        ("algorithm", c_char_p),
        ("timeout", c_double),
        ("probe", c_int),
        ("log", c_void_p),
        ("log_context", c_void_p),
        ("log_level", c_int),
    ]


class Call(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("timeout", c_double),
        ("memory", c_int),
        ("stream", c_void_p),
        ("name", c_char_p),
    ]


class Question(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("collective", c_int),
        ("op", c_int),
        ("dtype", c_int),
        ("count", c_size_t),
        ("memory", c_int),
    ]


_START = [POINTER(Call), POINTER(c_void_p)]
_OUT = POINTER(c_void_p)
_NUMBER = [c_void_p, POINTER(c_int)]

# Functions that return a status, and what they take.
_PROTOTYPES: Dict[str, List[Any]] = {
    "ech_get_unique_id": [c_char_p, c_char_p],
    "ech_comm_create": [_OUT, POINTER(CommOptions)],
    "ech_comm_split": [c_void_p, c_int, c_int, _OUT],
    "ech_comm_shrink": [c_void_p, _OUT],
    "ech_comm_destroy": [c_void_p],
    "ech_comm_abort": [c_void_p],
    "ech_comm_status": [c_void_p],
    "ech_comm_rank": _NUMBER,
    "ech_comm_size": _NUMBER,
    "ech_comm_local_rank": _NUMBER,
    "ech_comm_local_size": _NUMBER,
    "ech_comm_host_index": _NUMBER,
    "ech_comm_host_count": _NUMBER,
    "ech_iallreduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, *_START],
    "ech_iallreduce_many": [_OUT, _OUT, POINTER(c_size_t), c_size_t, c_int, c_int, c_double,
                            c_double, c_void_p, *_START],
    "ech_ireduce_scatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, *_START],
    "ech_iallgather": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, *_START],
    "ech_ibroadcast": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, *_START],
    "ech_ireduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, *_START],
    "ech_ibarrier": [c_void_p, *_START],
    "ech_test": [c_void_p, POINTER(c_int)],
    "ech_wait": [_OUT],
    "ech_comm_fabric": [c_void_p, c_int, _OUT],
    "ech_comm_explain": [c_void_p, POINTER(Question), c_int, _OUT],
}


def _load() -> ctypes.CDLL:
    inside = pathlib.Path(__file__).with_name(_FILE)
    try:
        library = ctypes.CDLL(str(inside) if inside.exists() else _FILE)
    except OSError as error:
        raise ImportError(
            f"{_FILE} cannot be loaded: {error}; an installed package has it inside, another one "
            "is looked for as the system does (LD_LIBRARY_PATH, ldconfig)"
        ) from error
    for name, arguments in _PROTOTYPES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int
    library.ech_last_error.argtypes, library.ech_last_error.restype = [], c_char_p
    library.ech_version.argtypes, library.ech_version.restype = [POINTER(c_int)] * 3, None
    library.ech_text_free.argtypes, library.ech_text_free.restype = [c_void_p], None
    return library


_library = _load()


def call(name: str, *arguments: Any) -> None:
    """Calls a function of the library; raises what it returns. Name it without "ech_"."""
    status: int = getattr(_library, "ech_" + name)(*arguments)
    if status != 0:
        raise error_of(status, _library.ech_last_error().decode(errors="replace"))


def test(request: c_void_p) -> bool:
    """Whether a request has ended, however."""
    done = c_int(0)
    _library.ech_test(request, ctypes.byref(done))
    return done.value != 0


def number(name: str, comm: c_void_p) -> int:
    value = c_int(0)
    call(name, comm, ctypes.byref(value))
    return value.value


def text(name: str, *arguments: Any) -> str:
    """The text that a function of the library makes."""
    made = c_void_p()
    call(name, *arguments, ctypes.byref(made))
    try:
        return ctypes.string_at(made.value or 0).decode()
    finally:
        _library.ech_text_free(made)


def version() -> Tuple[int, int, int]:
    numbers = c_int(0), c_int(0), c_int(0)
    _library.ech_version(*map(ctypes.byref, numbers))
    return numbers[0].value, numbers[1].value, numbers[2].value
