// The learning rate of each step: a straight rise over the first steps (warm-up), then a decay, or none, over the
// rest.
//
//     0.003                            rises to it over a tenth of the steps, then half a cosine down to a tenth of it
//     0.003,linear,warm-up:20,to:0     rises over 20 steps, then a straight line down to 0
//     0.003,constant,warm-up:0         the same rate all the time
//     0.1,per:256                      for batches of 256 samples; it grows with the batch (Goyal et al., 2017)
#ifndef TRAINER_RATES_H
#define TRAINER_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum rate_form { RATE_COSINE, RATE_LINEAR, RATE_CONSTANT };

struct rates {
    float highest;  // above 0
    enum rate_form form;
    float share;    // final rate as a share of `highest`, which the last step nearly has; unused by RATE_CONSTANT
    bool has_warm_up;
    uint32_t warm_up;  // steps; if not given, a tenth of all
    uint32_t per;      // the rate is for so many samples; 0: for any batch
};

// Parses such words, at most 60 characters. False with `error` if they are wrong.
bool rates_parse(const char *words, struct rates *rates, struct error *error);

// The rates of a run with batches of so many samples, which are then for any batch.
struct rates rates_for_batch(const struct rates *rates, uint64_t batch);

// Writes rates in the shortest words that mean the same.
enum { RATES_SIZE = 64 };
void rates_format(const struct rates *rates, char words[RATES_SIZE]);

// Writes a float in the fewest digits that tell it from any other.
void rates_format_number(float number, char word[RATES_SIZE]);

// The rate of step `step`, counted from 0, of `steps` in all.
float rates_at(const struct rates *rates, uint32_t step, uint32_t steps);

#endif
