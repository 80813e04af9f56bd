// Which of the processes that were started together this one is, as the launcher
// that started it has left it in the environment:
//
//     torchrun    RANK  WORLD_SIZE  LOCAL_RANK  MASTER_ADDR  MASTER_PORT
//     mpirun      OMPI_COMM_WORLD_RANK ..  (Open MPI), PMI_RANK PMI_SIZE MPI_LOCALRANKID (MPICH)
//     srun        SLURM_PROCID  SLURM_NTASKS  SLURM_LOCALID, rank 0 on the first node of SLURM_STEP_NODELIST
//
// The first that speaks is taken whole; WEIR_RANK and the like, before all of them,
// serve launchers of one's own. A run has a place of its own, where its ranks meet and no other run's do:
//
//     a file                   that WEIR_RENDEZVOUS names, on a file system that all ranks see
//     several machines         an address, MASTER_ADDR and MASTER_PORT (the port behind it where torchrun has taken that
//                              one) or NCCL_COMM_ID, "machine:port"; by Slurm, its first node
//     several, and mpirun      MPI itself tells, where weir-mpi.so is installed
//     one machine              a file in /tmp, named by what tells this run from others, its key; any port is taken
//     one, with WEIR_SECRET    an address, where one is named
//
// The key is what the launcher says of the job (PMIX_NAMESPACE, SLURM_JOB_ID and SLURM_STEP_ID, TORCHELASTIC_RUN_ID,
// PMI_JOBID) together with the address where one is named. mpirun of MPICH says nothing: its key is the process that
// the launcher has on this machine, at the other end of PMI_FD. Where there is no key there is no place, and ranks are
// refused: those of two runs would take each other for their own.
//
// Rank 0 listens to its own machine alone, unless the launcher says that ranks are on several: by their number on this
// machine, by Slurm's list, or by an address of rank 0 that is not 127.0.0.1 where the number is not said. By a secret
// ranks tell each other from strangers: WEIR_SECRET, the same for all, and of each job another one where the launcher
// names jobs; else rank 0 makes one, and tells it by the file, which nobody else can read, or by MPI. Ranks that meet at
// an address on several machines need WEIR_SECRET.
//
// WEIR_START_WITHIN ("20s", "1800s") is how long ranks wait at the start for each other to come.
#ifndef RUNTIME_PROCESSES_LAUNCHED_H
#define RUNTIME_PROCESSES_LAUNCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum { LAUNCH_PLACE_SIZE = 256, LAUNCH_SECRET_SIZE = 300, LAUNCH_USUAL_PORT = 29400, LAUNCH_LEAST_SECRET = 16 };

struct launch {
    const char *by;  // "torchrun", "Open MPI", "MPICH", "Slurm", "WEIR_RANK"; NULL: nobody, one process alone
    uint32_t rank, ranks;
    uint32_t local_rank, local_ranks;     // on this machine
    bool is_spread;                       // over several machines: else rank 0 listens to its own alone
    char address[LAUNCH_PLACE_SIZE];      // of rank 0; "": it takes any port, and `file` or MPI says which
    uint16_t port;
    char file[LAUNCH_PLACE_SIZE];         // rank 0 writes where it listens, and the secret, into it; "": none
    char secret[LAUNCH_SECRET_SIZE];      // WEIR_SECRET, and the job's name; "": rank 0 makes one
    bool is_open;                         // nobody says where: MPI may tell, else it is `file`, if there is one
    uint64_t start_within_ns;             // in which all ranks have to come; 0: nobody says
};

// getenv() or a test's own.
typedef const char *launch_lookup(void *self, const char *name);

// Refuses what contradicts itself: a rank past the end, a count without a rank.
bool launch_read(struct launch *launch, launch_lookup *lookup, void *self, struct error *error);

// The same from the environment of this process.
bool launch_from_environment(struct launch *launch, struct error *error);

// Where nobody says where rank 0 is, or by what this run's ranks know each other. Returns false.
bool launch_has_no_place(const struct launch *launch, struct error *error);

#endif
