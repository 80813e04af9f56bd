// Runs that were measured elsewhere, read from Chrome's trace events: those of
// PyTorch's profiler (Kineto), and our own. docs/formats/trace.md
//
//     struct trace_reader *reader = trace_reader_create(&error);
//     ok = trace_reader_load(reader, "rank0.json.gz", &error) && trace_reader_load(reader, "rank1.json.gz", &error)
//       && trace_reader_finish(reader, TRACE_LAST, &timeline, &summary, &error);
//     trace_reader_free(reader);
//
// An action is a complete event (ph "X") whose name says which:
//
//     PP:0F1, PP:(0F7;7B3)OVERLAP_F_B    PyTorch's pipelining since 2.6
//     Forward 3, Backward 3              before that: of micro-batch 3, on the stage of that rank's number
//     0F1                                ours
//
// An action begins once it has its input: what PyTorch waits for within an action is taken off.
// All else is counted and left out. Files are gone through once and never held; what is kept is
// some 100 bytes per action and 24 per operator.
#ifndef SCHEDULES_TRACE_READ_H
#define SCHEDULES_TRACE_READ_H

#include "schedules/timeline.h"

struct trace_reader;

struct trace_reader *trace_reader_create(struct error *error);
void trace_reader_free(struct trace_reader *reader);

// One file of one rank, or of several; packed by gzip or not; "-" is standard input. The
// rank is what distributedInfo.rank says, or the process's name ("rank 3"); where nothing
// does, the order of files and of processes.
bool trace_reader_load(struct trace_reader *reader, const char *path, struct error *error);
// The same from memory, not packed.
bool trace_reader_take(struct trace_reader *reader, const char *text, size_t length, const char *name,
                       struct error *error);

enum { TRACE_LAST = -1, TRACE_ALL = -2 };

struct trace_summary {
    uint64_t actions;      // shown
    uint64_t left_out;     // events that are no actions
    uint64_t messages;     // SENDs and RECVs, whose times are those of the host: left out as well
    uint64_t waits;        // actions that waited for a message within what names them, which was taken off
    uint64_t waited_ns;    // in all
    uint64_t doubled;      // seen by the host, where the GPU's own times are there as well
    uint32_t iterations;   // how often the run does the same again
    uint32_t iteration;    // which was taken, unless all were
    bool uneven;           // some actions occur less often than others: it begins or ends within an iteration
    bool renumbered;       // some ranks are missing; those there are have new numbers
    uint32_t stages, micro_batches;  // one more than the largest seen
};

// What was read, as a timeline: of iteration `iteration` (from 0), of the last, or of all.
bool trace_reader_finish(struct trace_reader *reader, int64_t iteration, struct timeline *timeline,
                         struct trace_summary *summary, struct error *error);

#endif
