#include "schedules/pictures/trace_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/array.h"
#include "common/json_scan.h"
#include "schedules/board.h"
#include "schedules/pictures/trace_events.h"

// --- memory -------------------------------------------------------------------------

static bool has_room(void *array, size_t size, size_t count, size_t *capacity, struct error *error)
{
    return array_reserve(array, capacity, count + 1, size) || error_no_memory(error, "a trace");
}

static bool add_action(struct trace_reader *reader, struct trace_action action, struct error *error)
{
    if (!has_room(&reader->actions, sizeof action, reader->action_count, &reader->action_capacity, error))
        return false;
    reader->actions[reader->action_count++] = action;
    return true;
}

// The process with this id in the current file; it is usually that of the event before.
static struct trace_process *find_process(struct trace_reader *reader, const char *id, struct error *error)
{
    const uint32_t file = (uint32_t)reader->file_count - 1;
    for (size_t i = reader->process_count; i-- > 0 && reader->processes[i].file == file;) {
        if (strcmp(reader->processes[i].id, id) == 0)
            return &reader->processes[i];
    }
    if (reader->process_count >= MOST_RANKS)
        return error_null(error_set(error, "more than %d processes act in it", MOST_RANKS));
    if (!has_room(&reader->processes, sizeof reader->processes[0], reader->process_count, &reader->process_capacity,
                  error))
        return NULL;
    struct trace_process *process = &reader->processes[reader->process_count++];
    *process = (struct trace_process){ .file = file, .rank = NO_RANK };
    snprintf(process->id, sizeof process->id, "%s", id);
    return process;
}

// --- names --------------------------------------------------------------------------

static bool parse_torch(const char *name, const char *word, unsigned kind, struct action *action)
{
    const size_t length = strlen(word);
    if (strncmp(name, word, length) != 0 || name[length] < '0' || name[length] > '9')
        return false;
    char *end;
    errno = 0;
    const unsigned long number = strtoul(name + length, &end, 10);
    if (*end || errno || number >= NO_MICRO_BATCH)
        return false;
    *action = (struct action){ .kind = (uint8_t)kind, .micro_batch = (uint32_t)number };
    return true;
}

size_t trace_name_parse(const char *name, struct action group[MOST_JOINED], bool *stage_is_rank)
{
    struct error ignored = { 0 };
    *stage_is_rank = parse_torch(name, "Forward ", ACTION_F, group) || parse_torch(name, "Backward ", ACTION_B, group);
    if (*stage_is_rank)
        return 1;
    name += strncmp(name, "PP:", 3) == 0 ? 3 : 0;
    return (name[0] >= '0' && name[0] <= '9') || name[0] == '(' ? group_parse(name, strlen(name), group, &ignored) : 0;
}

// --- events -------------------------------------------------------------------------

// The parts of an event that matter.
struct event {
    char phase[4], name[200], category[40], process[24], thread[24];
    char start[40], length[40], recompute[40];  // in us, as written
    char process_name[40];                      // of a metadata event
    char bytes[24], device[8];                  // of a counter of memory
};

// 73 years, so that a few such times can be added.
#define MOST_NS ((uint64_t)1 << 61)

// Converts us such as "1200.5" to ns, exactly. Fractions of a ns are dropped.
static bool parse_us(const char *text, uint64_t *ns)
{
    uint64_t value = 0;
    unsigned decimals = 0;
    bool point = false;
    if (strpbrk(text, "eE")) {
        const double us = strtod(text, NULL);
        *ns = us >= 0 && us < 9e15 ? (uint64_t)(us * 1000 + 0.5) : 0;
        return us >= 0 && us < 9e15;
    }
    for (const char *letter = text; *letter; letter++) {
        if (*letter == '-')
            return false;
        point |= *letter == '.';
        if (*letter == '.' || decimals == 3)
            continue;
        decimals += point;
        if (__builtin_mul_overflow(value, 10u, &value)
            || __builtin_add_overflow(value, (unsigned)(*letter - '0'), &value))
            return false;
    }
    for (; decimals < 3; decimals++) {
        if (__builtin_mul_overflow(value, 10u, &value))
            return false;
    }
    *ns = value;
    return *text != '\0' && value <= MOST_NS;
}

// Reads a number or a string (PyTorch has both for processes).
static void take_id(struct json_scan *scan, char *buffer, size_t size)
{
    if (json_scan_peek(scan) == '"')
        json_scan_string(scan, buffer, size);
    else
        json_scan_number(scan, buffer, size);
}

static bool is_number_next(struct json_scan *scan)
{
    const char next = json_scan_peek(scan);
    return next == '-' || (next >= '0' && next <= '9');
}

