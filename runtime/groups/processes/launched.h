// Which of the processes that were started together this one is, as its launcher has left it in the environment:
//
//     torchrun    RANK  WORLD_SIZE  LOCAL_RANK  MASTER_ADDR  MASTER_PORT
//     mpirun      OMPI_COMM_WORLD_RANK ..  (Open MPI), PMI_RANK PMI_SIZE MPI_LOCALRANKID (MPICH)
//     srun        SLURM_PROCID  SLURM_NTASKS  SLURM_LOCALID, rank 0 on the first node of SLURM_STEP_NODELIST
//
// The first launcher that is found is used for everything. WEIR_RANK and the like come before all of them, for
// launchers of one's own. A run has a place of its own, where its ranks meet and those of no other run do (a
// rendezvous):
//
//     a file                   that WEIR_RENDEZVOUS names, on a file system that all ranks see
//     several machines         an address, MASTER_ADDR and MASTER_PORT (the next port, if torchrun has taken that one)
//                              or NCCL_COMM_ID, "machine:port"; with Slurm, its first node
//     several, and mpirun      MPI itself says where, if weir-mpi.so is installed
//     one machine              a file in /tmp, named by what tells this run from others, its key; any port is taken
//     one, with WEIR_SECRET    an address, if one is named
//
// The key is what the launcher says of the job (PMIX_NAMESPACE, SLURM_JOB_ID and SLURM_STEP_ID, TORCHELASTIC_RUN_ID,
// PMI_JOBID), together with the address if one is named. MPICH's mpirun says nothing. Its key is the launcher's
// process on this machine, at the other end of PMI_FD. Without a key there is no place, and ranks are refused: ranks
// of two runs would mix.
//
// Rank 0 listens only on its own machine, unless the launcher says that ranks are on several. It says so by their
// number on this machine, by Slurm's list, or, if the number is not given, by an address of rank 0 that is not
// 127.0.0.1.
//
// Ranks tell each other from strangers by a secret. WEIR_SECRET is the same for all ranks; if the launcher names
// jobs, each job derives one of its own from it. Without it rank 0 makes a secret, and passes it on by the file,
// which only its owner can read, or by MPI. Ranks that meet at an address on several machines need WEIR_SECRET.
//
// WEIR_START_WITHIN ("20s", "1800s") is how long ranks wait for each other at the start.
#ifndef RUNTIME_GROUPS_PROCESSES_LAUNCHED_H
#define RUNTIME_GROUPS_PROCESSES_LAUNCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum { LAUNCH_PLACE_SIZE = 256, LAUNCH_SECRET_SIZE = 300, LAUNCH_USUAL_PORT = 29400, LAUNCH_LEAST_SECRET = 16 };

struct launch {
    const char *by;  // "torchrun", "Open MPI", "MPICH", "Slurm", "WEIR_RANK"; NULL: no launcher, one process alone
    uint32_t rank, ranks;
    uint32_t local_rank, local_ranks;     // on this machine
    bool is_spread;                       // over several machines; if not, rank 0 listens only on its own
    char address[LAUNCH_PLACE_SIZE];      // of rank 0; "": it takes any port, and `file` or MPI says which
    uint16_t port;
    char file[LAUNCH_PLACE_SIZE];         // into which rank 0 writes where it listens, and the secret; "": none
    char secret[LAUNCH_SECRET_SIZE];      // WEIR_SECRET, and the job's name; "": rank 0 makes one
    bool is_open;                         // no place is given: MPI may say where, else it is `file`, if there is one
    uint64_t start_within_ns;             // in which all ranks have to come; 0: not given
};

// getenv(), or a function of a test.
typedef const char *launch_lookup(void *self, const char *name);

// Fails on contradictions: a rank past the end, or a count without a rank.
bool launch_read(struct launch *launch, launch_lookup *lookup, void *self, struct error *error);

// The same from the environment of this process.
bool launch_from_environment(struct launch *launch, struct error *error);

// Sets the error for a run without a place for rank 0, or without a key by which its ranks know each other. Returns
// false.
bool launch_has_no_place(const struct launch *launch, struct error *error);

#endif
