# SPDX-License-Identifier: Apache-2.0
"""mpi4py as it is: arrays and objects, blocking and not. Where it is missing the test is skipped, by
the exit code that Meson knows."""
import ctypes
import sys

try:
    import numpy
    from mpi4py import MPI
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-mpi4py and python3-numpy)")
    sys.exit(77)

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
served = ctypes.CDLL(None).echelon_mpi_served
served.restype = ctypes.c_uint64

total = numpy.empty(1000)
comm.Allreduce(numpy.arange(1000.0) * (rank + 1), total)
assert (total == numpy.arange(1000) * size * (size + 1) / 2).all()
assert comm.allreduce(rank) == size * (size - 1) // 2
assert comm.bcast({"from": rank}, root=size - 1) == {"from": size - 1}
assert comm.allgather(rank) == list(range(size))
later = numpy.empty(10, dtype="i")
request = comm.Iallreduce(numpy.full(10, rank, dtype="i"), later, op=MPI.MAX)
request.Wait()
assert (later == size - 1).all()
part = comm.Split(rank % 2)
part.Barrier()
part.Free()
comm.Barrier()
for name in (b"MPI_Allreduce", b"MPI_Iallreduce", b"MPI_Bcast", b"MPI_Barrier"):
    assert served(name) > 0, name