static void read_arguments(struct json_scan *scan, struct event *event)
{
    char key[24];
    bool first = true;
    if (json_scan_peek(scan) != '{') {
        json_scan_skip(scan);
        return;
    }
    json_scan_begin(scan, '{');
    while (json_scan_key(scan, &first, key, sizeof key)) {
        if (strcmp(key, "name") == 0 && json_scan_peek(scan) == '"')
            json_scan_string(scan, event->process_name, sizeof event->process_name);
        else if ((strcmp(key, "bytes") == 0 || strcmp(key, "Total Allocated") == 0) && is_number_next(scan))
            json_scan_number(scan, event->bytes, sizeof event->bytes);
        else if (strcmp(key, "Device Type") == 0 && is_number_next(scan))
            json_scan_number(scan, event->device, sizeof event->device);
        else if (strcmp(key, "recompute_us") == 0 && is_number_next(scan))
            json_scan_number(scan, event->recompute, sizeof event->recompute);
        else
            json_scan_skip(scan);
    }
}

static void read_event(struct json_scan *scan, struct event *event)
{
    char key[8];
    bool first = true;
    *event = (struct event){ .phase = "" };
    json_scan_begin(scan, '{');
    while (json_scan_key(scan, &first, key, sizeof key)) {
        const bool string = json_scan_peek(scan) == '"', number = is_number_next(scan);
        if (strcmp(key, "ph") == 0 && string)
            json_scan_string(scan, event->phase, sizeof event->phase);
        else if (strcmp(key, "name") == 0 && string)
            json_scan_string(scan, event->name, sizeof event->name);
        else if (strcmp(key, "cat") == 0 && string)
            json_scan_string(scan, event->category, sizeof event->category);
        else if (strcmp(key, "pid") == 0 && (string || number))
            take_id(scan, event->process, sizeof event->process);
        else if (strcmp(key, "tid") == 0 && (string || number))
            take_id(scan, event->thread, sizeof event->thread);
        else if (strcmp(key, "ts") == 0 && number)
            json_scan_number(scan, event->start, sizeof event->start);
        else if (strcmp(key, "dur") == 0 && number)
            json_scan_number(scan, event->length, sizeof event->length);
        else if (strcmp(key, "args") == 0)
            read_arguments(scan, event);
        else
            json_scan_skip(scan);
    }
}

// The rank in a process name: "rank 3", "rank 3 / stage 3".
static uint32_t rank_of_name(const char *name)
{
    unsigned rank;
    return sscanf(name, "rank %4u", &rank) == 1 && rank < MOST_RANKS ? rank : NO_RANK;
}

static bool take_times(struct json_scan *scan, const struct event *event, struct trace_action *action)
{
    if (!parse_us(event->start, &action->start_ns))
        return json_scan_refuse(scan, "the event before it, \"%.40s\": ts: is missing, negative or too large",
                                event->name);
    if (!parse_us(event->length, &action->length_ns))
        return json_scan_refuse(scan, "the event before it, \"%.40s\": dur: is missing, negative or too large",
                                event->name);
    if (event->recompute[0] && (!parse_us(event->recompute, &action->recompute_ns)
                                || action->recompute_ns > action->length_ns))
        return json_scan_refuse(scan, "the event before it, \"%.40s\": recompute_us: is more than dur", event->name);
    return true;
}

static bool is_message_kind(unsigned kind)
{
    return kind >= ACTION_SEND_F && kind <= ACTION_RECV_B;
}

// Other messages are arrows in a trace of Weir, not complete events.
static bool is_exchange_event(const struct event *event, struct action action)
{
    return is_send(action) && strcmp(event->category, "message") == 0;
}

static uint64_t thread_of(const struct trace_reader *reader, const struct event *event)
{
    return trace_thread((uint32_t)reader->file_count - 1, event->process, event->thread);
}

// An event that is not an action may show when an action has its input, or begins to work (trace_waits.c).
static bool keep_mark(struct trace_reader *reader, const struct event *event, struct error *error)
{
    struct trace_file *file = &reader->files[reader->file_count - 1];
    struct trace_mark mark = { .kind = trace_mark_of(event->category, event->name) };
    uint64_t length_ns;
    file->has_receives |= mark.kind == MARK_RECEIVED;
    file->has_messages |= mark.kind == MARK_RECEIVED || mark.kind == MARK_MESSAGE;
    if (mark.kind == MARK_NONE || mark.kind == MARK_MESSAGE || !parse_us(event->start, &mark.time_ns)
        || !parse_us(event->length, &length_ns))
        return true;
    mark.thread = thread_of(reader, event);
    mark.time_ns += mark.kind == MARK_RECEIVED ? length_ns : 0;
    return trace_mark_add(reader, mark, error);
}

