// Sound documents of every kind that Weir reads, in a folder, and the commands that read them.
#ifndef TESTS_HOSTILE_SAMPLES_H
#define TESTS_HOSTILE_SAMPLES_H

#include <stddef.h>

#include "tests/hostile/damage.h"

// The model that `nano.plan.json` is of, and `kept` has checkpoints of; and one that transformers has, too, of which
// `tied.plan.json` and the checkpoints in `tied` are.
#define SAMPLE_MODEL "gpt-nano,width=8,blocks=1,heads=2,sequence=16"
#define SAMPLE_TIED "gpt-nano,tied,width=8,blocks=1,heads=2,sequence=16"
// Likewise `clicks.plan.json` and `clicked`, whose profile is `clicks.profile.json`.
#define SAMPLE_CLICKS "dlrm,numbers=2,slots=3,ids=2,rows=9,columns=2,bottom=3,top=3,micro_batch=4"

struct sample {
    const char *file;  // behind FOLDER// it is one of a folder: then `damaged` is a copy of that, with its document in it
    enum damage_kind kind;
    // What reads it, by the name `damaged`; words are parted by a space. Where it writes a document, that is `made`,
    // and behind a bar stands what reads that.
    const char *command;
};

extern const struct sample samples[];
extern const size_t sample_count;

// Makes the documents in a new folder, which the caller removes by samples_remove(); the folder's path.
char *samples_make(void);
void samples_remove(char *folder);

// The path of a file in it; of static storage, until the next call.
const char *sample_path(const char *folder, const char *file);

// Where the document that the sample's command reads is to stand, and nothing does; one of a folder in a new copy of it.
const char *sample_place(const char *folder, const struct sample *sample);

// The bytes of a file in it, which the caller frees.
char *sample_load(const char *folder, const char *file, size_t *length);

#endif
