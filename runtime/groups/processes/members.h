// Which processes take part in an elastic run, in which ranks come and go. They share a folder:
//
//     FOLDER/member-7     of a member that is there, locked as long as it lives: "runs 3 node1", or "ready 3 node1",
//                         which has come to the end of epoch 3, or has come while that was under way
//     FOLDER/epoch.json   what the oldest member has decided last: which member is which rank, and the plan
//
// Members send no messages here: all of them look at the folder several times a second. A lock ends with its process,
// however that ends, so a member that is gone is noticed by the next one that looks. What the ranks of an epoch then
// say to each other goes through control.h.
#ifndef RUNTIME_GROUPS_PROCESSES_MEMBERS_H
#define RUNTIME_GROUPS_PROCESSES_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum { MEMBERS_MOST = 1024, MEMBER_HOST_SIZE = 64, EPOCH_PLAN_SIZE = 128 };

struct member {
    uint64_t number;  // the lower, the older
    bool runs;        // a rank of the epoch; otherwise ready for the next one
    uint64_t epoch;
    char host[MEMBER_HOST_SIZE];
};

struct epoch {
    uint64_t number;            // from 1; 0: none yet
    bool has_ended;             // the run is over or cannot go on: no epoch follows
    char why[256];              // it cannot go on; "": it has ended well
    char plan[EPOCH_PLAN_SIZE]; // name of the plan's file in the folder
    struct member *ranks;       // number and host of each rank; freed by epoch_clear()
    size_t rank_count;
};

struct members;

// A new member, ready for the epoch after the current one.
struct members *members_join(const char *folder, struct error *error);
// members_leave() ends the membership. members_forget() is for a process that was forked from the member's: it only
// frees, and the lock stays the parent's.
void members_leave(struct members *members);
void members_forget(struct members *members);

uint64_t members_own(const struct members *members);
bool members_say(struct members *members, bool runs, uint64_t epoch, struct error *error);

// The members that are there now, this one among them, the oldest first; free() the array. Removes the files of
// members that are gone.
struct member *members_look(const struct members *members, size_t *count, struct error *error);

// Writes FOLDER/NAME into a buffer of PATH_MAX bytes.
bool members_path(const struct members *members, const char *name, char *path, struct error *error);

// Only the oldest member writes the epoch; all may read it. The number is 0 if there is none.
bool epoch_write(const struct members *members, const struct epoch *epoch, struct error *error);
bool epoch_read(const struct members *members, struct epoch *epoch, struct error *error);
void epoch_clear(struct epoch *epoch);

#endif
