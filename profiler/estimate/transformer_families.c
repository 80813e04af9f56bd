#include "profiler/estimate/transformer_families.h"

#include <stdio.h>
#include <string.h>

#include "common/alike.h"
#include "profiler/estimate/families.h"

static const struct family *const families[] = { decoder_families, expert_families, hybrid_families, encoder_families };
enum { LISTS = sizeof families / sizeof families[0] };

// Models that also see or hear, and the class of the text model within them. Whether the head reads the embedding's
// table is said beside the text model (with a default), within it, or by either, as the class has it.
static const struct wrapper {
    const char *name, *text;
    enum { TIED_BESIDE, TIED_WITHIN, TIED_BY_EITHER } tied;
    bool is_tied;
} wrappers[] = {
    { "gemma3", "gemma3_text", TIED_BESIDE, true },
    { "llava", "llama", TIED_BY_EITHER, false },
    { "llava_next", "llama", TIED_BESIDE, false },
    { "llava_next_video", "llama", TIED_BY_EITHER, false },
    { "llava_onevision", "qwen2", TIED_BY_EITHER, false },
    { "vipllava", "llama", TIED_BESIDE, false },
    { "video_llava", "llama", TIED_BESIDE, false },
    { "qwen2_vl", "qwen2_vl_text", TIED_BY_EITHER, false },
    { "qwen2_5_vl", "qwen2_5_vl_text", TIED_BY_EITHER, false },
    { "qwen3_vl", "qwen3_vl_text", TIED_BESIDE, false },
    { "qwen3_vl_moe", "qwen3_vl_moe_text", TIED_BESIDE, false },
    { "qwen3_5", "qwen3_5_text", TIED_WITHIN, false },
    { "qwen3_5_moe", "qwen3_5_moe_text", TIED_WITHIN, false },
    { "llama4", "llama4_text", TIED_WITHIN, false },
    { "mistral3", "mistral", TIED_BESIDE, true },
    { "idefics2", "mistral", TIED_BESIDE, false },
    { "idefics3", "llama", TIED_BESIDE, false },
    { "smolvlm", "llama", TIED_BESIDE, false },
    { "internvl", "qwen2", TIED_BESIDE, true },
    { "aya_vision", "cohere2", TIED_BESIDE, true },
    { "cohere2_vision", "cohere2", TIED_BESIDE, true },
    { "paligemma", "gemma", TIED_BESIDE, true },
    { "aria", "aria_text", TIED_BESIDE, false },
    { "emu3", "emu3_text_model", TIED_BESIDE, false },
    { "lfm2_vl", "lfm2", TIED_BESIDE, true },
    { "glm4v", "glm4v_text", TIED_BY_EITHER, false },
    { "glm4v_moe", "glm4v_moe_text", TIED_BESIDE, false },
};
enum { WRAPPERS = sizeof wrappers / sizeof wrappers[0] };

static const struct wrapper *find_wrapper(const char *name)
{
    for (size_t i = 0; i < WRAPPERS; i++)
        if (strcmp(wrappers[i].name, name) == 0)
            return &wrappers[i];
    return NULL;
}

// The family of this index among all; NULL after the last one.
static const struct family *family_at(size_t index)
{
    for (size_t i = 0; i < LISTS; i++)
        for (const struct family *family = families[i]; family->name; family++)
            if (index-- == 0)
                return family;
    return NULL;
}

static const struct family *find_family(const char *name)
{
    const struct family *family;
    for (size_t i = 0; (family = family_at(i)) && strcmp(family->name, name) != 0;)
        i++;
    return family;
}

void transformer_names(struct text *text)
{
    for (size_t i = 0; family_at(i); i++)
        text_add(text, "%s%s", i ? ", " : "", family_at(i)->name);
    for (size_t i = 0; i < WRAPPERS; i++)
        text_add(text, ", %s", wrappers[i].name);
}

// --- a file ---------------------------------------------------------------------

static bool has_text_model(const struct json *root)
{
    struct json value;
    return json_find(root, "text_config", &value) && json_kind(&value) == JSON_OBJECT;
}

static void refuse_type(const struct json *root, const char *name)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (size_t i = 0; family_at(i); i++)
        alike_try(&alike, name, family_at(i)->name);
    for (size_t i = 0; i < WRAPPERS; i++)
        alike_try(&alike, name, wrappers[i].name);
    json_refuse_key(root, "model_type", "\"%.40s\" is none of those that are estimated (docs/estimate.md)%s", name,
                    alike_said(&alike, said));
}

// For a file without a model_type, the error says what the file is.
static void find_type(struct json *root)
{
    struct json value;
    if (json_kind(root) != JSON_OBJECT || json_find(root, "model_type", &value))
        return;
    if (has_text_model(root))
        json_refuse_key(root, "model_type", "is missing; its text_config, in a file of its own, may have one");
    else if (json_find(root, "format", &value) && json_kind(&value) == JSON_STRING)
        json_refuse_key(root, "model_type", "is missing: the file is a \"%.40s\", not the config.json of a Hugging Face"
                        " model", json_string(root, "format"));
    else
        json_refuse_key(root, "model_type", "is missing: every config.json of a Hugging Face model has it");
}

// The activation may have any name. A model without a known one computes as fast.
static void read_activation(struct config_fields *fields, struct transformer *model)
{
    char word[64];
    fields_word(fields, "mlp_hidden_act", word, sizeof word);  // beside that of other layers
    if (!word[0])
        fields_word(fields, "hidden_activation|hidden_act|activation_function|activation", word, sizeof word);
    snprintf(model->activation, sizeof model->activation, "%.*s", (int)sizeof model->activation - 1, word);
}

