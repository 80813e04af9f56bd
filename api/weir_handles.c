#include "api/weir_handles.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alike.h"
#include "common/clock.h"
#include "common/number.h"

const char *weir_version(void)
{
    return WEIR_VERSION;
}

bool tell(struct weir_error *error, const struct error *reason)
{
    if (error && error->code == 0) {
        error->code = reason->kind;
        static_assert(sizeof error->text == sizeof reason->text, "a sentence fits both ways");
        memcpy(error->text, reason->text, sizeof error->text);
    }
    return false;
}

// --- handles -----------------------------------------------------------------------

// Memory for the handle of an object. NULL if the object was not made, for `reason`, or without memory.
static void *room(const void *made, size_t size, const char *what, const struct error *reason,
                  struct weir_error *error)
{
    void *handle = made ? malloc(size) : NULL;
    struct error trouble = *reason;
    if (handle)
        return handle;
    error_no_memory(&trouble, what);
    tell(error, &trouble);
    return NULL;
}

bool is_there(const void *object, const char *what, struct weir_error *error)
{
    struct error reason = { 0 };
    if (object)
        return true;
    error_set(&reason, "%s is needed, and is NULL, as what a call returns that has failed", what);
    return tell(error, &reason);
}

struct weir_profile *wrap_profile(struct profile *profile, const struct error *reason, struct weir_error *error)
{
    struct weir_profile *handle = room(profile, sizeof *handle, "a profile", reason, error);
    if (handle)
        handle->profile = profile;
    else
        profile_free(profile);
    return handle;
}

struct weir_plan *wrap_plan(struct plan *plan, const struct error *reason, struct weir_error *error)
{
    struct weir_plan *handle = room(plan, sizeof *handle, "a plan", reason, error);
    if (handle)
        handle->plan = plan;
    else
        plan_free(plan);
    return handle;
}

struct weir_schedule *wrap_schedule(struct schedule *schedule, const struct error *reason, struct weir_error *error)
{
    struct weir_schedule *handle = room(schedule, sizeof *handle, "a schedule", reason, error);
    if (handle)
        handle->schedule = schedule;
    else
        schedule_free(schedule);
    return handle;
}

struct profile *copy_profile(const struct profile *profile, struct error *error)
{
    struct text text = { 0 };
    profile_write(profile, &text);
    struct profile *copy =
        text_ok(&text, "a profile", error) ? profile_read(text.data, text.length, "the profile", error) : NULL;
    text_clear(&text);
    return copy;
}

// --- texts -------------------------------------------------------------------------

char *hand_text(struct text *text, struct weir_error *error)
{
    struct error reason = { 0 };
    char *taken = text_take(text, &reason);
    text_clear(text);
    if (!taken)
        tell(error, &reason);
    return taken;
}

char *hand_made(bool good, struct text *text, const struct error *reason, struct weir_error *error)
{
    if (good)
        return hand_text(text, error);
    text_clear(text);
    tell(error, reason);
    return NULL;
}

bool save_text(struct text *text, const char *path, struct weir_error *error)
{
    struct error reason = { 0 };
    const bool good = text_save(text, path, &reason);
    text_clear(text);
    return good || tell(error, &reason);
}

bool hand_answer(struct text *document, struct text *text, struct weir_answer *answer, struct weir_error *error)
{
    answer->document = hand_text(document, error);
    answer->text = hand_text(text, error);
    if (answer->document && answer->text)
        return true;
    weir_answer_clear(answer);
    return false;
}

void weir_text_free(char *text)
{
    free(text);
}

void weir_answer_clear(struct weir_answer *answer)
{
    free(answer->document);
    free(answer->text);
    *answer = (struct weir_answer){ NULL, NULL };
}

const char *document_name(const char *name)
{
    return name ? name : "the text";
}

// --- options -----------------------------------------------------------------------

struct cluster *given_cluster(const char *given, const char *field, uint64_t memory_bytes, struct error *error)
{
    const bool is_document = given && given[strspn(given, " \t\r\n")] == '{';
    struct cluster *cluster = NULL;
    if (!given)
        error_set(error, "%s is needed: a line (\"2 devices, 1GiB, 10GB/s 1us\"), a file or a document's text", field);
    else
        cluster = is_document ? cluster_read(given, strlen(given), "cluster", error) : cluster_load(given, error);
    for (size_t i = 0; cluster && memory_bytes && i < cluster->device_count; i++)
        cluster->devices[i].memory_bytes = memory_bytes;
    return cluster;
}

bool given_choice(const char *name, const char *what, const char *const *names, unsigned *choice, struct error *error)
{
    char list[200] = "", said[ALIKE_SAID];
    struct alike alike = { .distance = 0 };
    size_t used = 0;
    *choice = 0;
    if (!name)
        return true;
    for (unsigned i = 0; names[i]; i++) {
        *choice = i;
        if (strcmp(name, names[i]) == 0)
            return true;
        alike_try(&alike, name, names[i]);
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    return error_set(error, "%s: \"%.60s\" is none of %s%s", what, name, list, alike_said(&alike, said));
}

bool given_optimizer(const char *name, enum optimizer_kind *kind, struct error *error)
{
    unsigned choice;
    const bool good = given_choice(name, "optimizer", optimizer_names, &choice, error);
    *kind = name ? (enum optimizer_kind)choice : OPTIMIZER_USUAL;
    return good;
}

bool given_tied(const char *name, enum tied *tied, struct error *error)
{
    unsigned choice;
    const bool good = given_choice(name, "tied", tied_names, &choice, error);
    *tied = name ? (enum tied)choice : TIED_USUAL;
    return good;
}

bool weir_parse_bytes(const char *text, uint64_t *bytes, struct weir_error *error)
{
    struct error reason = { 0 };
    return bytes_parse(text, bytes, &reason) || tell(error, &reason);
}

bool weir_parse_time(const char *text, uint64_t *ns, struct weir_error *error)
{
    struct error reason = { 0 };
    return time_parse(text, ns, &reason) || tell(error, &reason);
}

bool weir_parse_span(const char *text, uint64_t *ns, struct weir_error *error)
{
    struct error reason = { 0 };
    return span_parse(text, ns, &reason) || tell(error, &reason);
}

bool weir_parse_rate(const char *text, uint64_t *bytes_per_second, struct weir_error *error)
{
    struct error reason = { 0 };
    return rate_parse(text, bytes_per_second, &reason) || tell(error, &reason);
}

// --- progress ----------------------------------------------------------------------

void watching_tell(struct watching *watching, const char *format, ...)
{
    enum { EVERY_NS = 100000000, WORDS = 200 };
    const struct weir_watch *watch = watching->watch;
    const uint64_t now_ns = watch && watch->progress ? clock_now_ns() : 0;
    if (now_ns == 0 || now_ns < watching->not_before_ns)
        return;
    watching->not_before_ns = now_ns + EVERY_NS;
    char words[WORDS];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    watch->progress(watch->self, words);
}

const volatile sig_atomic_t *watching_stop(const struct watching *watching)
{
    return watching->watch ? watching->watch->stop : NULL;
}
