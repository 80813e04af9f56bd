// A plan in other frameworks' words: what one pastes into their command line or configuration.
//
//     struct text text = { 0 }, said = { 0 };
//     const struct export_format *format = export_find("megatron", &error);
//     if (!plan_export(format, &request, &text, &said, &error)) ...
//
//     PIPELINE_ARGS=(                                          text
//         --num-layers 4
//         --pipeline-model-parallel-size 2
//         --pipeline-model-parallel-layout 'Et*2|t*2L'
//     )
//     Ranks 0, 1 stand on devices 1, 0: ...                    said, a sentence a line
//
// Nothing of a plan is left out in silence. What a format cannot say is
//
//     a sentence          where the framework runs this very plan once somebody minds it (devices, states on the host);
//     rounded, and priced where the framework has only another plan near by: other cuts, other layers run again. That
//                         needs the profile, and the sentences say what the other plan takes;
//     an error            (ERROR_ANSWER) where it has none: its order of actions, unequal replicas, no memory for what
//                         was rounded.
#ifndef EXPORTS_EXPORT_H
#define EXPORTS_EXPORT_H

#include "partitioner/evaluate/belonging.h"

struct export_request {
    const struct plan *plan;
    const struct profile *profile;  // the one that the plan was made of, or NULL: nothing can be rounded then
    const uint32_t *units;          // how many layers each unit of the framework has, in order; NULL: by their names
    size_t unit_count;              // (outline.h)
    const char *base;  // "torchtitan.models.llama3.config_registry.llama3_8b": the config function that torchtitan plans; or NULL
};

struct export_format {
    const char *name;   // as the command knows it
    const char *title;  // as people call it
    const char *about;  // one line for help texts
    const struct export_words *words;  // what it can say, and how (words.h)
};

// What a plan is checked for before it is exported (plan_belongs()): EXPORT_ASKS always, EXPORT_REFUSES where a profile is
// given. A fault of the second kind is refused, one of the first is said.
enum {
    EXPORT_ASKS = BELONGS_BY_NUMBERS | BELONGS_BY_MEMORY,
    EXPORT_REFUSES = BELONGS_BY_MODEL | BELONGS_BY_PROFILE,
};

extern const struct export_format export_formats[];  // ended by a NULL name

const struct export_format *export_find(const char *name, struct error *error);

bool plan_export(const struct export_format *format, const struct export_request *request, struct text *text,
                 struct text *said, struct error *error);

#endif
