// The learning rate of each step: a rise over the first steps in a straight line, then down, or not, over the rest.
//
//     0.003                            to it over a tenth of the steps, then half a cosine down to a tenth of it
//     0.003,linear,warm-up:20,to:0     over 20 steps, then a straight line down to nothing
//     0.003,constant,warm-up:0         all the time
#ifndef TRAINER_RATES_H
#define TRAINER_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum rate_form { RATE_COSINE, RATE_LINEAR, RATE_CONSTANT };

struct rates {
    float highest;  // above 0
    enum rate_form form;
    float share;    // of the highest that the last step nearly has; of RATE_CONSTANT without meaning
    bool has_warm_up;
    uint32_t warm_up;  // steps; without it a tenth of all
};

// Such words, of at most 60 characters. Refused with what is wrong in the error.
bool rates_parse(const char *words, struct rates *rates, struct error *error);

// The same again, in the shortest words that mean it.
enum { RATES_SIZE = 64 };
void rates_format(const struct rates *rates, char words[RATES_SIZE]);

// A float in as few digits as tell it from any other.
void rates_format_number(float number, char word[RATES_SIZE]);

// Of step `step` of so many, from 0.
float rates_at(const struct rates *rates, uint32_t step, uint32_t steps);

#endif
