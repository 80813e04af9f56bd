// How messages are sent, for commands with options for that: when receives are posted, and how many sends are
// buffered.
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
    bool grouped;       // consecutive messages go as one group
    uint32_t capacity;  // buffered sends per channel; 0: rendezvous
};

enum { KEY_SENDS = 0x400, KEY_LOWER };

#define OPTION_LOWER \
    { "lower", KEY_LOWER, "WHERE", 0, \
      "Where receives stand: early (long before their message is made; the default of a " \
      "compute order), late (right before their use) or timed (when their message is made, by the costs); weir check " \
      "takes all, too. Replaces the messages FILE has", 0 }
#define SENDING_OPTIONS \
    { "sends", KEY_SENDS, "MODEL", 0, "rendezvous (a send ends when its receive is reached; the default), eager:K " \
      "(K sends per channel are buffered) or grouped (rendezvous, but messages that stand in a row go together)", 0 }, \
    OPTION_LOWER

// Parses one of these options; returns ARGP_ERR_UNKNOWN for any other key.
error_t sending_option(int key, char *argument, struct sending_options *options, struct argp_state *state);

// Removes the messages of a lowered schedule if --lower moves its receives, so that it is a compute order again.
bool sending_strip(const struct sending_options *options, struct priced *subject, struct error *error);

// Adds messages with the receives where --lower says. With early receives a compute order stays as it is; the
// function that takes it lowers it.
bool sending_lower(const struct sending_options *options, struct priced *subject, struct error *error);

#endif