// The base of the rotation of queries and keys. It is an integer in all known files; newer files have it one level
// deeper.
static void read_rotary_base(struct json *root, struct transformer *model)
{
    struct json within = *root, value;
    const bool is_deeper = !json_has(root, "rope_theta") && json_find(root, "rope_parameters", &value);
    if (is_deeper && json_kind(&value) == JSON_OBJECT)
        within = json_object(root, "rope_parameters");
    const char *key = json_has(&within, "rotary_emb_base") ? "rotary_emb_base" : "rope_theta";
    if (json_find(&within, key, &value) && json_kind(&value) == JSON_NUMBER) {
        const double base = json_fraction(&within, key);
        model->rotary_base = base >= 1 && base <= (double)JSON_MAX ? (uint64_t)(base + 0.5) : 0;
    }
}

// Heads of other tasks than the next token's. A multimodal class has a language model's.
static void say_heads(struct json *root, struct text *notes)
{
    static const char *const others[] = { "SequenceClassification", "TokenClassification", "QuestionAnswering",
                                          "MultipleChoice", "RewardModel" };
    struct json list, item;
    if (!json_find(root, "architectures", &list) || json_kind(&list) != JSON_ARRAY)
        return;
    while (json_next(&list, &item)) {
        const char *name = json_kind(&item) == JSON_STRING ? json_item_string(&item) : "";
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            if (strstr(name, others[i]))
                text_add(notes, "architectures: %.80s has a head of its own, and what is estimated is a model that"
                         " predicts tokens\n", name);
    }
}

static void say_all(struct config_fields *fields, const struct transformer *model, struct text *notes)
{
    if (!notes)
        return;
    if (fields->taken->length > 0)
        text_add(notes, "left out, and taken from the defaults of %s: %s\n", model->name, fields->taken->data);
    say_heads(fields->root, notes);
    fields_say_unread(fields, model->name, notes);
}

enum { MOST_DEFAULTS = 1024 };

static void list_defaults(const struct family *family, char defaults[MOST_DEFAULTS])
{
    static const char *const keys[FAMILY_SIZES] = { "num_hidden_layers", "hidden_size", "num_attention_heads",
                                                    "num_key_value_heads", "head_dim", "intermediate_size",
                                                    "vocab_size", "sliding_window" };
    size_t length = 0;
    for (size_t i = 0; i < FAMILY_SIZES; i++)
        if (family->sizes[i] > 0)
            length += (size_t)snprintf(defaults + length, MOST_DEFAULTS - length, "%s %u ", keys[i], family->sizes[i]);
    snprintf(defaults + length, MOST_DEFAULTS - length, "%s", family->others);
}

static void read_text_model(struct config_fields *fields, const struct family *family, struct transformer *model,
                            struct text *notes)
{
    char defaults[MOST_DEFAULTS];
    struct text taken = { 0 };
    list_defaults(family, defaults);
    fields->defaults = defaults;
    fields->taken = notes ? &taken : NULL;
    snprintf(model->name, sizeof model->name, "%s", family->name);
    if (fields_have(fields, "vocab_size"))
        model->vocabulary = fields_number(fields, "vocab_size", 1, MOST_WORDS);
    family->read(fields, model);
    if (model->vocabulary == 0)
        model->vocabulary = fields_number(fields, "vocab_size", 1, MOST_WORDS);
    if (model->is_rotary)
        read_rotary_base(fields->root, model);
    read_activation(fields, model);
    model->predicted = fields_number_or(fields, "num_nextn_predict_layers|num_mtp_layers", 0,
                                        TRANSFORMER_MOST_PREDICTED, 0);
    say_all(fields, model, notes);
    text_clear(&taken);
}

// Files of before there was a text_config have its fields beside the others.
static void read_wrapped(struct json *root, const char *name, const struct wrapper *wrapper, struct transformer *model,
                         struct text *notes)
{
    struct json text = *root;
    const bool is_within = has_text_model(root);
    if (is_within)
        text = json_object(root, "text_config");
    struct config_fields fields = { .root = &text, .is_within = is_within || wrapper };
    char type[TRANSFORMER_NAME] = "";
    if (is_within)
        fields_word(&fields, "model_type", type, sizeof type);
    const struct family *family = find_family(type[0] ? type : wrapper ? wrapper->text : "");
    if (!family) {
        refuse_type(&text, type[0] ? type : name);
        return;
    }
    if (notes)
        text_add(notes, "%.40s: its text model alone is estimated, without what sees images or hears\n", name);
    read_text_model(&fields, family, model, notes);
    if (wrapper && wrapper->tied == TIED_WITHIN)
        return;
    const bool is_said = json_has(root, "tie_word_embeddings");
    const bool beside = is_said ? json_bool(root, "tie_word_embeddings") : wrapper && wrapper->is_tied;
    if (!wrapper)
        model->is_tied = is_said ? beside : model->is_tied;
    else
        model->is_tied = beside || (wrapper->tied == TIED_BY_EITHER && model->is_tied);
}

void transformer_read_family(struct json *root, struct transformer *model, struct text *notes)
{
    char name[TRANSFORMER_NAME] = "";
    find_type(root);
    json_string_into(root, "model_type", name, sizeof name);
    const struct family *family = find_family(name);
    const struct wrapper *wrapper = find_wrapper(name);
    struct config_fields fields = { .root = root };
    if (family)
        read_text_model(&fields, family, model, notes);
    else if (wrapper || has_text_model(root))
        read_wrapped(root, name, wrapper, model, notes);
    else
        refuse_type(root, name);
}
