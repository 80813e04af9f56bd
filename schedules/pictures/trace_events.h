// What trace_read.c keeps of trace files: actions, and who did them. Between the
// reader of events, what finds waiting within actions, and what makes a timeline of them.
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
    bool in_group;       // its name says several
    bool sees_receives;  // its file says when messages arrive
    uint64_t start_ns;   // of the file's clock, and later of all
    uint64_t length_ns;
    uint64_t recompute_ns;
    uint64_t thread;     // trace_thread() of who names it
    uint64_t wait_ns;    // from its start until its input has arrived
    uint64_t idle_ns;    // from its start until its first operator; 0 where there is none
};

// A moment on a thread: an operator begins, or a message has arrived.
enum trace_mark_kind { MARK_NONE, MARK_RECEIVED, MARK_OPERATOR, MARK_MESSAGE };
struct trace_mark {
    uint64_t thread, time_ns;
    enum trace_mark_kind kind;
};

// From this moment on a process holds so many bytes.
struct trace_level {
    uint32_t process;
    bool of_gpu;
    uint64_t time_ns, bytes;
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
    bool has_gpu_levels;   // and how many bytes it holds
    bool has_receives;     // it says when messages arrive
    bool has_messages;     // it says that messages are passed
};

struct trace_reader {
    struct trace_action *actions;
    size_t action_count, action_capacity;
    struct trace_process *processes;
    size_t process_count, process_capacity;
    struct trace_file *files;
    size_t file_count, file_capacity;
    struct trace_mark *marks;
    size_t mark_count, mark_capacity;
    struct trace_level *levels;
    size_t level_count, level_capacity;
    uint32_t ranks;                // once they have been numbered
    struct trace_summary summary;  // counted while reading
};

// The actions an event's name stands for: how many, 0 if it is none.
size_t trace_name_parse(const char *name, struct action group[MOST_JOINED], bool *stage_is_rank);

// One number for a thread of a file.
uint64_t trace_thread(uint32_t file, const char *process, const char *thread);
// What an event that is no action says of its thread. MARK_MESSAGE is no moment to be kept.
enum trace_mark_kind trace_mark_of(const char *category, const char *name);
bool trace_mark_add(struct trace_reader *reader, struct trace_mark mark, struct error *error);

// Finds how long each action waits inside itself, while actions have the clocks of their files.
void trace_waits_find(struct trace_reader *reader);
// Lets each action begin where it has its input, once trace_find_action() can be asked.
void trace_waits_take_off(struct trace_reader *reader);

// Adds the bytes that ranks held while they did what the timeline shows. Ranks are numbered by now.
bool trace_levels_add(struct trace_reader *reader, uint64_t clock_ns, struct timeline *timeline, struct error *error);

// What the rank of `action` has done as `sought` in the same iteration, or NULL: once iterations have been counted.
const struct trace_action *trace_find_action(const struct trace_reader *reader, const struct trace_action *action,
                                             struct action sought);

#endif