// Whether it is a counter of Weir, or a record of PyTorch's allocator (for the host or a device).
static bool is_memory(const struct event *event)
{
    return event->bytes[0] && ((strcmp(event->phase, "C") == 0 && strcmp(event->name, "memory") == 0)
                               || (strcmp(event->phase, "i") == 0 && strcmp(event->name, "[memory]") == 0));
}

static bool keep_memory(struct trace_reader *reader, struct json_scan *scan, const struct event *event)
{
    struct trace_level level = { .of_gpu = event->device[0] && strcmp(event->device, "0") != 0 };
    char *end;
    errno = 0;
    level.bytes = strtoull(event->bytes, &end, 10);
    if (errno || *end || event->bytes[0] == '-' || !parse_us(event->start, &level.time_ns)) {
        reader->summary.left_out++;
        return true;
    }
    struct trace_process *process = find_process(reader, event->process, &scan->error);
    if (!process
        || !has_room(&reader->levels, sizeof level, reader->level_count, &reader->level_capacity, &scan->error))
        return false;
    level.process = (uint32_t)(process - reader->processes);
    reader->files[reader->file_count - 1].has_gpu_levels |= level.of_gpu;
    reader->levels[reader->level_count++] = level;
    return true;
}

static bool keep_event(struct trace_reader *reader, struct json_scan *scan, const struct event *event)
{
    struct action group[MOST_JOINED];
    struct trace_action action = { .by_gpu = strncmp(event->category, "gpu_", 4) == 0 };
    const bool complete = strcmp(event->phase, "X") == 0;
    const size_t count = complete ? trace_name_parse(event->name, group, &action.stage_is_rank) : 0;
    if (count == 0 || (is_message_kind(group[0].kind) && !is_exchange_event(event, group[0]))) {
        reader->summary.left_out += count == 0;
        reader->summary.messages += count > 0;
        return !complete || count > 0 || keep_mark(reader, event, &scan->error);
    }
    struct trace_process *process = find_process(reader, event->process, &scan->error);
    if (!process || !take_times(scan, event, &action))
        return false;
    process->acts = true;
    action.process = (uint32_t)(process - reader->processes);
    action.thread = thread_of(reader, event);
    action.in_group = count > 1;
    reader->files[reader->file_count - 1].has_gpu |= action.by_gpu;
    for (size_t i = 0; i < count; i++) {
        action.action = group[i];
        if (!add_action(reader, action, &scan->error))
            return false;
    }
    return true;
}

static void take_event(struct trace_reader *reader, struct json_scan *scan)
{
    struct event event;
    if (json_scan_peek(scan) != '{') {
        json_scan_refuse(scan, "an event is an object");
        return;
    }
    read_event(scan, &event);
    if (scan->error.kind != ERROR_NONE)
        return;
    if (strcmp(event.phase, "M") == 0 && strcmp(event.name, "process_name") == 0
        && rank_of_name(event.process_name) != NO_RANK) {
        struct trace_process *process = find_process(reader, event.process, &scan->error);
        if (process)
            process->rank = rank_of_name(event.process_name);
    } else if (is_memory(&event)) {
        keep_memory(reader, scan, &event);
    } else if (strcmp(event.phase, "M") != 0) {
        keep_event(reader, scan, &event);
    }
}

static void take_events(struct trace_reader *reader, struct json_scan *scan)
{
    bool first = true;
    json_scan_begin(scan, '[');
    while (json_scan_item(scan, &first))
        take_event(reader, scan);
}

// --- files --------------------------------------------------------------------------

static void take_distributed(struct json_scan *scan, struct trace_file *file)
{
    char key[8], number[24];
    bool first = true;
    json_scan_begin(scan, '{');
    while (json_scan_key(scan, &first, key, sizeof key)) {
        if (strcmp(key, "rank") != 0) {
            json_scan_skip(scan);
            continue;
        }
        json_scan_number(scan, number, sizeof number);
        const double rank = strtod(number, NULL);
        if (!(rank >= 0 && rank < MOST_RANKS))
            json_scan_refuse(scan, "distributedInfo.rank: must be 0 to %d, not %s", MOST_RANKS - 1, number);
        else
            file->rank = (uint32_t)rank;
    }
}

static void take_base(struct json_scan *scan, struct trace_file *file)
{
    char number[24];
    char *end;
    json_scan_number(scan, number, sizeof number);
    errno = 0;
    file->base_ns = strtoull(number, &end, 10);
    if (errno || *end || number[0] == '-' || file->base_ns > MOST_NS)
        json_scan_refuse(scan, "baseTimeNanoseconds: is no time");
}

