#include "profiler/estimate/estimated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "profiler/estimate/framework.h"

struct estimated *estimated_of(const struct estimate *estimate)
{
    struct estimated *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->model = estimate->model;
    made->request = estimate->request;
    const char *products = estimate->request.products;
    if (products && strcmp(products, estimate->request.dtype) != 0)
        snprintf(made->products, sizeof made->products, "%s", products);
    if (made->request.like)
        made->request.gradient_bytes = framework_states(&made->model, &estimate->request).gradients;
    made->request.dtype = made->request.products = NULL;
    return made;
}

struct estimated *estimated_copy(const struct estimated *estimated)
{
    struct estimated *made = malloc(sizeof *made);
    if (made)
        *made = *estimated;
    return made;
}

// --- members of both objects ----------------------------------------------------------

// A number, a flag, or a word of an enum (`words`). Words are written, except the first of those whose `most` is 1. A
// number is not written if it is
// `usual`, unless that is less than `least`; a flag is not written if it is false.
struct member {
    const char *key;
    size_t at;
    enum { NUMBER, FLAG, WORD } kind;
    uint64_t usual, least, most;
    const char *const *words;
};

#define REQUEST(member) offsetof(struct estimated, request.member)
#define MODEL(member) offsetof(struct estimated, model.member)
#define DEGREE(key) { #key, REQUEST(key), NUMBER, 1, 1, 1 << 16, NULL }
#define NUMBER_OF_MODEL(key, least) { #key, MODEL(key), NUMBER, 0, least, JSON_MAX, NULL }
#define WORD_OF_MODEL(key, words) { #key, MODEL(key), WORD, 0, 0, 1, words }
#define FLAG_OF_MODEL(key, member) { key, MODEL(member), FLAG, 0, 0, 1, NULL }
#define WORD_OF(key, words) { #key, REQUEST(key), WORD, 0, 0, 0, words }

static const struct member how_members[] = {
    DEGREE(tensor), DEGREE(context), DEGREE(expert), DEGREE(data), DEGREE(inner_ranks),
    { "sequence", REQUEST(sequence), NUMBER, 0, 1, JSON_MAX, NULL },
    { "sequence_parallel", REQUEST(sequence_parallel), FLAG, 0, 0, 1, NULL },
    WORD_OF(shard, estimate_shard_words), WORD_OF(attention, estimate_attention_words),
    WORD_OF(overlap, estimate_overlap_words), WORD_OF(dispatch, estimate_dispatch_words),
    WORD_OF(loss, estimate_loss_words),
    { "within", REQUEST(within), NUMBER, 0, 0, JSON_MAX, NULL },
    { "graphs", REQUEST(graphs), FLAG, 0, 0, 1, NULL },
    { "blocking", REQUEST(blocking), FLAG, 0, 0, 1, NULL },
    { "hidden_experts", REQUEST(hidden_experts), FLAG, 0, 0, 1, NULL },
    { "compiled", REQUEST(fused_passes), FLAG, 0, 0, 1, NULL },
    { 0 },
};

static const char *const recurrence_words[] = { "none", "mamba", "mamba2", "delta", "lightning", "convolution", NULL };

