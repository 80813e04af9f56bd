// What trace_read.c keeps of trace files: actions, and the processes that did them. This is the interface between
// the reader of events, the search for waiting within actions, and the making of a timeline.
#ifndef SCHEDULES_TRACE_EVENTS_H
#define SCHEDULES_TRACE_EVENTS_H

#include "common/text.h"
#include "schedules/pictures/trace_read.h"

enum { NO_RANK = UINT32_MAX, MOST_RANKS = 4096 };

struct trace_action {
    uint32_t process;
    uint32_t iteration;
    struct action action;
    bool stage_is_rank;  // its name does not contain the stage
    bool by_gpu;         // measured on the GPU itself
    bool in_group;       // its name has several actions
    bool sees_receives;  // its file says when messages arrive
    uint64_t start_ns;   // in the file's clock, and later in the common clock
    uint64_t length_ns;
    uint64_t recompute_ns;
    uint64_t thread;     // trace_thread() of the thread with its event
    uint64_t wait_ns;    // from its start until its input has arrived
    uint64_t idle_ns;    // from its start until its first operator; 0 if there is none
};

// A moment on a thread: an operator begins, or a message has arrived.
enum trace_mark_kind { MARK_NONE, MARK_RECEIVED, MARK_OPERATOR, MARK_MESSAGE };
struct trace_mark {
    uint64_t thread, time_ns;
    enum trace_mark_kind kind;
};

// From this moment on a process holds this many bytes.
struct trace_level {
    uint32_t process;
    bool of_gpu;
    uint64_t time_ns, bytes;
};

// A process: anything that has an id of its own in a file.
struct trace_process {
    uint32_t file;
    uint32_t rank;  // NO_RANK until it is known
    bool acts;
    char id[24];
};

struct trace_file {
    char name[200];
    uint64_t base_ns;      // added to all times of the file
    uint32_t rank;         // of all processes of the file, or NO_RANK
    bool has_gpu;          // it contains the GPU's times
    bool has_gpu_levels;   // it contains how many bytes the GPU holds
    bool has_receives;     // it contains when messages arrive
    bool has_messages;     // it contains that messages are passed
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
    uint32_t ranks;                // valid once ranks have been numbered
    struct trace_summary summary;  // counted while reading
    struct text about;             // of the first file that has it
};

// Parses the actions that an event's name stands for. Returns their number, 0 if it is not an action.
size_t trace_name_parse(const char *name, struct action group[MOST_JOINED], bool *stage_is_rank);

// A single number for a thread of a file.
uint64_t trace_thread(uint32_t file, const char *process, const char *thread);
// What an event that is not an action says of its thread. MARK_MESSAGE need not be stored.
enum trace_mark_kind trace_mark_of(const char *category, const char *name);
bool trace_mark_add(struct trace_reader *reader, struct trace_mark mark, struct error *error);

// Finds how long each action waits inside itself. Actions must still have the clocks of their files.
void trace_waits_find(struct trace_reader *reader);
// Moves the start of each action to the arrival of its input. trace_find_action() must be usable by then.
void trace_waits_take_off(struct trace_reader *reader);

// Adds the bytes that ranks held during the timeline. Ranks must have been numbered.
bool trace_levels_add(struct trace_reader *reader, uint64_t clock_ns, struct timeline *timeline, struct error *error);

// Sort by process, action and time; or by process and time.
void trace_sort_by_action(struct trace_reader *reader);
void trace_sort_by_time(struct trace_reader *reader);

// The record of the action `sought` on the rank and in the iteration of `action`; NULL if the trace has none.
// Iterations must have been counted.
const struct trace_action *trace_find_action(const struct trace_reader *reader, const struct trace_action *action,
                                             struct action sought);

#endif
