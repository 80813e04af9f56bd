// Rows of tokens on their way to the members that have their experts, and back.
//
// Each member has its rows packed by expert, and sends each run of them to the member that has the expert. That one has
// them packed by expert, too, and those of an expert in the order of members. So they are in the order of the tokens
// of the whole micro-batch:
//
//     members have      0: a a b c    1: a b b c      expert a and c are on member 1, b on member 0
//     experts take      0: b b b      1: a a a c c
//
// An expert may be *copied*: all members have it, and it takes on each of them the rows of that member alone, which
// stay where they are. Rows of copied experts come first:
//
//     experts take      0: a a | b b b    1: a | c c      expert a is copied, b on member 0, c on member 1
//
// How many rows there are is on the device, and the same on all members. A host that moves rows waits for that. If the
// experts of a member would take more than there is room for, the queue fails. Or the members *give up*: no row moves,
// experts take none, and what comes back is NaN, from which the loss becomes NaN. So a run can end before its update.
#ifndef DEVICE_ROW_EXCHANGE_H
#define DEVICE_ROW_EXCHANGE_H

#include "device/device.h"
#include "device/routing.h"

enum { ROW_MEMBERS = 64, ROW_COUNTS = ROW_MEMBERS * ROUTER_EXPERTS };  // the most
enum { ROW_COPIED = 255 };  // in place of the member that has an expert: all of them do

struct row_exchange {
    const int32_t *kept;    // on the device, [members][experts]: rows of each member that go to each expert
    const uint8_t *owners;  // the member that has each expert, or ROW_COPIED
    uint32_t experts, members;
    bool is_back;           // from experts to the members that have the tokens
    uint64_t room;          // for the rows that a member's experts take
    // This member, and the ends of the rows that its experts take. The host notes in `lacked` how many rows a member
    // would have taken, and the members give up; NULL: the queue fails
    uint32_t member;
    int32_t *ends;
    uint64_t *lacked;
};

// Rows that lie next to each other, on the member that sends and on the one that receives.
struct row_run {
    uint32_t from, to;
    uint64_t from_row, to_row, count;
};

struct row_walk {
    const struct row_exchange *exchange;
    uint32_t expert, member;
    bool gives_up;
    // The next rows of members with tokens, with copied experts, and with other experts
    uint64_t given[ROW_MEMBERS], copied[ROW_MEMBERS], taken[ROW_MEMBERS];
    int32_t counts[ROW_COUNTS];
};

// Fetches the counts, for which it waits. False with the queue's error, or if there is no room.
bool row_walk_begin(struct row_walk *walk, struct queue *queue, const struct row_exchange *exchange,
                    struct error *error);
// The next run, by expert and then by member; false after the last, or if the members give up. Runs may be empty.
bool row_walk_next(struct row_walk *walk, struct row_run *run);

// For each member after a walk: if they give up, its experts take no rows, and rows that come back are NaN. They would
// go to `received`, and have `count` numbers each.
void row_walk_end(const struct row_walk *walk, struct queue *queue, const struct row_exchange *own, void *received,
                  size_t count);

#endif
