// Private: the structs behind weir.h's handles, and how errors, texts and progress pass from the library to the
// caller.
#ifndef API_WEIR_HANDLES_H
#define API_WEIR_HANDLES_H

#include "api/weir.h"
#include "partitioner/cost/priced.h"

struct weir_profile {
    struct profile *profile;
};

struct weir_plan {
    struct plan *plan;
};

struct weir_schedule {
    struct schedule *schedule;
};

// A schedule with costs and its simulation. To draw it, pictures simulate it once more and record each action.
struct weir_simulation {
    struct priced priced;
    struct simulation simulation;
};

// Hands a reason to the caller. Returns false: `return tell(error, &reason)`.
bool tell(struct weir_error *error, const struct error *reason);

// Whether an argument is not NULL. If it is NULL, the error has code 2, unless there is an error already. `what` is
// the argument's name in weir.h.
bool is_there(const void *object, const char *what, struct weir_error *error);

// Put an object behind a new handle; if that fails, free it. NULL, with the reason, if the object is NULL.
struct weir_profile *wrap_profile(struct profile *profile, const struct error *reason, struct weir_error *error);
struct weir_plan *wrap_plan(struct plan *plan, const struct error *reason, struct weir_error *error);
struct weir_schedule *wrap_schedule(struct schedule *schedule, const struct error *reason, struct weir_error *error);

// A deep copy, made by writing and reading the profile's document.
struct profile *copy_profile(const struct profile *profile, struct error *error);

// Hand a text to the caller, or save it to a file. All of them take the text, whether they succeed or not.
char *hand_text(struct text *text, struct weir_error *error);
// The same if it is good; otherwise NULL, and the reason is told.
char *hand_made(bool good, struct text *text, const struct error *reason, struct weir_error *error);
bool save_text(struct text *text, const char *path, struct weir_error *error);
bool hand_answer(struct text *document, struct text *text, struct weir_answer *answer, struct weir_error *error);

// The name of a document in errors.
const char *document_name(const char *name);

// Read fields of options (weir_options.h reads the structs).
//
// given_cluster() reads a cluster from a line, a file or a document's text. If `memory_bytes` is not 0, each device
// gets that much memory. An error calls a missing cluster `field`.
//
// given_optimizer() and given_tied() read the names in weir_partition_options and weir_sweep_options. NULL is the
// default.
struct cluster *given_cluster(const char *given, const char *field, uint64_t memory_bytes, struct error *error);
bool given_optimizer(const char *name, enum optimizer_kind *kind, struct error *error);
bool given_tied(const char *name, enum tied *tied, struct error *error);

// The index of `name` in `names`, which ends in NULL; 0 if `name` is NULL. An error names `what` and lists the names.
bool given_choice(const char *name, const char *what, const char *const *names, unsigned *choice, struct error *error);

// Read the options of an estimate: a transformer's config.json, as a file or text; a rated device, as a built-in name,
// a file or text; and how to estimate. Fields that are not set get their defaults.
struct transformer;
struct rated_device;
struct estimate_request;
bool given_model(const char *config, struct transformer *model, struct error *error);
bool given_rated_device(const char *given, struct rated_device *device, struct error *error);
bool given_estimating(const struct weir_estimate_options *given, struct estimate_request *request,
                      struct error *error);

// Progress of a long call, reported as often as weir.h says. A NULL watch gets no reports.
struct watching {
    const struct weir_watch *watch;
    uint64_t not_before_ns;
};
void watching_tell(struct watching *watching, const char *format, ...) __attribute__((format(printf, 2, 3)));
const volatile sig_atomic_t *watching_stop(const struct watching *watching);

#endif