static const struct member model_members[] = {
    { "layers", MODEL(layers), NUMBER, 0, 1, TRANSFORMER_MOST_LAYERS, NULL },
    { "predicted", MODEL(predicted), NUMBER, 0, 0, TRANSFORMER_MOST_PREDICTED, NULL },
    NUMBER_OF_MODEL(hidden, 1), NUMBER_OF_MODEL(heads, 1), NUMBER_OF_MODEL(kv_heads, 1), NUMBER_OF_MODEL(head_size, 1),
    NUMBER_OF_MODEL(ffn, 1), NUMBER_OF_MODEL(vocabulary, 1), NUMBER_OF_MODEL(positions, 0), NUMBER_OF_MODEL(longest, 0),
    NUMBER_OF_MODEL(window, 0), NUMBER_OF_MODEL(local_window, 0), FLAG_OF_MODEL("chunks", has_chunks),
    FLAG_OF_MODEL("gated", is_gated), FLAG_OF_MODEL("tied", is_tied), FLAG_OF_MODEL("layer_norm", has_layer_norm),
    FLAG_OF_MODEL("norms_twice", norms_twice), FLAG_OF_MODEL("caps_logits", caps_logits), FLAG_OF_MODEL("drops", drops),
    FLAG_OF_MODEL("drops_scores", drops_scores), FLAG_OF_MODEL("rotary", is_rotary), NUMBER_OF_MODEL(rotary_base, 0),
    FLAG_OF_MODEL("attention_biases", attention_biases), FLAG_OF_MODEL("output_bias", output_bias),
    FLAG_OF_MODEL("mlp_biases", mlp_biases), FLAG_OF_MODEL("normed_heads", normed_heads),
    FLAG_OF_MODEL("norms_across", norms_across), FLAG_OF_MODEL("sinks", has_sinks), NUMBER_OF_MODEL(experts, 0),
    NUMBER_OF_MODEL(idle_experts, 0), NUMBER_OF_MODEL(chosen, 0), NUMBER_OF_MODEL(expert_ffn, 0),
    NUMBER_OF_MODEL(shared_ffn, 0),
    NUMBER_OF_MODEL(dense_layers, 0), NUMBER_OF_MODEL(expert_every, 0), FLAG_OF_MODEL("gated_shared", gated_shared),
    FLAG_OF_MODEL("corrected_router", corrected_router), FLAG_OF_MODEL("biased_experts", biased_experts),
    FLAG_OF_MODEL("latent", is_latent), NUMBER_OF_MODEL(query_rank, 0), NUMBER_OF_MODEL(value_rank, 0),
    NUMBER_OF_MODEL(nope_size, 0), NUMBER_OF_MODEL(rope_size, 0), NUMBER_OF_MODEL(value_size, 0),
    FLAG_OF_MODEL("centered_norms", centered_norms), FLAG_OF_MODEL("bare_norms", bare_norms),
    FLAG_OF_MODEL("embedding_norm", embedding_norm), FLAG_OF_MODEL("parallel", is_parallel),
    FLAG_OF_MODEL("shares_norm", shares_norm), FLAG_OF_MODEL("head_bias", head_bias),
    FLAG_OF_MODEL("head_transform", head_transform), FLAG_OF_MODEL("plain_transform", plain_transform),
    FLAG_OF_MODEL("head_norm", head_norm), FLAG_OF_MODEL("reads_mean", reads_mean),
    FLAG_OF_MODEL("scales_layers", scales_layers), FLAG_OF_MODEL("bidirectional", is_bidirectional),
    NUMBER_OF_MODEL(encoder_layers, 0), NUMBER_OF_MODEL(position_buckets, 0),
    FLAG_OF_MODEL("buckets_each", buckets_each), NUMBER_OF_MODEL(token_types, 0), NUMBER_OF_MODEL(patch_numbers, 0),
    NUMBER_OF_MODEL(patch_tokens, 0), FLAG_OF_MODEL("mask_token", has_mask_token), FLAG_OF_MODEL("alibi", has_alibi),
    NUMBER_OF_MODEL(activation_parameters, 0), NUMBER_OF_MODEL(expert_hidden, 0),
    FLAG_OF_MODEL("buffered_correction", buffered_correction), FLAG_OF_MODEL("gates_attention", gates_attention),
    NUMBER_OF_MODEL(router_groups, 0), NUMBER_OF_MODEL(chosen_groups, 0),
    FLAG_OF_MODEL("lists_experts", marks_experts), WORD_OF_MODEL(recurrence, recurrence_words),
    NUMBER_OF_MODEL(index_heads, 0), NUMBER_OF_MODEL(index_size, 0), NUMBER_OF_MODEL(index_chosen, 0),
    NUMBER_OF_MODEL(scan_heads, 0), NUMBER_OF_MODEL(scan_size, 0), NUMBER_OF_MODEL(scan_groups, 0),
    NUMBER_OF_MODEL(scan_state, 0), NUMBER_OF_MODEL(scan_kernel, 0), NUMBER_OF_MODEL(scan_chunk, 0),
    NUMBER_OF_MODEL(scan_rank, 0), FLAG_OF_MODEL("scan_conv_bias", scan_conv_bias),
    FLAG_OF_MODEL("scan_bias", scan_bias), FLAG_OF_MODEL("scan_norm", scan_norm),
    FLAG_OF_MODEL("side_by_side", side_by_side),
    { 0 },
};

