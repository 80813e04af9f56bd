// Exports a plan to other frameworks, as text to paste into their command line or configuration.
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
//     Ranks 0, 1 stand on devices 1, 0: ...                    said, one sentence per line
//
// Nothing of a plan is left out in silence. What a format cannot express is one of these:
//
//     a sentence          if the framework runs this very plan, provided the user minds something (devices, optimizer
//                         states on the host);
//     rounded and priced  if the framework has only a similar plan: other cuts, other layers recomputed. This needs the
//                         profile, and the sentences say how long the other plan takes;
//     an error            (ERROR_ANSWER) if the framework has no such plan: its order of actions, unequal replicas, no
//                         memory for what was rounded.
#ifndef EXPORTS_EXPORT_H
#define EXPORTS_EXPORT_H

#include "partitioner/evaluate/belonging.h"

struct export_request {
    const struct plan *plan;
    const struct profile *profile;  // the one that the plan was made of; or NULL, then nothing can be rounded
    // The number of layers in each unit of the framework, in order; NULL: units are found by names (outline.h).
    const uint32_t *units;
    size_t unit_count;
    // The config function that torchtitan plans, such as "torchtitan.models.llama3.config_registry.llama3_8b"; or
    // NULL
    const char *base;
};

struct export_format {
    const char *name;   // as the command calls it
    const char *title;  // as people call it
    const char *about;  // one line for help texts
    const struct export_words *words;  // what it can express, and how (words.h)
};

// What a plan is checked for before it is exported (plan_belongs()): EXPORT_ASKS always, EXPORT_REFUSES if a profile
// is given. A fault of the second kind is refused; one of the first kind is a sentence.
enum {
    EXPORT_ASKS = BELONGS_BY_NUMBERS | BELONGS_BY_MEMORY,
    EXPORT_REFUSES = BELONGS_BY_MODEL | BELONGS_BY_PROFILE,
};

extern const struct export_format export_formats[];  // ended by a NULL name

const struct export_format *export_find(const char *name, struct error *error);

// Writes the plan to `text`, and the sentences to `said`, one per line. The caller clears both, whatever the result.
// False with an error.
bool plan_export(const struct export_format *format, const struct export_request *request, struct text *text,
                 struct text *said, struct error *error);

#endif
