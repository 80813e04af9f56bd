// The rendezvous file: where rank 0 listens, and the run's secret, as rank 0 tells them to the others (or by MPI).
//
//     weir-rendezvous 1 node7 40123 local 6a09e667f3bcc908..      "-" for a secret that all have from WEIR_SECRET
//                       |     |     |
//                       |     |     "spread": rank 0 can be reached from other machines, too
//                       machine and port of rank 0
//
// The file appears complete, and only its owner can read it (0600). Rank 0 keeps it locked, and removes it when all
// ranks have met. If rank 0 is killed before, at most that file is left, without a lock. So two runs never meet in
// one file at the same time, if the file system has locks. A file that Weir did not make is never touched.
#ifndef RUNTIME_GROUPS_PROCESSES_RENDEZVOUS_H
#define RUNTIME_GROUPS_PROCESSES_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/groups/processes/proof.h"

enum { RENDEZVOUS_HOST_SIZE = 64, RENDEZVOUS_TEXT_SIZE = 192 };

struct rendezvous {
    char host[RENDEZVOUS_HOST_SIZE];
    uint16_t port;
    bool is_spread;
    bool has_secret;
    struct secret secret;
};

// Writes the line above, without an end of line; and reads it back, false if it is no such line.
void rendezvous_write(const struct rendezvous *rendezvous, char text[RENDEZVOUS_TEXT_SIZE]);
bool rendezvous_read(struct rendezvous *rendezvous, const char *text);

// The published file, open and locked, and which file it is, even if its name has come to mean another one since.
struct rendezvous_file {
    uint64_t device, inode;
    int lock;
};

// Removes what an earlier run has left. Fails if it is another kind of file, or if another run meets in it now.
bool rendezvous_clear(const char *path, struct error *error);
// Publishes the file. Fails if the path is taken.
bool rendezvous_publish(const char *path, const struct rendezvous *rendezvous, struct rendezvous_file *file,
                        struct error *error);
// Removes the file if it still is the one that was published, and releases the lock.
void rendezvous_withdraw(const char *path, const struct rendezvous_file *file);

// False without an error if there is no file yet, and with an error if it is another kind of file. The flag
// `is_private` says that only the user who runs this process can have written it, and can read it.
bool rendezvous_find(const char *path, struct rendezvous *rendezvous, bool *is_private, struct error *error);

#endif