// Without latent attention these equal the head's size, and are not written.
static bool is_of_latent(const struct member *member)
{
    return member->at == MODEL(nope_size) || member->at == MODEL(value_size);
}

// Enums have the size of an unsigned.
static uint64_t number_at(const struct estimated *estimated, const struct member *member)
{
    const char *field = (const char *)estimated + member->at;
    uint64_t number;
    unsigned word;
    bool flag;
    switch (member->kind) {
    case NUMBER:
        return memcpy(&number, field, sizeof number), number;
    case WORD:
        return memcpy(&word, field, sizeof word), word;
    default:
        return memcpy(&flag, field, sizeof flag), flag;
    }
}

static void set_number(struct estimated *estimated, const struct member *member, uint64_t number)
{
    char *field = (char *)estimated + member->at;
    const unsigned word = (unsigned)number;
    const bool flag = number != 0;
    if (member->kind == NUMBER)
        memcpy(field, &number, sizeof number);
    else if (member->kind == WORD)
        memcpy(field, &word, sizeof word);
    else
        memcpy(field, &flag, sizeof flag);
}

// --- in words ---------------------------------------------------------------------------

static void say_key(const char *key, struct text *text)
{
    for (; *key; key++)
        text_add(text, "%c", *key == '_' ? ' ' : *key);
}

void estimated_say_model(const struct estimated *estimated, struct text *text)
{
    const struct transformer *model = &estimated->model;
    const char *comma = "";
    for (const struct member *member = model_members; member->key; member++) {
        const uint64_t number = number_at(estimated, member);
        if (number == 0 || (is_of_latent(member) && !model->is_latent))
            continue;
        text_add(text, "%s", comma);
        say_key(member->key, text);
        if (member->kind == NUMBER)
            text_add(text, " %llu", (unsigned long long)number);
        else if (member->kind == WORD)
            text_add(text, " %s", member->words[number]);
        comma = ", ";
    }
    if (model->activation[0])
        text_add(text, ", %s", model->activation);
    for (uint64_t i = 0; i < model->layers && model->local_window > 0; i++)
        if (model->is_local[i] && (i == 0 || !model->is_local[i - 1])) {
            uint64_t end = i + 1;
            while (end < model->layers && model->is_local[end])
                end++;
            text_add(text, end > i + 1 ? "%s%llu-%llu" : "%s%llu", comma, (unsigned long long)i,
                     (unsigned long long)end - 1);
            comma = " ";
        }
}

// --- the document -----------------------------------------------------------------------

static bool may_be_absent(const struct member *member)
{
    return member->kind == FLAG || (member->kind == WORD && member->most == 1)
        || (member->kind == NUMBER && member->usual >= member->least);
}

static void read_members(struct json *object, const struct member *members, struct estimated *made)
{
    for (const struct member *member = members; member->key; member++) {
        if (!json_has(object, member->key) && may_be_absent(member))
            set_number(made, member, member->usual);
        else if (member->kind == NUMBER)
            set_number(made, member, json_u64(object, member->key, member->least, member->most));
        else if (member->kind == WORD)
            set_number(made, member, json_choice(object, member->key, member->words));
        else
            set_number(made, member, json_bool(object, member->key));
    }
}

