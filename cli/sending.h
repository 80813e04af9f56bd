// How messages go, for the commands that ask: where a schedule's receives stand,
// and how many sends are buffered.
#ifndef CLI_SENDING_H
#define CLI_SENDING_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "schedules/schedule.h"

enum lowering { LOWER_UNSAID, LOWER_EARLY, LOWER_LATE, LOWER_BOTH };

struct sending_options {
    enum lowering lower;
    bool has_sends;
    bool grouped;       // messages in a row go as one group
    uint32_t capacity;  // buffered sends per channel; 0: rendezvous
};

enum { KEY_SENDS = 0x400, KEY_LOWER };

#define SENDING_OPTIONS \
    { "sends", KEY_SENDS, "MODEL", 0, "rendezvous (a send ends when its receive is reached; the default), eager:K " \
      "(K sends per channel are buffered) or grouped (rendezvous, but messages that stand in a row go together)", 0 }, \
    { "lower", KEY_LOWER, "WHERE", 0, "Where receives stand: early (as soon as their message is made; the default of a " \
      "compute order), late (right before their use), or, to check, both. Replaces the messages FILE has", 0 }

// ARGP_ERR_UNKNOWN for any other key.
error_t sending_option(int key, char *argument, struct sending_options *options, struct argp_state *state);

// Makes a lowered schedule a compute order again, where --lower says that its
// messages are to stand elsewhere.
bool sending_prepare(const struct sending_options *options, struct schedule **schedule, struct error *error);

#endif
