# SPDX-License-Identifier: Apache-2.0
"""Echelon and its peers on the same shape, collective and sizes, in turns. A shape is a number of ranks
on this host ("2"), a virtual cluster ("4x2:1gbit"), or one whose ranks are dealt out over the hosts
("4x2:1gbit, ranks by host"). Every run gives rows as `echelon perf --format json` writes them."""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

BUILD = "build/bench"
ECHELON = "build/echelon"
KIB, MIB = 1 << 10, 1 << 20
UNITS = {"": 1, "K": KIB, "M": MIB}
BY_HOST = ", ranks by host"
LONGEST = 3600  # s for one run, where nothing else is said
ENDING = 60  # s in which a run that is told to end does so
UCX = "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any"
OB1 = "--mca pml ob1 --mca btl tcp,vader,self"


class Limit:
    """How long one run may last."""
    seconds = LONGEST


class TooSlow(Exception):
    """A run that lasted longer."""


class Stolen:
    """What the hypervisor has given to others since this was made ("steal" in /proc/stat), in percent of the processor
    time that was wanted here. Where it is more than a few, small operations say nothing: a rank that has lost its
    processor keeps all the others waiting for milliseconds."""

    TITLE = "Stolen by the hypervisor, percent of the processor time that was wanted"

    def __init__(self):
        self.before = self.so_far()

    @staticmethod
    def so_far():
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
        return user + nice + system + irq + softirq + steal, steal

    def percent(self):
        wanted, stolen = (now - before for now, before in zip(self.so_far(), self.before))
        return 100 * stolen / max(wanted, 1)

    def text(self):
        return f"{self.TITLE}: {self.percent():.0f}"


