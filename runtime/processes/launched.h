// Which of the processes that were started together this one is, as the launcher
// that started it has left it in the environment:
//
//     torchrun    RANK  WORLD_SIZE  LOCAL_RANK  MASTER_ADDR  MASTER_PORT
//     mpirun      OMPI_COMM_WORLD_RANK ..  (Open MPI), PMI_RANK PMI_SIZE MPI_LOCALRANKID (MPICH)
//     srun        SLURM_PROCID  SLURM_NTASKS  SLURM_LOCALID, rank 0 on the first node of SLURM_STEP_NODELIST
//
// The first that speaks is taken whole; WEIR_RANK and the like, before all of them,
// serve launchers of one's own. Where rank 0 can be met is MASTER_ADDR and MASTER_PORT
// whoever has started us (the port behind it where torchrun has taken that one), or
// NCCL_COMM_ID, "machine:port", or a file that WEIR_RENDEZVOUS names, in which rank 0
// says where it listens (on a file system that all of them see). Where mpirun has
// started us and none of these is set, MPI itself tells, if weir-mpi.so is installed.
//
// Rank 0 listens to its own machine alone, unless the launcher says that ranks are on several: by their number on this
// machine, by Slurm's list, or by an address of rank 0 that is not 127.0.0.1 where the number is not said. By a secret
// ranks tell each other from strangers: WEIR_SECRET, the same for all; else rank 0 makes one, and tells it by the file,
// which nobody else can read, or by MPI. Ranks that meet at an address need WEIR_SECRET where they are on several
// machines, and share a file of their own in /tmp where they are on one.
//
// WEIR_START_WITHIN ("20s", "1800s") is how long ranks wait at the start for each other to come.
#ifndef RUNTIME_PROCESSES_LAUNCHED_H
#define RUNTIME_PROCESSES_LAUNCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum { LAUNCH_PLACE_SIZE = 256, LAUNCH_USUAL_PORT = 29400, LAUNCH_LEAST_SECRET = 16 };

struct launch {
    const char *by;  // "torchrun", "Open MPI", "MPICH", "Slurm", "WEIR_RANK"; NULL: nobody, one process alone
    uint32_t rank, ranks;
    uint32_t local_rank, local_ranks;     // on this machine
    bool is_spread;                       // over several machines: else rank 0 listens to its own alone
    char address[LAUNCH_PLACE_SIZE];      // of rank 0; "": it takes any port, and `file` or MPI says which
    uint16_t port;
    char file[LAUNCH_PLACE_SIZE];         // rank 0 writes where it listens, and the secret, into it; "": none
    char secret[LAUNCH_PLACE_SIZE];       // WEIR_SECRET; "": rank 0 makes one
    bool is_open;                         // nobody says where: MPI may tell, else it is `address`, if that is known
    uint64_t start_within_ns;             // in which all ranks have to come; 0: nobody says
};

// getenv() or a test's own.
typedef const char *launch_lookup(void *self, const char *name);

// Refuses what contradicts itself: a rank past the end, a count without a rank.
bool launch_read(struct launch *launch, launch_lookup *lookup, void *self, struct error *error);

// The same from the environment of this process.
bool launch_from_environment(struct launch *launch, struct error *error);

// Where nobody says where rank 0 is. Returns false.
bool launch_has_no_place(const struct launch *launch, struct error *error);

#endif