// Reads the object form, or the bare array of events.
static void take_file(struct trace_reader *reader, struct json_scan *scan)
{
    struct trace_file *file = &reader->files[reader->file_count - 1];
    char key[24];
    bool first = true, has_events = false;
    if (json_scan_peek(scan) == '[') {
        take_events(reader, scan);
        return;
    }
    json_scan_begin(scan, '{');
    while (json_scan_key(scan, &first, key, sizeof key)) {
        if (strcmp(key, "traceEvents") == 0) {
            has_events = true;
            take_events(reader, scan);
        } else if (strcmp(key, "distributedInfo") == 0 && json_scan_peek(scan) == '{') {
            take_distributed(scan, file);
        } else if (strcmp(key, "baseTimeNanoseconds") == 0) {
            take_base(scan, file);
        } else if (strcmp(key, "weir") == 0 && !reader->about.data && json_scan_peek(scan) == '{') {
            json_scan_copy(scan, &reader->about);
        } else {
            json_scan_skip(scan);
        }
    }
    if (!has_events)
        json_scan_refuse(scan, "has no traceEvents: is no trace");
}

static bool take_source(struct trace_reader *reader, struct json_scan *scan, struct error *error)
{
    if (!has_room(&reader->files, sizeof reader->files[0], reader->file_count, &reader->file_capacity, error))
        return false;
    struct trace_file *file = &reader->files[reader->file_count++];
    *file = (struct trace_file){ .rank = NO_RANK };
    snprintf(file->name, sizeof file->name, "%s", scan->name);
    take_file(reader, scan);
    return json_scan_end(scan, error);
}

static size_t read_packed(void *source, char *buffer, size_t size, struct error *error)
{
    const int count = gzread(source, buffer, (unsigned)size);
    int code = Z_OK;
    if (count >= 0 && ((size_t)count == size || gzerror(source, &code) == NULL || code == Z_OK || code == Z_STREAM_END))
        return (size_t)count;
    const char *reason = gzerror(source, &code);
    if (code == Z_ERRNO && errno == EISDIR)
        error_set(error, "is a folder, not a file");
    else if (code == Z_ERRNO)
        error_set_kind(error, ERROR_MACHINE, "cannot be read: %s", strerror(errno));
    else if (code == Z_MEM_ERROR)
        error_no_memory(error, "what is unpacked of it");
    else
        error_set(error, "cannot be unpacked: %s", code == Z_BUF_ERROR ? "it was cut off" : reason);
    return 0;
}

bool trace_reader_load(struct trace_reader *reader, const char *path, struct error *error)
{
    errno = 0;
    gzFile source = strcmp(path, "-") == 0 ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path, "rb");
    if (!source && (!errno || errno == ENOMEM))
        return error_no_memory(error, path);
    if (!source)
        return error_named(error, "%s: cannot be read: %s", path, strerror(errno));
    struct json_scan *scan = calloc(1, sizeof *scan);
    bool good = false;
    if (!scan) {
        error_no_memory(error, "a trace");
    } else {
        *scan = (struct json_scan){ .read = read_packed, .source = source, .name = path };
        good = take_source(reader, scan, error);
        if (!good)
            error_name(error, "%s", path);
    }
    free(scan);
    gzclose(source);
    return good;
}

struct bytes {
    const char *at;
    size_t left;
};

static size_t read_bytes(void *source, char *buffer, size_t size, struct error *error)
{
    (void)error;
    struct bytes *bytes = source;
    const size_t count = bytes->left < size ? bytes->left : size;
    memcpy(buffer, bytes->at, count);
    bytes->at += count;
    bytes->left -= count;
    return count;
}

bool trace_reader_take(struct trace_reader *reader, const char *text, size_t length, const char *name,
                       struct error *error)
{
    struct bytes bytes = { text, length };
    struct json_scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return error_no_memory(error, "a trace");
    *scan = (struct json_scan){ .read = read_bytes, .source = &bytes, .name = name };
    const bool good = take_source(reader, scan, error);
    free(scan);
    return good;
}

struct trace_reader *trace_reader_create(struct error *error)
{
    struct trace_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        error_no_memory(error, "a trace");
    return reader;
}

void trace_reader_free(struct trace_reader *reader)
{
    if (!reader)
        return;
    free(reader->actions);
    free(reader->marks);
    free(reader->levels);
    free(reader->processes);
    free(reader->files);
    text_clear(&reader->about);
    free(reader);
}

bool trace_reader_about(struct trace_reader *reader, struct text *about, struct error *error)
{
    *about = reader->about;
    reader->about = (struct text){ 0 };
    return !about->failed || error_no_memory(error, "a trace");
}
