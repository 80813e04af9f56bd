// The output of a training run for an operator, a line per step:
//
//     step 120 of 400  loss 2.5312 (3.652 bits)  rate 0.00214  norm 1.42  45.3 k tokens/s  bubble 31.2 %
//         slowest stage 1  14.9 MiB  2026-11-26 21:30:05  12 min 30 s left            (all of it in one line)
//
// Tokens/s is over all steps since the line before, by the wall clock; the time for evaluations and checkpoints is
// included. The time left is based on the mean of this run's steps so far, except the first, which finds caches cold.
// The norm of gradients is printed if something needs it (--clip, fp16), and the scale of the loss in fp16.
#ifndef CLI_TRAIN_LINES_H
#define CLI_TRAIN_LINES_H

#include "trainer/train.h"

struct train_lines {
    uint64_t steps, every;           // of the run; a line for every `every` steps
    const char *unit;                // "tokens"
    uint64_t bytes;                  // allocated by the rank that has most
    uint64_t tokens, took_ns;        // since the last line
    uint64_t counted, counted_ns;    // steps of this run, and their time
    bool has_begun;
};

// The line before the first step: where the run begins, and the bytes of each rank.
void train_lines_begin(struct train_lines *lines, uint64_t step, const struct train_result *result, struct text *text);
// Appends the step's line, if it has one.
void train_lines_step(struct train_lines *lines, const struct train_step *step, struct text *text);
void train_lines_evaluation(const struct train_evaluation *evaluation, struct text *text);

#endif
