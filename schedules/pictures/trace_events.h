// What trace_read.c keeps of trace files: actions, and who did them. Between the
// reader of events and what makes a timeline of them.
#ifndef SCHEDULES_TRACE_EVENTS_H
#define SCHEDULES_TRACE_EVENTS_H

#include "schedules/pictures/trace_read.h"

enum { NO_RANK = UINT32_MAX, MOST_RANKS = 4096 };

struct trace_action {
    uint32_t process;
    uint32_t iteration;
    struct action action;
    bool stage_is_rank;  // its name does not say the stage
    bool by_gpu;         // measured on the GPU itself
    uint64_t start_ns;   // of the file's clock, and later of all
    uint64_t length_ns;
    uint64_t recompute_ns;
};

// Whoever has an id of its own in a file.
struct trace_process {
    uint32_t file;
    uint32_t rank;  // NO_RANK until something says which
    bool acts;
    char id[24];
};

struct trace_file {
    char name[200];
    uint64_t base_ns;      // added to all its times
    uint32_t rank;         // of all its processes, or NO_RANK
    bool has_gpu;          // the GPU's times are there
};

struct trace_reader {
    struct trace_action *actions;
    size_t action_count, action_capacity;
    struct trace_process *processes;
    size_t process_count, process_capacity;
    struct trace_file *files;
    size_t file_count, file_capacity;
    uint32_t ranks;                // once they have been numbered
    struct trace_summary summary;  // counted while reading
};

// The actions an event's name stands for: how many, 0 if it is none.
size_t trace_name_parse(const char *name, struct action group[MOST_JOINED], bool *stage_is_rank);

#endif
