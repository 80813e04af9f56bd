// Plug-ins: parts of Weir in shared objects of their own, since they need libraries that few machines have. A plug-in
// is found and opened when it is first asked for.
//
//     libweir, weir                     weir-cuda.so, weir-mpi.so
//     device_open("cuda:1")  ------->   weir_cuda_plugin(), all that it exports
//         |                                 |
//         +-- calls through tables <--------+   struct plugin
//
// A plug-in has its own, hidden copy of the code that it shares with the library. Only the structs of a few headers
// pass between the two. Both must therefore come from the same build: the same version, and the same text of those
// headers, by a hash that the build computes (BOUNDARY in SConstruct).
#ifndef DEVICE_PLUGIN_H
#define DEVICE_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct communicator_functions;
struct device_functions;

// Functions between the processes that a launcher has started.
struct process_functions {
    // Broadcast: gives all processes what the first one has in `data`. All call it, and wait for each other until the
    // deadline (by clock_now_ns()). Also false if the launcher does not know this process as rank `rank` of `ranks`.
    bool (*tell)(uint32_t rank, uint32_t ranks, void *data, uint64_t bytes, uint64_t deadline_ns, struct error *error);
};

struct plugin {
    const char *version;   // WEIR_VERSION
    const char *boundary;  // the hash; these two fields come first in every version
    const struct device_functions *device;        // of weir-cuda.so
    const struct process_functions *processes;    // of weir-mpi.so
    // From weir-mpi.so. They connect processes that a broadcast has reached, for devices whose memory is the host's.
    const struct communicator_functions *communicators;
};

// Opens weir-NAME.so. If $WEIR_PLUGINS is set, it is looked for in that folder. Otherwise it is looked for in weir/,
// ./, ../lib/weir/ and ../lib/ of the folders that hold this library and the running program. It stays open until the
// process ends. If it is missing, cannot be opened, or is of another build: NULL with a sentence that says what to
// install.
const struct plugin *plugin_open(const char *name, struct error *error);

// Opens weir-mpi.so, which is for one MPI. If weir-mpi-openmpi.so or weir-mpi-mpich.so is there too, and the launcher
// of that MPI started this process, opens that one instead.
const struct plugin *plugin_open_mpi(struct error *error);

#endif
