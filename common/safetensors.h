// Tensors in a file: the safetensors format, which the Python package of that name reads, as do most tools that load
// weights.
//
//     | 8 bytes: how long the header is, the lowest first | the header, JSON | data, tensor behind tensor |
//
//     {"__metadata__": {"step": "60"}, "out.bias": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}, ...}
//
// Offsets count from the beginning of the data. When writing, tensors of wider numbers come before those of narrower
// ones, so that all are aligned. Otherwise they are in the given order. When reading, the file may come from
// anywhere. It is accepted if:
//
//     its data has no holes and no overlaps
//     all of the data is in the file, and nothing follows it
//     each shape has as many bytes as its data
//     no name occurs twice
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
    uint64_t first, end;  // range within the data, in bytes
    const void *data;     // for writing: address of its bytes
};

struct safe_note {  // an entry of __metadata__
    const char *key, *value;
};

const char *safe_type_name(enum safe_type type);   // "BF16"
uint32_t safe_type_bytes(enum safe_type type);     // bytes per number
bool safe_tensor_bytes(const struct safe_tensor *tensor, uint64_t *bytes);  // returns false past 2^64

// --- writing ---------------------------------------------------------------------

// What was written: the number of bytes, and their hash (hash.h).
struct safe_written {
    uint64_t bytes;
    char hash[HASH_SIZE];
};

// Writes a file like output_replace(), completely or not at all. Sets `first` and `end` of the tensors.
bool safetensors_save(const char *path, struct safe_tensor *tensors, size_t count, const struct safe_note *notes,
                      size_t note_count, struct safe_written *written, struct error *error);

// --- reading ---------------------------------------------------------------------

struct safe_header {
    struct safe_tensor *tensors;  // in the order of their data
    size_t count;
    struct safe_note *notes;
    size_t note_count;
    struct json_document *document;  // which owns the names
};

// Reads a header without the 8 bytes before it, of a file with `data_bytes` bytes after it. `name` is put in front
// of every error. Cleared by safe_header_clear().
bool safe_header_read(const char *json, size_t length, uint64_t data_bytes, const char *name,
                      struct safe_header *header, struct error *error);
void safe_header_clear(struct safe_header *header);

// The value of a note, NULL if there is none.
const char *safe_header_note(const struct safe_header *header, const char *key);

// A file that is read from beginning to end, tensor by tensor, in the order of the header.
struct safe_file;

struct safe_file *safe_file_open(const char *path, struct error *error);
void safe_file_close(struct safe_file *file);
const struct safe_header *safe_file_header(const struct safe_file *file);
uint64_t safe_file_bytes(const struct safe_file *file);
uint64_t safe_file_data_at(const struct safe_file *file);  // the offset in the file at which the data begins

// Reads the data of the next tensor, `end - first` bytes.
bool safe_file_next(struct safe_file *file, void *to, struct error *error);

// The hash of all bytes of the file, once all tensors have been read.
void safe_file_hash(struct safe_file *file, char digits[HASH_SIZE]);

#endif
