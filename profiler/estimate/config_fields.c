#include "profiler/estimate/config_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEY = 64 };

// --- keys -----------------------------------------------------------------------

// Copies the next of the synonyms. False after the last one.
static bool next_key(const char **keys, char key[MOST_KEY])
{
    const size_t length = strcspn(*keys, "|");
    if (length == 0)
        return false;
    snprintf(key, MOST_KEY, "%.*s", (int)length, *keys);
    *keys += length + ((*keys)[length] == '|');
    return true;
}

// The value of a key among the defaults, up to the next space; NULL if it is not there.
static const char *value_of(const char *defaults, const char *key)
{
    const size_t length = strlen(key);
    for (const char *word = defaults ? defaults : ""; *word;) {
        const bool is_it = strncmp(word, key, length) == 0 && word[length] == ' ';
        word += strcspn(word, " ");
        word += strspn(word, " ");
        if (is_it)
            return word;
        word += strcspn(word, " ");
        word += strspn(word, " ");
    }
    return NULL;
}

// The place of a value is a key of the file, which may be null there, or the text of a default.
struct found {
    char key[MOST_KEY];
    bool is_stated, is_null;
    const char *text;
};

static struct found find(const struct config_fields *fields, const char *keys)
{
    struct found found = { .text = NULL }, null = { .is_null = true };
    bool has_null = false;
    for (const char *rest = keys; next_key(&rest, found.key);) {
        struct json value;
        if (!json_find(fields->root, found.key, &value))
            continue;
        found.is_stated = json_kind(&value) != JSON_NULL;
        if (found.is_stated)
            return found;
        has_null = true;
    }
    for (const char *rest = keys; !has_null && next_key(&rest, found.key);) {
        found.text = value_of(fields->defaults, found.key);
        if (found.text)
            return found;
    }
    return has_null ? null : (struct found){ .text = NULL };
}

bool fields_have(struct config_fields *fields, const char *keys)
{
    const struct found found = find(fields, keys);
    return found.is_stated || found.text;
}

bool fields_state(struct config_fields *fields, const char *keys)
{
    return find(fields, keys).is_stated;
}

// --- values ---------------------------------------------------------------------

// A missing key is named as the first of its synonyms.
static const char *first_key(const char *keys, char key[MOST_KEY])
{
    next_key(&keys, key);
    return key;
}

static uint64_t take(struct config_fields *fields, const struct found *found)
{
    const uint64_t number = strtoull(found->text, NULL, 10);
    if (fields->taken)
        text_add(fields->taken, "%s%s %llu", fields->taken->length ? ", " : "", found->key,
                 (unsigned long long)number);
    return number;
}

uint64_t fields_number(struct config_fields *fields, const char *keys, uint64_t least, uint64_t most)
{
    const struct found found = find(fields, keys);
    char key[MOST_KEY];
    if (found.text)
        return take(fields, &found);
    return json_u64(fields->root, found.is_stated ? found.key : first_key(keys, key), least, most);
}

uint64_t fields_number_or(struct config_fields *fields, const char *keys, uint64_t least, uint64_t most,
                          uint64_t other)
{
    struct config_fields silent = *fields;
    silent.taken = NULL;
    return fields_have(fields, keys) ? fields_number(&silent, keys, least, most) : other;
}

bool fields_flag(struct config_fields *fields, const char *keys)
{
    const struct found found = find(fields, keys);
    return found.is_stated ? json_bool(fields->root, found.key) : found.text && strtoull(found.text, NULL, 10) > 0;
}

bool fields_above_zero(struct config_fields *fields, const char *keys)
{
    const struct found found = find(fields, keys);
    return found.is_stated ? json_fraction(fields->root, found.key) > 0 : found.text && strtod(found.text, NULL) > 0;
}

void fields_word(struct config_fields *fields, const char *keys, char *to, size_t size)
{
    const struct found found = find(fields, keys);
    struct json value;
    to[0] = '\0';
    if (found.text)
        snprintf(to, size, "%.*s", (int)strcspn(found.text, " "), found.text);
    else if (found.is_stated && json_find(fields->root, found.key, &value) && json_kind(&value) == JSON_STRING)
        snprintf(to, size, "%s", json_string(fields->root, found.key));
}

bool fields_list(struct config_fields *fields, const char *keys, struct json *list)
{
    const struct found found = find(fields, keys);
    if (found.is_stated)
        *list = json_array(fields->root, found.key);
    return found.is_stated;
}

