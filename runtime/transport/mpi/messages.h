// Private to weir-mpi.so: communicators between processes of several machines (device/communicator.h). They are for
// devices whose memory is the host's and whose queues run ahead of it. They guarantee what NCCL guarantees, and no
// more.
//
// Each communicator has an MPI tag of its own, so that its messages are never taken for another's. Its name says
// which tag, and which process made it (the maker). When all ends have come, the maker tells them which processes
// they are:
//
//     maker      <- hello, I am end 2       from each process that comes, with this tag
//                -> process 0, 3, 1 ..      to all, when all have come; then messages
//
// MPI has no way to end what is under way. So an abort ends all communicators of the process, and leaves MPI as it
// is.
#ifndef RUNTIME_TRANSPORT_MPI_MESSAGES_H
#define RUNTIME_TRANSPORT_MPI_MESSAGES_H

#include "device/maker.h"

extern const struct communicator_functions mpi_communicators;

#endif
