// Private to weir-mpi.so: broadcasts from one process to all.
#ifndef RUNTIME_TRANSPORT_MPI_TELLING_H
#define RUNTIME_TRANSPORT_MPI_TELLING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

// As plugin.h defines it.
bool mpi_tell(uint32_t rank, uint32_t ranks, void *data, uint64_t bytes, uint64_t deadline_ns, struct error *error);

#endif