static void write_members(const struct estimated *estimated, const struct member *members, struct json_writer *writer)
{
    for (const struct member *member = members; member->key; member++) {
        const uint64_t number = number_at(estimated, member);
        if (number == member->usual && may_be_absent(member))
            continue;
        if (members == model_members && is_of_latent(member) && !estimated->model.is_latent)
            continue;
        if (member->kind == NUMBER)
            json_put_u64(writer, member->key, number);
        else if (member->kind == WORD)
            json_put_string(writer, member->key, member->words[number]);
        else
            json_put_bool(writer, member->key, number);
    }
}

// Lists of words, a flag for each.
static const struct {
    const char *key, *all;
    size_t at;
    const char *const *words;
} lists[] = { { "recompute_tensors", ESTIMATE_RECOMPUTE_WORDS, REQUEST(recompute_tensors), estimate_recompute_words },
              { "narrow", ESTIMATE_NARROW_WORDS, REQUEST(narrow), estimate_narrow_words } };
enum { LISTS = sizeof lists / sizeof lists[0] };

static void read_list(struct json *object, size_t l, struct estimated *made)
{
    unsigned flags = 0;
    struct json list = json_array(object, lists[l].key), item;
    while (json_next(&list, &item)) {
        const char *word = json_item_string(&item);
        size_t i = 0;
        while (lists[l].words[i] && strcmp(lists[l].words[i], word) != 0)
            i++;
        if (!lists[l].words[i] || flags & 1u << i)
            json_refuse(&item, "\"%.40s\" is none of %s, each once", word, lists[l].all);
        else
            flags |= 1u << i;
    }
    memcpy((char *)made + lists[l].at, &flags, sizeof flags);
}

static void write_list(const struct estimated *estimated, size_t l, struct json_writer *writer)
{
    unsigned flags;
    memcpy(&flags, (const char *)estimated + lists[l].at, sizeof flags);
    if (!flags)
        return;
    json_begin_array(writer, lists[l].key, JSON_INLINE);
    for (size_t i = 0; lists[l].words[i]; i++)
        if (flags & 1u << i)
            json_put_string(writer, NULL, lists[l].words[i]);
    json_close(writer);
}

static void read_like(struct json *object, struct estimate_request *request)
{
    char name[RATED_NAME];
    struct error error = { 0 };
    if (json_has(object, "gradient_bytes"))
        request->gradient_bytes = (uint32_t)json_u64(object, "gradient_bytes", 2, 4);
    if (request->gradient_bytes == 3)
        json_refuse_key(object, "gradient_bytes", "gradients are of 2 bytes or of 4");
    if (!json_has(object, "like"))
        return;
    json_string_into(object, "like", name, sizeof name);
    request->like = framework_find(name, &error);
    if (!request->like)
        json_refuse_key(object, "like", "%s", error.text);
    request->said = ~0u;
}

static void write_like(const struct estimate_request *request, struct json_writer *writer)
{
    if (request->like)
        json_put_string(writer, "like", request->like->name);
    if (request->gradient_bytes)
        json_put_u64(writer, "gradient_bytes", request->gradient_bytes);
}

static void read_local(struct json *object, struct transformer *model)
{
    struct json list, item;
    if (!json_has(object, "local"))
        return;
    list = json_array(object, "local");
    while (json_next(&list, &item))
        model->is_local[json_item_u64(&item, 0, TRANSFORMER_MOST_LAYERS - 1)] = true;
}

static void write_local(const struct transformer *model, struct json_writer *writer)
{
    if (model->local_window == 0)
        return;
    json_begin_array(writer, "local", JSON_INLINE);
    for (uint64_t i = 0; i < model->layers; i++)
        if (model->is_local[i])
            json_put_u64(writer, NULL, i);
    json_close(writer);
}

