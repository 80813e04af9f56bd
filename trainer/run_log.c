#include "trainer/run_log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/pause.h"
#include "trainer/rates.h"

struct run_log {
    struct run_log_request request;
    int file;
    bool is_idle;     // another process writes to the file; nothing is written here
    bool has_begun;   // else there is no run to end
    bool has_failed;  // a line could not be written; no later one is written, so that the log has no gap
};

static const char *const events[] = { "begin", "step", "evaluation", "kept", "end", NULL };
enum line_kind { EVENT_BEGIN, EVENT_STEP, EVENT_EVALUATION, EVENT_KEPT, EVENT_END };

static const char *const ends[] = { "complete", "stopped", "failed", NULL };

// --- reading -----------------------------------------------------------------------------

// What the lines so far mean for the next one.
struct place {
    const struct run_log_run *run;
    struct run_curve *past;
    uint64_t step;  // steps made
    bool has_begun, has_ended;
};

static void read_begin(struct json *line, struct place *place)
{
    char plan_hash[HASH_SIZE], data_hash[HASH_SIZE];
    json_format(line, "weir.log");
    const char *model = json_string(line, "model");
    const uint64_t seed = json_u64(line, "seed", 0, JSON_MAX);
    json_string_into(line, "data_hash", data_hash, HASH_SIZE);
    json_string_into(line, "plan_hash", plan_hash, HASH_SIZE);
    json_string(line, "schedule");
    const uint64_t steps = json_u64(line, "steps", 1, JSON_MAX), step = json_u64(line, "step", 0, steps);
    struct json bytes = json_array(line, "bytes"), item;
    while (json_next(&bytes, &item))
        json_item_u64(&item, 0, JSON_MAX);
    if (place->run && strcmp(model, place->run->model) != 0)
        json_refuse_key(line, "model", "is \"%.80s\", and this run is of \"%.80s\": give it a log of its own", model,
                        place->run->model);
    else if (place->run && seed != place->run->seed)
        json_refuse_key(line, "seed", "is %llu, and this run's is %llu: give it a log of its own",
                        (unsigned long long)seed, (unsigned long long)place->run->seed);
    else if (place->run && strcmp(data_hash, place->run->data_hash) != 0)
        json_refuse_key(line, "data_hash", "is %s, and this run's is %s: give it a log of its own", data_hash,
                        place->run->data_hash);
    place->step = step;
    place->has_begun = true;
    place->has_ended = false;
    if (place->past)
        run_curve_cut(place->past, step);
}

static void read_step(struct json *line, struct place *place)
{
    const uint64_t step = json_u64(line, "step", 1, JSON_MAX);
    const bool has_loss = !json_null(line, "loss");
    const double loss = has_loss ? json_fraction(line, "loss") : NAN;
    json_string(line, "rate");
    if (!json_null(line, "gradient_norm"))
        json_fraction(line, "gradient_norm");
    if (!json_null(line, "loss_scale"))
        json_string(line, "loss_scale");
    json_bool(line, "skipped");
    json_u64(line, "tokens", 1, JSON_MAX);
    json_u64(line, "took_ns", 0, JSON_MAX);
    json_fraction(line, "bubble");
    json_u64(line, "slowest_stage", 0, UINT32_MAX);
    if (step != place->step + 1)
        json_refuse_key(line, "step", "is %llu, and the line before is of step %llu", (unsigned long long)step,
                        (unsigned long long)place->step);
    place->step = step;
    if (place->past)
        run_curve_add(place->past, &place->past->trained, step, loss / log(2));
}

static void read_evaluation(struct json *line, struct place *place)
{
    const uint64_t step = json_u64(line, "step", 0, JSON_MAX);
    const bool has_bits = !json_null(line, "bits");
    const double bits = has_bits ? json_fraction(line, "bits") : NAN;
    const double right = json_has(line, "right") ? json_fraction(line, "right") : NAN;
    if (json_has(line, "auc"))
        json_fraction(line, "auc");
    json_bool(line, "best");
    if (step != place->step)
        json_refuse_key(line, "step", "is %llu, and the line before is of step %llu", (unsigned long long)step,
                        (unsigned long long)place->step);
    if (!place->past)
        return;
    run_curve_add(place->past, &place->past->held, step, bits);
    run_curve_add(place->past, &place->past->right, step, right);
}

