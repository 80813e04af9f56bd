// Private to weir-mpi.so: communicators between processes of several machines (device/communicator.h), for devices
// whose memory is the host's and whose queues run ahead of it. They promise what NCCL promises, and no more.
//
// Each communicator has a tag of MPI's for itself, so that messages of one are never taken for another's. Its name says
// which tag, and which process made it; that one tells the ends, when all have come, who they are:
//
//     maker      <- hello, I am end 2       from whoever comes, with this tag
//                -> process 0, 3, 1 ..      to all, when all have come; then messages
//
// MPI knows no way to end what is under way: an abort ends all communicators of the process, and leaves MPI behind.
#ifndef RUNTIME_MPI_MESSAGES_H
#define RUNTIME_MPI_MESSAGES_H

#include "device/maker.h"

extern const struct communicator_functions mpi_communicators;

#endif
