// Reads runs that were measured elsewhere from Chrome trace events: those of PyTorch's profiler (Kineto), and those
// of Weir. The format is in docs/formats/trace.md.
//
//     struct trace_reader *reader = trace_reader_create(&error);
//     ok = trace_reader_load(reader, "rank0.json.gz", &error) && trace_reader_load(reader, "rank1.json.gz", &error)
//       && trace_reader_finish(reader, TRACE_LAST, &timeline, &summary, &error);
//     trace_reader_free(reader);
//
// An action is a complete event (ph "X") whose name says which action it is:
//
//     PP:0F1, PP:(0F7;7B3)OVERLAP_F_B    PyTorch's pipelining since 2.6
//     Forward 3, Backward 3              before that: of micro-batch 3, on the stage of that rank's number
//     0F1                                ours
//
// An action begins once it has its input: if PyTorch waits for the input within an action, that time is subtracted.
// All other events are counted and left out. Files are read once, as a stream. About 100 bytes per action and 24 per
// operator are stored.
#ifndef SCHEDULES_TRACE_READ_H
#define SCHEDULES_TRACE_READ_H

#include "schedules/timeline.h"

struct text;
struct trace_reader;

struct trace_reader *trace_reader_create(struct error *error);
void trace_reader_free(struct trace_reader *reader);

// Reads one file of one rank, or of several; gzip-compressed or not; "-" is standard input. The rank is taken from
// distributedInfo.rank, or from the process's name ("rank 3"). If neither is there, the order of files and of
// processes decides.
bool trace_reader_load(struct trace_reader *reader, const char *path, struct error *error);
// The same from memory, uncompressed.
bool trace_reader_take(struct trace_reader *reader, const char *text, size_t length, const char *name,
                       struct error *error);

enum { TRACE_LAST = -1, TRACE_ALL = -2 };

struct trace_summary {
    uint64_t actions;      // actions shown
    uint64_t left_out;     // events that are not actions
    uint64_t messages;     // SENDs and RECVs, whose times are those of the host: left out as well
    uint64_t waits;        // actions that waited for a message within their event; this time was subtracted
    uint64_t waited_ns;    // sum of this time
    uint64_t doubled;      // recorded by the host, although the GPU's own times are there
    uint32_t iterations;   // how often the run repeats
    uint32_t iteration;    // the iteration that was taken, unless all were
    bool uneven;           // some actions occur less often than others: it begins or ends within an iteration
    bool renumbered;       // some ranks are missing; the others have new numbers
    uint32_t stages, micro_batches;  // one more than the largest seen
};

// Makes a timeline of what was read: of iteration `iteration` (from 0), of TRACE_LAST, or of TRACE_ALL.
bool trace_reader_finish(struct trace_reader *reader, int64_t iteration, struct timeline *timeline,
                         struct trace_summary *summary, struct error *error);

// Moves out what Weir's trace says of the run besides its events, as JSON; empty if it says nothing.
bool trace_reader_about(struct trace_reader *reader, struct text *about, struct error *error);

#endif
