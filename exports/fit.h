// From a plan to the nearest one that a format can say: whole units on stages, what runs again in a pattern; and what
// that other plan takes, by the evaluator that prices plans made by hand.
#ifndef EXPORTS_FIT_H
#define EXPORTS_FIT_H

#include "exports/words.h"

// Sets the cuts, each in front of the unit that it is in front of, or, inside of one, at the end of it that is
// nearer in time. A stage that is left without a unit is refused.
bool fit_cuts(struct export *export, struct error *error);

// What differs now from the plan, a sentence for each stage, and what that takes. FIT_LACKS: a rank has too little
// memory for it, which the error says. ERROR_ANSWER also where something differs and there is no profile.
enum fit { FIT_FAILS, FIT_LACKS, FIT_GOOD };
enum fit fit_price(struct export *export, uint32_t *rank, struct error *error);

// Lets one more block of each stage of this rank want to run again; false where all do.
bool fit_more(struct export *export, uint32_t rank, struct error *error);

#endif
