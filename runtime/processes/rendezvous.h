// Where rank 0 listens, and the run's secret, as rank 0 tells them to the others by a file (or by MPI).
//
//     weir-rendezvous 1 node7 40123 local 6a09e667f3bcc908..      "-" for a secret that all have from WEIR_SECRET
//                       |     |     |
//                       |     |     "spread": rank 0 can be reached from other machines, too
//                       machine and port of rank 0
//
// The file appears whole, only its owner can read it (0600), rank 0 keeps it locked and removes it when all have met, and
// a rank 0 that is killed before leaves that file at most, which nobody locks any more. So two runs never meet in one
// file at a time, where the file system has locks. A file that Weir did not make is never touched.
#ifndef RUNTIME_PROCESSES_RENDEZVOUS_H
#define RUNTIME_PROCESSES_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/processes/proof.h"

enum { RENDEZVOUS_HOST_SIZE = 64, RENDEZVOUS_TEXT_SIZE = 192 };

struct rendezvous {
    char host[RENDEZVOUS_HOST_SIZE];
    uint16_t port;
    bool is_spread;
    bool has_secret;
    struct secret secret;
};

// As the line above, without an end of line; and back, false where it is no such line.
void rendezvous_write(const struct rendezvous *rendezvous, char text[RENDEZVOUS_TEXT_SIZE]);
bool rendezvous_read(struct rendezvous *rendezvous, const char *text);

// Which file it is, whatever its name may have become the name of since; and the file itself, open and locked.
struct rendezvous_file {
    uint64_t device, inode;
    int lock;
};

// Removes what an earlier run has left; refuses a file that is something else, or in which another run meets now.
bool rendezvous_clear(const char *path, struct error *error);
// Where nothing is in the way.
bool rendezvous_publish(const char *path, const struct rendezvous *rendezvous, struct rendezvous_file *file,
                        struct error *error);
// Removes it if it still is the one that was published, and ends the lock.
void rendezvous_withdraw(const char *path, const struct rendezvous_file *file);

// False where there is no file yet, or with an error where there is another. `is_private`: nobody but the user who runs
// this process can have written it, or can read it.
bool rendezvous_find(const char *path, struct rendezvous *rendezvous, bool *is_private, struct error *error);

#endif
