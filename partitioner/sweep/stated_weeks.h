// A stated layout over weeks, in which devices fail (long_run.h).
//
//     weeks_of() --> the checkpoint's bytes, the speeds with fewer pipelines --> shares of each choice
#ifndef PARTITIONER_SWEEP_STATED_WEEKS_H
#define PARTITIONER_SWEEP_STATED_WEEKS_H

#include "common/json.h"
#include "partitioner/sweep/long_run.h"
#include "partitioner/sweep/stated.h"

struct weeks_request {
    uint64_t mtbf_ns;           // mean time between failures of any of the devices
    uint64_t checkpoint_bytes;  // 0: weights and states of all parameters
    uint64_t checkpoint_rate;   // bytes per second at which all devices together save one, and read it
    uint64_t restart_ns;        // from a failure until training goes on, without reading the checkpoint
    uint64_t repair_ns;         // until a broken device is back; 0: another one is there at once
    bool has_spares, elastic;   // only with these; otherwise every choice is tried
    uint32_t spares;
};

// What is done about broken devices.
struct weeks_choice {
    bool elastic;
    uint32_t spares;
    struct long_run_shares shares;
    double paid;  // the goodput as a share of all devices that are paid for, with spares
};

enum { WEEKS_MOST_CHOICES = 16 };

struct weeks {
    struct weeks_request request;
    uint64_t checkpoint_bytes;
    double checkpoint_s, restart_s, iteration_s;
    struct weeks_choice choices[WEEKS_MOST_CHOICES];
    size_t count, best;      // the best by what is paid for
    bool cannot_be_elastic;  // the layout has no fewer pipelines
};

// False with an error if memory runs out, or the one choice that is asked for is not possible.
bool weeks_of(const struct judgement *judgement, const struct weeks_request *request, struct weeks *weeks,
              struct error *error);

// Adds lines for people, and the member "weeks" of the judgement document.
void weeks_print(const struct weeks *weeks, const struct judgement *judgement, struct text *text);
void weeks_write(const struct weeks *weeks, struct json_writer *writer);

#endif
