// Private to weir-mpi.so: what one process has to say, told to all.
#ifndef RUNTIME_MPI_TELLING_H
#define RUNTIME_MPI_TELLING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

// With the meaning of plugin.h.
bool mpi_tell(uint32_t rank, uint32_t ranks, void *data, uint64_t bytes, uint64_t deadline_ns, struct error *error);

#endif
