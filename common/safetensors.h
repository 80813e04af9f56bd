// Tensors in a file: safetensors, which Python's package of that name reads, and most of what takes weights.
//
//     | 8 bytes: how long the header is, the lowest first | the header, JSON | data, tensor behind tensor |
//
//     {"__metadata__": {"step": "60"}, "out.bias": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}, ...}
//
// Offsets count from where the data begins. What is written: tensors of wide numbers before those of narrower ones, so
// that all are aligned, otherwise in the order in which they are given. What is read may come from anywhere: data
// without holes and overlaps, all of it in the file and nothing behind it, shapes of as many bytes as their data, no
// name twice.
#ifndef COMMON_SAFETENSORS_H
#define COMMON_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/text.h"

enum safe_type {
    SAFE_BOOL, SAFE_U8, SAFE_I8, SAFE_F8_E4M3, SAFE_F8_E5M2, SAFE_I16, SAFE_U16, SAFE_F16, SAFE_BF16, SAFE_I32,
    SAFE_U32, SAFE_F32, SAFE_I64, SAFE_U64, SAFE_F64,
};

enum { SAFE_DIMENSIONS = 8 };

struct safe_tensor {
    const char *name;
    enum safe_type type;
    uint32_t dimensions;
    uint64_t shape[SAFE_DIMENSIONS];
    uint64_t first, end;  // bytes of the data
    const void *data;     // of what is written: where they are
};

struct safe_note {  // of __metadata__
    const char *key, *value;
};

const char *safe_type_name(enum safe_type type);   // "BF16"
uint32_t safe_type_bytes(enum safe_type type);     // of a number
bool safe_tensor_bytes(const struct safe_tensor *tensor, uint64_t *bytes);  // false past 2^64

// --- writing ---------------------------------------------------------------------

// What was written: how many bytes, and their hash (hash.h).
struct safe_written {
    uint64_t bytes;
    char hash[HASH_SIZE];
};

// A file as output_replace() writes one, whole or not at all. `first` and `end` of the tensors are set.
bool safetensors_save(const char *path, struct safe_tensor *tensors, size_t count, const struct safe_note *notes,
                      size_t note_count, struct safe_written *written, struct error *error);

// --- reading ---------------------------------------------------------------------

struct safe_header {
    struct safe_tensor *tensors;  // in the order of their data
    size_t count;
    struct safe_note *notes;
    size_t note_count;
    struct json_document *document;  // which has the names
};

// Of a header without the 8 bytes before it, in a file that has so many bytes behind it; `name` is in front of every
// sentence. Cleared by safe_header_clear().
bool safe_header_read(const char *json, size_t length, uint64_t data_bytes, const char *name,
                      struct safe_header *header, struct error *error);
void safe_header_clear(struct safe_header *header);

// The value of a note, NULL where there is none.
const char *safe_header_note(const struct safe_header *header, const char *key);

// A file that is read from its beginning to its end, tensor by tensor, in the order of the header.
struct safe_file;

struct safe_file *safe_file_open(const char *path, struct error *error);
void safe_file_close(struct safe_file *file);
const struct safe_header *safe_file_header(const struct safe_file *file);
uint64_t safe_file_bytes(const struct safe_file *file);
uint64_t safe_file_data_at(const struct safe_file *file);  // where in the file the data begins

// The data of the next tensor, `end - first` bytes.
bool safe_file_next(struct safe_file *file, void *to, struct error *error);

// Of all bytes of the file, once all tensors have been read.
void safe_file_hash(struct safe_file *file, char digits[HASH_SIZE]);

#endif