void fields_know(struct config_fields *fields, const char *keys)
{
    char key[MOST_KEY];
    while (next_key(&keys, key))
        json_has(fields->root, key);
}

struct config_fields fields_object(const struct config_fields *fields, const char *key, struct json *within)
{
    struct config_fields made = *fields;
    *within = json_object(fields->root, key);
    made.root = within;
    return made;
}

// --- keys that nothing reads ----------------------------------------------------------

static bool is_among(const char *key, const char *const *words, bool (*is)(const char *, const char *))
{
    while (*words && !is(key, *words))
        words++;
    return *words;
}

static bool begins(const char *key, const char *with)
{
    return strncmp(key, with, strlen(with)) == 0;
}

static bool ends(const char *key, const char *with)
{
    const size_t length = strlen(key), other = strlen(with);
    return length >= other && strcmp(key + length - other, with) == 0;
}

static bool has_within(const char *key, const char *word)
{
    return strstr(key, word) != NULL;
}

// Words that keys of an architecture have in them.
static const char *const telling[] = {
    "attention", "attn", "bias", "layer", "head", "norm", "moe", "expert", "window", "hidden", "rank", "conv", "mamba",
    "ssm", "state", "embed", "inter", "ffn", "mlp", "residual", "vocab", "kv", "block", "chunk", "router", "index",
    "qk", "position", "alibi", "parallel", "nextn", "mtp", "lora", "cross", "group", "proj", "size", NULL,
};

// Words of keys that have such a word, and only say constants, what a model outputs, or how it is initialized and run.
static const char *const silent_ends[] = {
    "_eps", "_epsilon", "_coef", "_multiplier", "_range", "_noise", "_id", "_ids", "_implementation", "_scaling",
    "_factor", "_scale", "_dtype", "_dropout", "_pdrop", "_prob", "dropout_p", "_softcapping", "_func", "_std",
    "_token_index", "_initializer", "_kernels", "_sampling", "_decay", "_fp32", NULL,
};
static const char *const silent_begins[] = {
    "output_", "rope_", "rotary_", "partial_rotary", "time_step", "use_cache", "summary_", "initializer_", "id2",
    "label2", "quantization", "_name_or_path", "transformers", "_", "scale_attn", "reorder_and", "norm_topk", "image_",
    "vision_", "video_", "audio_", "mm_", "projector_", "generation", "torch", "dtype", "attn_impl", "chunk_size_feed",
    "is_", "tie_", "keys_to", "auto_map", "layerdrop", "scoring_", "topk_method", "aux_loss", "seq_aux", "ep_size",
    "attention_softmax", "scale_attention", "logit_scale", "use_mamba", "num_logits", "rescale_", "init_", "pad_",
    "pretraining_", "embd_", "emb_", "embedding_dropout", "residual_in", "topk_group", "n_group", "clip_qkv",
    "query_pre_attn", "position_embedding_type", "add_prefix", "finetuning", "problem_type", "classifier_", NULL,
};

static bool is_telling(const char *key)
{
    return is_among(key, telling, has_within) && !is_among(key, silent_ends, ends)
        && !is_among(key, silent_begins, begins);
}

// What is null, false, zero or empty switches nothing on.
static bool says_something(struct json *object, struct json *value)
{
    const enum json_kind kind = json_kind(value);
    if (kind == JSON_ARRAY || kind == JSON_OBJECT)
        return json_count(value) > 0;
    return kind == JSON_STRING || (kind == JSON_NUMBER && json_item_fraction(value) != 0)
        || (kind == JSON_TRUTH && json_bool(object, value->key));
}

void fields_say_unread(const struct config_fields *fields, const char *family, struct text *notes)
{
    struct json place = *fields->root, value;
    struct text keys = { 0 };
    size_t count = 0;
    while (json_next_unasked(&place, &value)) {
        if (!is_telling(value.key) || !says_something(&place, &value))
            continue;
        text_add(&keys, "%s%s", count++ ? ", " : "", value.key);
    }
    if (count > 0)
        text_add(notes, "%s: %s not read for %s: see that %s nothing that costs time or memory\n",
                 keys.data ? keys.data : "", count > 1 ? "these keys are" : "this key is", family,
                 count > 1 ? "they say" : "it says");
    text_clear(&keys);
}
