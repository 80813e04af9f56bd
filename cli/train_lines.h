// What an operator sees of a training run, a line for a step:
//
//     step 120 of 400  loss 2.5312 (3.652 bits)  rate 0.00214  norm 1.42  45.3 k tokens/s  bubble 31.2 %
//         slowest stage 1  14.9 MiB  2026-11-26 21:30:05  12 min 30 s left            (all of it in one line)
//
// Tokens/s are of all steps since the line before, by the clock: what evaluating and keeping take is in it. What is
// left goes by the mean of this run's steps so far, but for the first, which finds caches cold. The norm of gradients
// is there where something asks for it (--clip, fp16), and the scale of the loss in fp16.
#ifndef CLI_TRAIN_LINES_H
#define CLI_TRAIN_LINES_H

#include "trainer/train.h"

struct train_lines {
    uint64_t steps, every;           // of the run; a line for each of so many
    uint64_t bytes;                  // that the rank with the most has allocated
    uint64_t tokens, took_ns;        // since the last line
    uint64_t counted, counted_ns;    // steps of this run, and how long they took
    bool has_begun;
};

// Where the run begins, and with which bytes.
void train_lines_begin(struct train_lines *lines, uint64_t step, const struct train_result *result, struct text *text);
// Adds the step's line, if it has one.
void train_lines_step(struct train_lines *lines, const struct train_step *step, struct text *text);
void train_lines_evaluation(const struct train_evaluation *evaluation, struct text *text);

#endif