static void read_kept(struct json *line, const struct place *place)
{
    const uint64_t step = json_u64(line, "step", 1, JSON_MAX);
    if (step > place->step)
        json_refuse_key(line, "step", "is %llu, and so far there are %llu", (unsigned long long)step,
                        (unsigned long long)place->step);
}

static void read_end(struct json *line, struct place *place)
{
    const uint64_t step = json_u64(line, "step", 0, JSON_MAX);
    const size_t how = json_choice(line, "how", ends);
    if (strcmp(ends[how], "failed") == 0)
        json_string(line, "reason");
    if (step != place->step)
        json_refuse_key(line, "step", "is %llu, and the line before is of step %llu", (unsigned long long)step,
                        (unsigned long long)place->step);
    place->has_ended = true;
}

// The JSON reader counts lines within the line it is given, and calls it line 1. Replaces that with the line's name,
// which already has its number.
static bool refuse_syntax(const char *name, struct error *error)
{
    static const char only_line[] = ": line 1, ";
    const struct error fault = *error;
    const size_t named = strlen(name);
    if (strncmp(fault.text, name, named) != 0 || strncmp(fault.text + named, only_line, strlen(only_line)) != 0)
        return false;
    *error = (struct error){ 0 };
    return error_set(error, "%s, %s", name, fault.text + named + strlen(only_line));
}

// Reads a line, without its line end.
static bool read_line(const char *line, size_t length, const char *name, struct place *place, struct error *error)
{
    struct json_document *document = json_parse(line, length, name, error);
    if (!document)
        return refuse_syntax(name, error);
    struct json root = json_root(document);
    const size_t event = json_choice(&root, "event", events);
    json_string(&root, "time");
    if (event != EVENT_BEGIN && !place->has_begun)
        json_refuse_key(&root, "event", "is \"%s\", and a log begins with \"begin\"", events[event]);
    else if (event != EVENT_BEGIN && place->has_ended)
        json_refuse_key(&root, "event", "is \"%s\" behind an \"end\"", events[event]);
    else if (event == EVENT_BEGIN)
        read_begin(&root, place);
    else if (event == EVENT_STEP)
        read_step(&root, place);
    else if (event == EVENT_EVALUATION)
        read_evaluation(&root, place);
    else if (event == EVENT_KEPT)
        read_kept(&root, place);
    else
        read_end(&root, place);
    json_end(&root);
    const bool good = json_ok(document, error);
    json_free(document);
    return good;
}

bool run_log_read(const char *text, size_t length, const char *name, const struct run_log_run *run,
                  struct run_curve *past, size_t *whole, struct error *error)
{
    struct place place = { .run = run, .past = past };
    size_t number = 0;
    *whole = 0;
    for (const char *line = text, *end; (end = memchr(line, '\n', length - (size_t)(line - text))); line = end + 1) {
        char where[600];
        snprintf(where, sizeof where, "%.500s: line %zu", name, ++number);
        if (!read_line(line, (size_t)(end - line), where, &place, error))
            return false;
        *whole = (size_t)(end + 1 - text);
    }
    return true;
}

// --- opening -----------------------------------------------------------------------------

static bool cannot(const char *path, const char *what, struct error *error)
{
    return error_set_kind(error, ERROR_MACHINE, "%s: cannot be %s: %s", path, what, strerror(errno));
}

static bool remove_torn(const struct run_log *log, size_t whole, size_t length, struct error *error)
{
    char sentence[1000];
    if (whole == length)
        return true;
    if (ftruncate(log->file, (off_t)whole) != 0)
        return cannot(log->request.path, "cut behind its last whole line", error);
    snprintf(sentence, sizeof sentence, "%.500s: its last line was cut off, and is removed (%zu bytes)",
             log->request.path, length - whole);
    log->request.say(log->request.self, sentence);
    return true;
}

// How every log begins. A file without a complete line counts as a log if it begins like this.
static const char first_words[] = "{\"event\": \"begin\", \"time\": \"";

static bool begins_as_a_log(const char *text, size_t length)
{
    // complete lines are checked one by one later
    const size_t words = memchr(text, '\n', length) ? 1 : strlen(first_words);
    return length == 0 || strncmp(text, first_words, words) == 0;
}

