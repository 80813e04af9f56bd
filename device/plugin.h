// Parts of Weir that live in shared objects of their own, since they need libraries
// that few machines have: found and opened when somebody asks for them.
//
//     libweir, weir                     weir-cuda.so, weir-mpi.so
//     device_open("cuda:1")  ------->   weir_cuda_plugin(), all that it exports
//         |                                 |
//         +-- calls through tables <--------+   struct plugin
//
// A plug-in has its own, hidden copy of the code it shares with the library; what
// crosses between them are the structs of a few headers. It must therefore come from
// the same build: the same version, and the same text of those headers, by a hash
// that the build computes (BOUNDARY in SConstruct).
#ifndef DEVICE_PLUGIN_H
#define DEVICE_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct communicator_functions;
struct device_functions;

// Of a launcher's processes.
struct process_functions {
    // Tells all of them what the first has in `data`; all call it, and wait for each other, until the deadline
    // (clock_now_ns). False also where this process is not known as that one of so many.
    bool (*tell)(uint32_t rank, uint32_t ranks, void *data, uint64_t bytes, uint64_t deadline_ns, struct error *error);
};

struct plugin {
    const char *version;   // WEIR_VERSION, and
    const char *boundary;  // the hash, at these places in every version
    const struct device_functions *device;        // of weir-cuda.so
    const struct process_functions *processes;    // of weir-mpi.so
    // Of weir-mpi.so, between processes that have been told something; for devices whose memory is the host's.
    const struct communicator_functions *communicators;
};

// Opens weir-NAME.so. It is looked for in the folder $WEIR_PLUGINS if that is set, else in weir/, ./, ../lib/weir/ and
// ../lib/ of the folders that hold this library and the running program. Stays open until the process ends. NULL with
// a sentence that says what to install where it is missing, cannot be opened, or is of another build.
const struct plugin *plugin_open(const char *name, struct error *error);

// weir-mpi.so, which is of one MPI; where weir-mpi-openmpi.so or weir-mpi-mpich.so is there, too, and that one's
// launcher has started this process, that.
const struct plugin *plugin_open_mpi(struct error *error);

#endif