// Lists of the layers that are marked.
static const struct marked {
    const char *key;
    enum layer_mark mark;
} marked[] = { { "recurrent", LAYER_RECURRENT }, { "without_mixer", LAYER_WITHOUT_MIXER },
               { "without_mlp", LAYER_WITHOUT_MLP }, { "sparse", LAYER_SPARSE } };
enum { MARKED = sizeof marked / sizeof marked[0] };

static void read_marks(struct json *object, struct transformer *model)
{
    for (size_t m = 0; m < MARKED; m++) {
        struct json list, item;
        if (!json_has(object, marked[m].key))
            continue;
        list = json_array(object, marked[m].key);
        while (json_next(&list, &item))
            model->marks[json_item_u64(&item, 0, TRANSFORMER_MOST_LAYERS - 1)] |= (uint8_t)marked[m].mark;
    }
    for (uint64_t i = 0; i < TRANSFORMER_MOST_LAYERS; i++)
        model->has_lone_layers |= transformer_is(model, i, LAYER_WITHOUT_MIXER | LAYER_WITHOUT_MLP);
}

static void write_marks(const struct transformer *model, struct json_writer *writer)
{
    for (size_t m = 0; m < MARKED; m++) {
        uint64_t count = 0;
        for (uint64_t i = 0; i < model->layers; i++) {
            if (!transformer_is(model, i, marked[m].mark))
                continue;
            if (count++ == 0)
                json_begin_array(writer, marked[m].key, JSON_INLINE);
            json_put_u64(writer, NULL, i);
        }
        if (count > 0)
            json_close(writer);
    }
}

static void read_model(struct json *root, struct estimated *made)
{
    struct json object = json_object(root, "model");
    struct transformer *model = &made->model;
    json_string_into(&object, "family", model->name, sizeof model->name);
    read_members(&object, model_members, made);
    if (json_has(&object, "activation"))
        json_string_into(&object, "activation", model->activation, sizeof model->activation);
    if (!model->is_latent)
        model->nope_size = model->value_size = model->head_size;
    read_local(&object, model);
    read_marks(&object, model);
    if (model->experts > 0 && (model->chosen == 0 || model->chosen > model->experts || model->expert_ffn == 0
                               || model->expert_every == 0))
        json_refuse_key(&object, "experts", "are %llu, and of these chosen, expert_ffn or expert_every is missing or"
                        " too large", (unsigned long long)model->experts);
    json_end(&object);
}

static void write_model(const struct estimated *estimated, struct json_writer *writer)
{
    json_begin_object(writer, "model", JSON_LINES);
    json_put_string(writer, "family", estimated->model.name);
    write_members(estimated, model_members, writer);
    if (estimated->model.activation[0])
        json_put_string(writer, "activation", estimated->model.activation);
    write_local(&estimated->model, writer);
    write_marks(&estimated->model, writer);
    json_close(writer);
}

struct estimated *estimated_read(struct json *root, const char *key)
{
    struct estimated *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    struct json object = json_object(root, key);
    read_like(&object, &made->request);
    read_members(&object, how_members, made);
    if (json_has(&object, "products"))
        json_string_into(&object, "products", made->products, sizeof made->products);
    for (size_t l = 0; l < LISTS; l++)
        if (json_has(&object, lists[l].key))
            read_list(&object, l, made);
    read_model(&object, made);
    json_end(&object);
    return made;
}

void estimated_write(const struct estimated *estimated, struct json_writer *writer, const char *key)
{
    json_begin_object(writer, key, JSON_LINES);
    write_like(&estimated->request, writer);
    write_members(estimated, how_members, writer);
    if (estimated->products[0])
        json_put_string(writer, "products", estimated->products);
    for (size_t l = 0; l < LISTS; l++)
        write_list(estimated, l, writer);
    write_model(estimated, writer);
    json_close(writer);
}
