#include "runtime/transport/mpi/telling.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "runtime/transport/mpi/mpi_thread.h"

struct telling {
    struct errand errand;
    MPI_Request request;
    uint32_t rank, ranks;
    uint64_t bytes;
    unsigned char data[];
};

static bool is_late(uint32_t rank, uint32_t ranks, const char *call, uint64_t limit_ns, struct error *error)
{
    return error_set_kind(error, ERROR_MACHINE, "rank %u of %u: %s has not come to an end within %llu s: it waits for "
                          "all ranks, and MPI does not say which of them has not come. Look for one that was stopped; "
                          "with MASTER_ADDR (the machine of rank 0) ranks meet without MPI and name who is missing",
                          rank, ranks, call, (unsigned long long)((limit_ns + 500000000) / 1000000000));
}

static bool knows_us(struct telling *telling)
{
    if ((uint32_t)mpi_thread_world.rank == telling->rank && (uint32_t)mpi_thread_world.ranks == telling->ranks)
        return true;
    return error_set_kind(&telling->errand.error, ERROR_MACHINE, "the MPI of weir-mpi.so takes rank %u of %u for rank "
                          "%d of %d: it is not the MPI whose launcher has started it; start it by that one's, or set "
                          "MASTER_ADDR, if messages do not need MPI", telling->rank, telling->ranks,
                          mpi_thread_world.rank, mpi_thread_world.ranks);
}

static enum errand_state go_telling(struct errand *errand)
{
    struct telling *telling = (struct telling *)errand;
    int code = MPI_SUCCESS, is_done = 0;
    if (telling->request == MPI_REQUEST_NULL) {
        errand->call = "MPI_Ibcast";
        if (!knows_us(telling))
            return ERRAND_OVER;
        code = MPI_Ibcast(telling->data, (int)telling->bytes, MPI_BYTE, 0, mpi_thread_world.all, &telling->request);
    }
    if (code == MPI_SUCCESS)
        code = MPI_Test(&telling->request, &is_done, MPI_STATUS_IGNORE);
    if (!mpi_error(code, "MPI could not tell all ranks where rank 0 is", &errand->error))
        return ERRAND_OVER;
    return is_done ? ERRAND_OVER : ERRAND_WAITS;
}

bool mpi_tell(uint32_t rank, uint32_t ranks, void *data, uint64_t bytes, uint64_t deadline_ns, struct error *error)
{
    const uint64_t start_ns = clock_now_ns();
    struct telling *telling = calloc(1, sizeof *telling + bytes);
    if (!telling)
        return error_no_memory(error, "what MPI is to tell");
    telling->errand.go = go_telling;
    telling->errand.call = "MPI_Init";
    telling->request = MPI_REQUEST_NULL;
    telling->rank = rank;
    telling->ranks = ranks;
    telling->bytes = bytes;
    if (bytes > 0)
        memcpy(telling->data, data, bytes);
    if (!mpi_thread_give(&telling->errand, error)) {
        free(telling);
        return false;
    }
    const char *call;
    if (!mpi_thread_await(&telling->errand, deadline_ns, &call))
        return is_late(rank, ranks, call, deadline_ns > start_ns ? deadline_ns - start_ns : 0, error);
    const struct error reason = telling->errand.error;
    if (bytes > 0)
        memcpy(data, telling->data, bytes);
    free(telling);
    return reason.kind == ERROR_NONE || error_hand_on(error, &reason);
}