// Reads an existing log, which must be of this run.
static bool take_past(const struct run_log *log, struct error *error)
{
    const struct run_log_request *request = &log->request;
    size_t length, whole = 0;
    char *text = text_load(request->path, &length, error);
    bool good = text
        && (begins_as_a_log(text, length)
            || error_named(error, "%s: is no log of a training run, and is left as it is: give the run another file",
                           request->path))
        && run_log_read(text, length, request->path, &request->run, request->past, &whole, error);
    if (good && whole > 0 && !request->resumes)
        good = error_named(error, "%s: is the log of a run: --resume goes on with that, or give this one another file",
                           request->path);
    good = good && remove_torn(log, whole, length, error);
    free(text);
    return good;
}

static bool yield(struct run_log *log)
{
    char sentence[1000];
    if (log->request.yields_ns == 0)
        return false;
    snprintf(sentence, sizeof sentence, "%.500s: another process still writes there, and this one's steps are not in"
             " it", log->request.path);
    log->request.say(log->request.self, sentence);
    log->is_idle = true;
    return true;
}

static bool lock(const struct run_log *log)
{
    const uint64_t from_ns = clock_now_ns();
    bool has = flock(log->file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;  // also on file systems without locks
    for (uint64_t waited_ns = 0; !has && waited_ns < log->request.yields_ns;) {
        nanosleep(&(struct timespec){ .tv_nsec = (long)pause_ns(waited_ns) }, NULL);
        has = flock(log->file, LOCK_EX | LOCK_NB) == 0;
        waited_ns = clock_now_ns() - from_ns;
    }
    return has;
}

static bool open_file(struct run_log *log, struct error *error)
{
    const char *path = log->request.path;
    struct stat about;
    log->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (log->file < 0 && errno == EISDIR)
        return error_named(error, "%s: is a folder, not a file", path);
    if (log->file < 0)
        return cannot(path, "written", error);
    if (fstat(log->file, &about) != 0)
        return cannot(path, "read", error);
    if (S_ISCHR(about.st_mode))
        return true;  // a terminal or /dev/null
    if (!S_ISREG(about.st_mode))
        return error_named(error, "%s: is a pipe or a socket, at which a run would wait for its reader: give it a file",
                           path);
    if (lock(log))
        return take_past(log, error);
    return yield(log) || error_named(error, "%s: another run is writing there: give this one a log of its own", path);
}

struct run_log *run_log_open(const struct run_log_request *request, struct error *error)
{
    struct run_log *log = calloc(1, sizeof *log);
    if (!log)
        return error_null(error_no_memory(error, "the log of a run"));
    log->request = *request;
    if (open_file(log, error))
        return log;
    if (log->file >= 0)
        close(log->file);
    free(log);
    return NULL;
}

// --- writing -----------------------------------------------------------------------------

// A full disk does not end the run, and is reported once. The log ends there.
static void fail(struct run_log *log, const char *reason)
{
    char sentence[1000];
    snprintf(sentence, sizeof sentence, "%.500s: cannot be written: %s; the run goes on without a log",
             log->request.path, reason);
    if (!log->has_failed)
        log->request.say(log->request.self, sentence);
    log->has_failed = true;
}

// Writes a line in one piece, so that no line of another process can come in between. A line that could be written
// only in part is removed again.
static void write_line(struct run_log *log, struct text *text)
{
    struct stat before;
    const bool is_known = fstat(log->file, &before) == 0 && S_ISREG(before.st_mode);
    size_t done = 0;
    ssize_t wrote = 0;
    while (!log->is_idle && !log->has_failed && !text->failed && done < text->length
           && ((wrote = write(log->file, text->data + done, text->length - done)) > 0 || (wrote < 0 && errno == EINTR)))
        done += wrote > 0 ? (size_t)wrote : 0;
    if (!log->is_idle && !log->has_failed && (text->failed || done < text->length))
        fail(log, text->failed ? "no memory" : strerror(errno));
    if (done > 0 && done < text->length && is_known && ftruncate(log->file, before.st_size) != 0)
        fail(log, strerror(errno));
    text_clear(text);
}

static struct json_writer begin_line(struct text *text, enum line_kind event)
{
    char date[40] = "";
    struct tm parts;
    const time_t now = time(NULL);
    struct json_writer json = json_writer(text);
    if (gmtime_r(&now, &parts))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
    json_begin_object(&json, NULL, JSON_INLINE);
    json_put_string(&json, "event", events[event]);
    json_put_string(&json, "time", date);
    return json;
}

static void end_line(struct run_log *log, struct json_writer *json, struct text *text)
{
    json_close(json);
    write_line(log, text);
}

void run_log_begin(struct run_log *log, uint64_t step, const struct train_result *result)
{
    const struct run_log_run *run = &log->request.run;
    struct text text = { 0 };
    struct json_writer json = begin_line(&text, EVENT_BEGIN);
    log->has_begun = true;
    json_put_format(&json, "weir.log");
    json_put_string(&json, "model", run->model);
    json_put_u64(&json, "seed", run->seed);
    json_put_string(&json, "data_hash", run->data_hash);
    json_put_string(&json, "plan_hash", run->plan_hash);
    json_put_string(&json, "schedule", run->schedule);
    json_put_u64(&json, "steps", run->steps > step ? run->steps : step);
    json_put_u64(&json, "step", step);
    json_begin_array(&json, "bytes", JSON_INLINE);
    for (uint32_t rank = 0; rank < result->ranks; rank++)
        json_put_u64(&json, NULL, result->measured_bytes[rank]);
    json_close(&json);
    end_line(log, &json, &text);
}

void run_log_step(struct run_log *log, const struct train_step *step)
{
    char rate[RATES_SIZE], scale[RATES_SIZE];
    struct text text = { 0 };
    struct json_writer json = begin_line(&text, EVENT_STEP);
    rates_format_number(step->rate, rate);
    rates_format_number(step->loss_scale, scale);
    json_put_u64(&json, "step", step->step);
    json_put_fraction(&json, "loss", step->loss);
    json_put_string(&json, "rate", rate);
    if (step->gradient_norm > 0)
        json_put_fraction(&json, "gradient_norm", step->gradient_norm);
    else
        json_put_null(&json, "gradient_norm");
    if (step->loss_scale > 0)
        json_put_string(&json, "loss_scale", scale);
    else
        json_put_null(&json, "loss_scale");
    json_put_bool(&json, "skipped", step->is_skipped);
    json_put_u64(&json, "tokens", step->tokens);
    json_put_u64(&json, "took_ns", step->took_ns);
    json_put_fraction(&json, "bubble", step->bubble);
    json_put_u64(&json, "slowest_stage", step->slowest_stage);
    end_line(log, &json, &text);
}

void run_log_evaluation(struct run_log *log, const struct train_evaluation *evaluation)
{
    struct text text = { 0 };
    struct json_writer json = begin_line(&text, EVENT_EVALUATION);
    json_put_u64(&json, "step", evaluation->step);
    json_put_fraction(&json, "bits", evaluation->bits);
    if (!isnan(evaluation->right))
        json_put_fraction(&json, "right", evaluation->right);
    if (!isnan(evaluation->auc))
        json_put_fraction(&json, "auc", evaluation->auc);
    json_put_bool(&json, "best", evaluation->is_best);
    end_line(log, &json, &text);
}

void run_log_kept(struct run_log *log, uint64_t step)
{
    struct text text = { 0 };
    struct json_writer json = begin_line(&text, EVENT_KEPT);
    json_put_u64(&json, "step", step);
    end_line(log, &json, &text);
}

static void end(struct run_log *log, uint64_t step, const char *how, const char *reason)
{
    struct text text = { 0 };
    struct json_writer json = begin_line(&text, EVENT_END);
    json_put_u64(&json, "step", step);
    json_put_string(&json, "how", how);
    if (reason)
        json_put_string(&json, "reason", reason);
    end_line(log, &json, &text);
}

bool run_log_close(struct run_log *log, uint64_t step, const char *how, const char *reason, struct error *error)
{
    if (!log)
        return true;
    if (log->has_begun)
        end(log, step, how, reason);
    const bool is_regular = fsync(log->file) == 0 || errno == EINVAL || errno == EROFS;
    if (!is_regular)
        fail(log, strerror(errno));
    close(log->file);
    const bool good = !log->has_failed
        || error_set_kind(error, ERROR_MACHINE, "%.500s: not all of the run's log could be written", log->request.path);
    free(log);
    return good;
}
