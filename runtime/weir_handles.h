// Private: what is behind weir.h's handles, and how errors, texts and progress cross over.
#ifndef RUNTIME_WEIR_HANDLES_H
#define RUNTIME_WEIR_HANDLES_H

#include "partitioner/cost/priced.h"
#include "runtime/weir.h"

struct weir_profile {
    struct profile *profile;
};

struct weir_plan {
    struct plan *plan;
};

struct weir_schedule {
    struct schedule *schedule;
};

// A run that can be drawn: pictures simulate it once more, and then write down who did what when.
struct weir_simulation {
    struct priced priced;
    struct simulation simulation;
};

// Returns false: `return tell(error, &reason)`.
bool tell(struct weir_error *error, const struct error *reason);

// Whether what a call needs is not NULL; else code 2, unless an error stands already. `what` is its name in weir.h.
bool is_there(const void *object, const char *what, struct weir_error *error);

// Puts what was made behind a handle of its own, or frees it; NULL, with the reason, where it is NULL itself.
struct weir_profile *wrap_profile(struct profile *profile, const struct error *reason, struct weir_error *error);
struct weir_plan *wrap_plan(struct plan *plan, const struct error *reason, struct weir_error *error);
struct weir_schedule *wrap_schedule(struct schedule *schedule, const struct error *reason, struct weir_error *error);

// Once more, by its document.
struct profile *copy_profile(const struct profile *profile, struct error *error);

// A text for the caller, or to a file. Both take it, whole or not.
char *hand_text(struct text *text, struct weir_error *error);
bool save_text(struct text *text, const char *path, struct weir_error *error);
bool hand_answer(struct text *document, struct text *text, struct weir_answer *answer, struct weir_error *error);

// What errors call a document.
const char *document_name(const char *name);

// A cluster's line, file or text, with this much memory on each device if it is not 0; `field` is what an error calls
// one that is needed and NULL. The kind is the same of struct weir_planning's and struct weir_sweeping's optimizer, and
// what they say of tied layers; NULL is the usual.
struct cluster *given_cluster(const char *given, const char *field, uint64_t memory_bytes, struct error *error);
bool given_optimizer(const char *name, enum optimizer_kind *kind, struct error *error);
bool given_tied(const char *name, enum tied *tied, struct error *error);

// The place of `name` in `names`, which end in NULL; 0 where it is NULL. An error names `what` and lists them.
bool given_choice(const char *name, const char *what, const char *const *names, unsigned *choice, struct error *error);

// A transformer's config.json, as file or text; a device that is estimated for, built in, as file or as text; and how,
// with what is usual in the places of nothing.
struct transformer;
struct rated_device;
struct estimate_request;
bool given_model(const char *config, struct transformer *model, struct error *error);
bool given_rated_device(const char *given, struct rated_device *device, struct error *error);
bool given_estimating(const struct weir_estimating *given, struct estimate_request *request, struct error *error);

// Whom a long call tells, as often as weir.h says. A NULL watch is told nothing.
struct watching {
    const struct weir_watch *watch;
    uint64_t not_before_ns;
};
void watching_tell(struct watching *watching, const char *format, ...) __attribute__((format(printf, 2, 3)));
const volatile sig_atomic_t *watching_stop(const struct watching *watching);

// Whether the layers make sense, before anything is made of them.
bool are_sound(const struct weir_layer *layers, size_t count, struct error *error);

#endif