def rows_of(command, environment=None):
    """The rows that a command prints. Its failure ends this program."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **(environment or {})})
    try:
        out, err = process.communicate(timeout=Limit.seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # not killed: launchers end their ranks
        process.communicate(timeout=ENDING)
        raise TooSlow(f"{' '.join(command)}: longer than {Limit.seconds} s") from None
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}\n{out}{err}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def is_cluster(shape):
    return "x" in shape or "+" in shape


def ranks_of(shape):
    if "+" in shape:
        return sum(map(int, shape.split(":")[0].split("+")))
    return math.prod(map(int, shape.removesuffix(BY_HOST).split(":")[0].split("x")))


def places(shape):
    """Options of `echelon run` for a shape."""
    if not is_cluster(shape):
        return ["-n", shape]
    by_host = ["--map-by", "host"] if shape.endswith(BY_HOST) else []
    return ["--emulate", shape.removesuffix(BY_HOST), *by_host]


def run(shape, traffic, *what):
    count = [f"--traffic={traffic}"] if traffic else []
    return [ECHELON, "run", "--no-tag", *places(shape), *count, *what]


# Each of these: (shape, collective, sizes, operations, traffic) -> rows. With `operations` that many
# calls are made and nothing else; `traffic` is a file for the bytes on the wires.


def echelon(shape, collective, sizes, operations=None, traffic=None):
    fixed = ["-n", str(operations), "-w", "0", "-c", "0", "--time-limit", "0",
             "--sample-time", "0"] if operations else []
    # MPI_Bcast has one buffer: the root copies nothing from its input to its output.
    placement = "in" if collective == "broadcast" else "out"
    return [row for size in sizes
            for row in rows_of(run(shape, traffic, "--", ECHELON, "perf", "-C", collective, "-O", placement,
                                   "-b", str(size), "-e", str(size), "--format", "json", *fixed))]


def arguments(collective, sizes, operations):
    return [collective, *(["-n", str(operations)] if operations else []), *map(str, sizes)]


def open_mpi(settings):
    def measure(shape, collective, sizes, operations=None, traffic=None):
        program = [f"{BUILD}/mpi_collectives", *arguments(collective, sizes, operations)]
        if not is_cluster(shape):
            crowded = int(shape) > (os.cpu_count() or 1)
            giving_way = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if crowded else []
            return rows_of(["mpirun", "--allow-run-as-root", "-n", shape, *giving_way, *settings.split(), *program])
        mapping = "--map-by node" if shape.endswith(BY_HOST) else ""
        return rows_of(run(shape.removesuffix(BY_HOST), traffic, "--shell", (
            "mpirun --allow-run-as-root --mca plm_rsh_agent $ECHELON_RSH -H $ECHELON_HOSTS --bind-to none "
            "--mca mpi_yield_when_idle 1 "
            f"{mapping} {settings} {' '.join(program)}")))
    return measure


def mpich(shape, collective, sizes, operations=None, traffic=None):
    program = [f"{BUILD}/mpich_collectives", *arguments(collective, sizes, operations)]
    if not is_cluster(shape):
        return rows_of(["mpiexec.mpich", "-n", shape, *program])
    # One rank of each host after the other, or a host's ranks one after the other.
    mapping = "-ppn 1" if shape.endswith(BY_HOST) else ""
    return rows_of(run(shape.removesuffix(BY_HOST), traffic, "--shell", (
        "mpiexec.mpich -launcher rsh -launcher-exec $ECHELON_RSH -hosts $ECHELON_HOSTS "
        f"-n {ranks_of(shape)} {mapping} {' '.join(program)}")))


def gloo(algorithm):
    def measure(shape, collective, sizes, operations=None, traffic=None):
        if algorithm:
            collective = f"{collective}_{algorithm}"
        with tempfile.TemporaryDirectory() as store:
            interface = "eth0" if is_cluster(shape) else "lo"
            return rows_of(run(shape, traffic, "--", f"{BUILD}/gloo_collectives",
                               *arguments(collective, sizes, operations)),
                           {"GLOO_STORE": store, "GLOO_INTERFACE": interface})
    return measure


def peers(shape, collective):
    """name -> run, of those that are built here, in the configurations that are known to be best for some size."""
    found = {}
    if os.path.exists(f"{BUILD}/mpi_collectives"):
        found["Open MPI tuned, ob1"] = open_mpi(OB1)
        found["Open MPI tuned, ucx"] = open_mpi(UCX)
        if is_cluster(shape):
            found["Open MPI han, ob1"] = open_mpi(f"{OB1} --mca coll_han_priority 100")
            found["Open MPI han, ucx"] = open_mpi(f"{UCX} --mca coll_han_priority 100")
        else:
            found["Open MPI sm"] = open_mpi(f"{OB1} --mca coll_sm_priority 100")
    if os.path.exists(f"{BUILD}/mpich_collectives"):
        found["MPICH"] = mpich
    if os.path.exists(f"{BUILD}/gloo_collectives"):
        for algorithm in ("ring", "bcube") if collective == "allreduce" else ("",):
            found[f"Gloo {algorithm}".strip()] = gloo(algorithm)
    return found


def in_turns(candidates, rounds):
    """candidates: name -> function without arguments that gives rows. name -> size -> rows, one per round.
    Who is once too slow has no rows."""
    seen = {name: {} for name in candidates}
    for _ in range(rounds):
        for name in list(seen):
            try:
                rows = candidates[name]()
            except TooSlow:
                del seen[name]
                continue
            for row in rows:
                seen[name].setdefault(row["bytes"], []).append(row)
    return seen


def times(rows):
    return [row["time_us"] for row in rows]


def median_of(rows, key="time_us"):
    return statistics.median(row[key] for row in rows)


def spread(values):
    return f"{statistics.median(values):.4g} ({min(values):.4g}–{max(values):.4g})"


def sizes_of(text):
    """Bytes of "4,64K,16M", for argparse."""
    sizes = []
    for word in text.split(","):
        match = re.fullmatch(r"(\d+)([KM]?)", word)
        if not match or int(match[1]) == 0:
            raise argparse.ArgumentTypeError(f'"{word}" is no size; expected such as 4, 64K, 16M')
        sizes.append(int(match[1]) * UNITS[match[2]])
    return sizes


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"
