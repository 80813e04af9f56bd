// Rounds a plan to the nearest one that a format can express: whole units on stages, and recomputation in a pattern.
// The evaluator that prices plans made by hand says what that other plan takes.
#ifndef EXPORTS_FIT_H
#define EXPORTS_FIT_H

#include "exports/words.h"

// Sets the cuts. A cut in front of a unit stays there. A cut inside a unit moves to the end of it that is nearer in
// time. False with an error if a stage is left without a unit.
bool fit_cuts(struct export *export, struct error *error);

// Says how the result differs from the plan, a sentence for each stage, and how long it takes. FIT_LACKS: it does not
// fit into the memory of `rank`; the error says so. If something differs and there is no profile, the result is
// FIT_FAILS with ERROR_ANSWER.
enum fit { FIT_FAILS, FIT_LACKS, FIT_GOOD };
enum fit fit_price(struct export *export, uint32_t *rank, struct error *error);

// Marks one more block of each stage of this rank to be recomputed. False if all are marked, or with an error.
bool fit_more(struct export *export, uint32_t rank, struct error *error);

#endif
