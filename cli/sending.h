// How messages go, for the commands that ask: where a schedule's receives stand,
// and how many sends are buffered.
#ifndef CLI_SENDING_H
#define CLI_SENDING_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/subject.h"

enum lowering { LOWER_UNSAID, LOWER_EARLY, LOWER_LATE, LOWER_TIMED, LOWER_ALL };

struct sending_options {
    enum lowering lower;
    bool has_sends;
    bool grouped;       // messages in a row go as one group
    uint32_t capacity;  // buffered sends per channel; 0: rendezvous
};

enum { KEY_SENDS = 0x400, KEY_LOWER };

#define OPTION_LOWER \
    { "lower", KEY_LOWER, "WHERE", 0, "Where receives stand: early (long before their message is made; the default of a " \
      "compute order), late (right before their use) or timed (when their message is made, by the costs); weir check " \
      "takes all, too. Replaces the messages FILE has", 0 }
#define SENDING_OPTIONS \
    { "sends", KEY_SENDS, "MODEL", 0, "rendezvous (a send ends when its receive is reached; the default), eager:K " \
      "(K sends per channel are buffered) or grouped (rendezvous, but messages that stand in a row go together)", 0 }, \
    OPTION_LOWER

// ARGP_ERR_UNKNOWN for any other key.
error_t sending_option(int key, char *argument, struct sending_options *options, struct argp_state *state);

// Makes a lowered schedule a compute order again, where --lower says that its
// receives are to stand elsewhere.
bool sending_strip(const struct sending_options *options, struct priced *subject, struct error *error);

// Puts the receives where --lower says; early ones of a compute order only where it
// is lowered by whoever takes it.
bool sending_lower(const struct sending_options *options, struct priced *subject, struct error *error);

#endif
