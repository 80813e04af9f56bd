// The fields of a Hugging Face config.json. A field that the file leaves out has the value that the class of its
// model type in transformers gives it.
//
// A key may have synonyms, such as "num_hidden_layers|n_layer". A field that is null is left out, and has no value.
//
//     struct config_fields fields = { .root = &root, .defaults = "hidden_size 4096 attention_bias 1" };
//     fields_number(&fields, "hidden_size", 1, 1 << 18)    of the file, or 4096
#ifndef PROFILER_ESTIMATE_CONFIG_FIELDS_H
#define PROFILER_ESTIMATE_CONFIG_FIELDS_H

#include "common/json.h"

struct config_fields {
    struct json *root;     // the object that has the fields
    const char *defaults;  // words in pairs, key and value; true is 1, and what is false or null is not there
    struct text *taken;    // collects the keys and values of sizes that were taken from the defaults; NULL: nobody asks
    bool is_within;        // in an object of a larger file, which states only what differs from the class
};

// Whether there is a value, in the file or among the defaults.
bool fields_have(struct config_fields *fields, const char *keys);
bool fields_state(struct config_fields *fields, const char *keys);  // in the file, and it is not null

// If there is no value, the first key is said to be missing. An optional number is not collected in `taken`.
uint64_t fields_number(struct config_fields *fields, const char *keys, uint64_t least, uint64_t most);
uint64_t fields_number_or(struct config_fields *fields, const char *keys, uint64_t least, uint64_t most,
                          uint64_t other);

bool fields_flag(struct config_fields *fields, const char *keys);        // without a value: false
bool fields_above_zero(struct config_fields *fields, const char *keys);  // a rate, such as that of a dropout

// Copies a word, cut at the size; "" if there is none.
void fields_word(struct config_fields *fields, const char *keys, char *to, size_t size);

// The list that a key has in the file. False if it has none.
bool fields_list(struct config_fields *fields, const char *keys, struct json *list);

// Keys that change nothing that is estimated: they count as read.
void fields_know(struct config_fields *fields, const char *keys);

// An object in the file, with the same defaults. The result must not outlive `within`.
struct config_fields fields_object(const struct config_fields *fields, const char *key, struct json *within);

// Adds a line for keys of the file that nothing has read and that may tell of its architecture.
void fields_say_unread(const struct config_fields *fields, const char *family, struct text *notes);

#endif
