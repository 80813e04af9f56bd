// weir-mpi.so: what one process has to say, told to all by MPI, and no more. Tensors do
// not move by it; it brings processes together that MPI's launcher has started, where
// nobody has said how else (runtime/processes/meeting.c).
//
// MPI is up only for that moment. It ends a process by itself where it cannot start,
// and its launcher then ends the others.
#include <mpi.h>
#include <poll.h>

#include "common/clock.h"
#include "device/plugin.h"

static bool knows_us(uint32_t rank, uint32_t ranks, struct error *error)
{
    int own = 0, count = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if ((uint32_t)own == rank && (uint32_t)count == ranks)
        return true;
    return error_set_kind(error, ERROR_MACHINE, "the MPI of weir-mpi.so takes rank %u of %u for rank %d of %d: it is not"
                          " the MPI whose launcher has started it; start it by that one's, or set MASTER_ADDR", rank,
                          ranks, own, count);
}

static bool spread(void *data, uint64_t bytes, uint64_t deadline_ns, struct error *error)
{
    MPI_Request request;
    int is_done = 0;
    bool good = MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request) == MPI_SUCCESS;
    while (good && !is_done && clock_now_ns() < deadline_ns) {
        good = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS;
        poll(NULL, 0, is_done ? 0 : 1);
    }
    return (good && is_done)
        || error_set_kind(error, ERROR_MACHINE, good ? "MPI did not tell all ranks in time where rank 0 is"
                                                     : "MPI could not tell all ranks where rank 0 is");
}

static bool tell(uint32_t rank, uint32_t ranks, void *data, uint64_t bytes, uint64_t deadline_ns, struct error *error)
{
    int was_up = 0;
    if (MPI_Initialized(&was_up) != MPI_SUCCESS || (!was_up && MPI_Init(NULL, NULL) != MPI_SUCCESS))
        return error_set_kind(error, ERROR_MACHINE, "MPI does not start");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const bool good = knows_us(rank, ranks, error) && spread(data, bytes, deadline_ns, error);
    if (good && !was_up)
        MPI_Finalize();  // all ranks come to it; after a failure some may not
    return good;
}

static const struct process_functions processes = { .tell = tell };

static const struct plugin plugin = {
    .version = WEIR_VERSION,
    .boundary = WEIR_BOUNDARY,
    .processes = &processes,
};

const struct plugin *weir_mpi_plugin(void);

const struct plugin *weir_mpi_plugin(void)
{
    return &plugin;
}
