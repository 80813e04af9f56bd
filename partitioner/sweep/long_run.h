// A run of weeks on devices that fail: the best interval between checkpoints, and the goodput, which is the share of
// the time that makes progress.
//
// Failures are a Poisson process. A failure loses what was done since the last checkpoint, and takes a restart, in
// which devices may fail again:
//
//     | train | save | train | save | tra.. failure | restart | train | save |       M mean time between failures
//       n its.   d     n its.   d     lost              R                            t = n iterations
//
// A checkpoint with what precedes it then takes M e^(R/M) (e^((t+d)/M) - 1) in the mean (Daly 2006, equation 14). A
// failed device is broken until it is repaired. Meanwhile:
//
// * the run waits;
// * or a spare device stands in, if there is one that is whole;
// * or (elastic) pipelines without a broken device go on. The others' devices stand in for those that break next. The
//   run grows again as soon as devices are repaired, with a checkpoint and a restart.
//
// How many are broken is a chain of births and deaths, as in Erlang's loss system. Its shares of time do not depend on
// how repair times are distributed.
#ifndef PARTITIONER_SWEEP_LONG_RUN_H
#define PARTITIONER_SWEEP_LONG_RUN_H

#include <stddef.h>
#include <stdint.h>

struct long_run {
    double mtbf_s;        // between failures of any of the devices that train
    double checkpoint_s;  // to save a checkpoint, for which training waits
    double restart_s;     // from a failure until training goes on, with a checkpoint that is read
    double repair_s;      // of a broken device; 0: another one is there at once
    double iteration_s;
    uint32_t pipelines, pipeline_devices;
    uint32_t spares;
    // Speeds of an elastic run with 0, 1, .. pipelines lost, as a share of all; with more lost it waits. Borrowed. A
    // run that is not elastic has one, which is 1.
    const double *speeds;
    size_t speed_count;
};

// Shares of the time; they add up to 1.
struct long_run_shares {
    uint64_t iterations;  // between checkpoints
    double goodput;       // what is done, as a share of what all pipelines do in the time without failures
    double fewer;         // what the pipelines that are lost do not do
    double checkpoints, lost, restarts, waiting;
};

// The best time between checkpoints if it need not be of whole iterations.
double long_run_interval_s(double mtbf_s, double checkpoint_s);

// With a checkpoint every so many iterations; 0: the best number.
struct long_run_shares long_run_shares(const struct long_run *run, uint64_t iterations);

#endif
