// weir-mpi.so. It brings processes together that MPI's launcher has started, unless another way was given
// (runtime/groups/processes/joining.c). It also carries messages between the CPUs of several machines
// (device/communicator.h).
#include "device/plugin.h"
#include "runtime/transport/mpi/messages.h"
#include "runtime/transport/mpi/telling.h"

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
