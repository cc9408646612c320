! SPDX-License-Identifier: Apache-2.0
! A Fortran program, through MPI_MODULE: mpi or mpi_f08.
program main
  use MPI_MODULE
  use iso_c_binding, only: c_char, c_int64_t, c_null_char
  implicit none
  interface
    function served(name) bind(C) ! of rank.c
      import :: c_char, c_int64_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t) :: served
    end function
  end interface
  integer :: error, rank, ranks, sum, most, all(64)
  double precision :: parts(3), total(3)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  sum = rank + 1
  call MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  parts = [1d0, 2d0, 3d0] * rank
  call MPI_Reduce(parts, total, 3, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, error)
  call MPI_Allgather(rank, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
  most = rank
  call MPI_Bcast(most, 1, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, error)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  if (error /= MPI_SUCCESS .or. sum /= ranks * (ranks + 1) / 2) error stop 1
  if (rank == 0) then
    if (any(total /= [1d0, 2d0, 3d0] * (ranks - 1))) error stop 2
  end if
  if (all(ranks) /= ranks - 1 .or. most /= ranks - 1) error stop 3
  if (served(c_char_"MPI_Allreduce" // c_null_char) /= 1) error stop 4
  if (served(c_char_"MPI_Bcast" // c_null_char) /= 1) error stop 5
  call MPI_Finalize(error)
end program
