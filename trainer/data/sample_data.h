// Samples as training data: pictures with their labels, or clicks. A document names the fields and lies beside a file
// of their numbers (docs/formats/data.md, clicks.md); `weir data` makes both.
//
//     numbers  |pixels of all samples to train on|of those held out|labels to train on|held out|
//
// Which sample is where in training follows from the number of samples that were consumed before it alone. So neither
// micro-batches nor ranks change what is trained on, and a batch goes on into the next epoch:
//
//     consumed  0 1 2 ..                    train_count ..
//     sample    one order of all of them    another order
#ifndef TRAINER_DATA_SAMPLE_DATA_H
#define TRAINER_DATA_SAMPLE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/output.h"
#include "models/model.h"
#include "trainer/data/click_fields.h"

enum sample_type { SAMPLE_U8, SAMPLE_U16 };  // u16: low byte first
enum { SAMPLE_NAME = 32, SAMPLE_FIELDS = 8, SAMPLE_SIZES = MODEL_FIELD_SIZES };
extern const char *const sample_types[];  // "u8", ..; NULL-terminated

struct sample_field {
    char name[SAMPLE_NAME];
    enum sample_type type;
    size_t sizes[SAMPLE_SIZES];  // of one sample, up to the first that is 0; none: one number
    uint64_t classes;            // its numbers are below it; 0: any
    uint64_t first_byte;         // in the file of numbers
};

// Numbers of one sample; 0 if they are too many to count.
uint64_t sample_field_numbers(const struct sample_field *field);

struct sample_data {
    char kind[SAMPLE_NAME];      // "fashion-mnist"
    char licence[SAMPLE_NAME];
    uint64_t train, held;        // samples
    struct sample_field fields[SAMPLE_FIELDS];
    size_t field_count;          // 0: of clicks
    struct click_fields clicks;  // without slots: of pictures or a text
    uint64_t bytes;              // of the file of numbers
    char hash[HASH_SIZE];        // of its bytes
    const unsigned char *numbers;  // mapped; NULL in a document that is not loaded
};

// Whether a file is a document of samples, by its first bytes. A file that cannot be read is none.
bool sample_data_is(const char *path);

// Reads a document without its numbers.
bool sample_data_read(struct json_document *document, struct sample_data *data, struct error *error);
void sample_data_put(const struct sample_data *data, struct text *text);

// Reads a document, and maps its numbers, whose hash is checked. False with `error`. Cleared by sample_data_clear().
bool sample_data_load(const char *path, struct sample_data *data, struct error *error);
void sample_data_clear(struct sample_data *data);

// Saves the numbers, then the document, whose bytes and hash are set. `parts` are the numbers, in their order.
bool sample_data_save(struct sample_data *data, const struct output_part *parts, size_t count, const char *path,
                      struct error *error);

// Whether the data has the fields that a model wants, in its sizes, with labels below its classes. False with a sentence
// that names the field.
bool sample_data_fits(const struct sample_data *data, const struct model *model, struct error *error);

// How pictures of a training are changed. Which way a picture is changed depends on the seed, the epoch and the
// picture alone.
struct augmentation {
    bool flips;    // half of them are mirrored
    uint32_t shift;  // each is moved by up to so many pixels both ways; what comes in is 0
};
enum { AUGMENTATION_WORD = 32 };
// "flips", "shift:2", "flips,shift:2" or "none".
bool augmentation_parse(const char *words, struct augmentation *augmentation, struct error *error);
void augmentation_format(const struct augmentation *augmentation, char word[AUGMENTATION_WORD]);

// One place of a training run: the sample that comes behind so many others.
struct sample_place {
    uint64_t sample, epoch;
};
struct sample_place sample_data_place(const struct sample_data *data, uint64_t seed, uint64_t consumed);
// Samples of a document in its order: first those to train on, then those held out.
struct sample_range {
    uint64_t first, count;
};
struct sample_range sample_data_held(const struct sample_data *data);

// The place of a sample in evaluations: the held-out sample of a number.
struct sample_place sample_data_held_place(const struct sample_data *data, uint64_t number);

// The first field as floats from 0 to 1, and the second as targets; of a sample, or of its picture as it is changed.
// `augmentation` may be NULL. Clicks have no pixels; their target is their label.
void sample_data_pixels(const struct sample_data *data, struct sample_place place, uint64_t seed,
                        const struct augmentation *augmentation, float *pixels);
void sample_data_targets(const struct sample_data *data, struct sample_place place, uint64_t seed,
                         const struct augmentation *augmentation, int32_t *targets);

#endif
