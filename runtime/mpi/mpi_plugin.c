// weir-mpi.so: brings processes together that MPI's launcher has started, where nobody has said how else
// (runtime/processes/meeting.c), and carries messages between the CPUs of several machines (device/communicator.h).
#include "device/plugin.h"
#include "runtime/mpi/messages.h"
#include "runtime/mpi/telling.h"

static const struct process_functions processes = { .tell = mpi_tell };

static const struct plugin plugin = {
    .version = WEIR_VERSION,
    .boundary = WEIR_BOUNDARY,
    .processes = &processes,
    .communicators = &mpi_communicators,
};

const struct plugin *weir_mpi_plugin(void);

const struct plugin *weir_mpi_plugin(void)
{
    return &plugin;
}
