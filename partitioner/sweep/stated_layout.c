// Which layers the stages of a stated layout have, and which of them are recomputed.
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "partitioner/sweep/stated.h"

// --- what is run again ----------------------------------------------------------------------------------------

static const struct {
    const char *name;
    unsigned module, again;
} modules[] = {
    { "core_attn", MODULE_ATTENTION, 0 }, { "mlp", MODULE_MLP, 0 },
    { "moe", MODULE_EXPERTS, 0 },         { "layernorm", 0, RECOMPUTE_NORMS },
    { "moe_act", 0, RECOMPUTE_ACTIVATIONS },  { "mla_up_proj", 0, RECOMPUTE_LATENT },
};

static bool add_module(const char *word, size_t length, struct stated_recompute *recompute)
{
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (strlen(modules[i].name) == length && strncmp(modules[i].name, word, length) == 0) {
            recompute->modules |= modules[i].module;
            recompute->again |= modules[i].again;
            return true;
        }
    return false;
}

bool stated_recompute_parse(const char *text, struct stated_recompute *recompute, struct error *error)
{
    *recompute = (struct stated_recompute){ .said = text, .how = STATED_NOTHING };
    if (strcmp(text, "none") == 0)
        return true;
    recompute->how = STATED_SELECTIVE;
    if (strcmp(text, "selective") == 0)
        return true;
    recompute->how = STATED_BLOCKS;
    recompute->blocks = UINT64_MAX;
    if (strcmp(text, "full") == 0)
        return true;
    if (*text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 8) {
        recompute->blocks = strtoull(text, NULL, 10);
        return true;
    }
    *recompute = (struct stated_recompute){ .said = text, .how = STATED_MODULES };
    for (const char *module = text;;) {
        const size_t length = strcspn(module, ",");
        if (!add_module(module, length, recompute))
            return error_set(error,
                             "\"%.40s\" is none of none, selective, full, how many blocks of each rank, nor some of"
                             " core_attn, mlp, moe, layernorm, moe_act, mla_up_proj with commas between them", text);
        if (!module[length])
            return true;
        module += length + 1;
    }
}

// --- Megatron's layouts ----------------------------------------------------------------------------------------

enum { MOST_LAYOUT = 1 << 16 };

static bool refuse_layout(const char *why, struct error *error)
{
    return error_set(error, "layout: %s; it is made of E, t, m, L and |, groups in brackets, and *N behind any of"
                     " these, such as Et*3|(t*3|)*6tL", why);
}

// Repeats what was written from `from` on: after "*3" it is there three times.
static bool repeat(const char **cursor, size_t from, struct text *out, struct error *error)
{
    if (**cursor != '*')
        return true;
    char *end;
    const size_t length = out->length - from;
    const unsigned long times = strtoul(*cursor + 1, &end, 10);
    if (end == *cursor + 1 || times < 1 || times > 4096 || length * times > MOST_LAYOUT)
        return refuse_layout("a * has a number from 1 to 4096 behind it", error);
    *cursor = end;
    char *unit = strndup(out->data ? out->data + from : "", length);
    if (unit)
        text_add_repeated(out, unit, times - 1);
    out->failed |= !unit;
    free(unit);
    return true;
}

static bool expand(const char **cursor, int depth, struct text *out, struct error *error)
{
    while (**cursor && **cursor != ')') {
        const size_t from = out->length;
        const char symbol = *(*cursor)++;
        if (symbol == ',')
            continue;
        if (symbol == '(') {
            if (depth == 8 || !expand(cursor, depth + 1, out, error) || *(*cursor)++ != ')')
                return error->kind != ERROR_NONE ? false : refuse_layout("a bracket is not closed", error);
        } else if (strchr("EtmL|", symbol)) {
            text_add(out, "%c", symbol);
        } else {
            return refuse_layout("it has another letter", error);
        }
        if (!repeat(cursor, from, out, error))
            return false;
    }
    return out->length <= MOST_LAYOUT || refuse_layout("it is too long", error);
}

// --- stages ------------------------------------------------------------------------------------------------------

// Layers are given to the stages in order. Layers that predict tokens further on are layers of their own, if the
// model has them. If it has none, an m in a layout is one more block like the last one.
struct giving {
    const struct stated_request *request;
    uint64_t block, predicted;
    struct stated_stage *stages;
};

static void give_block(struct giving *giving, size_t stage)
{
    const struct transformer *model = giving->request->model;
    const uint64_t block = giving->block < model->layers ? giving->block : model->layers - 1;
    giving->stages[stage].counts[estimate_attention_part(model, block)]++;
    giving->stages[stage].counts[estimate_rest_part(model, block)]++;
    giving->stages[stage].counts[PART_CROSSING] += giving->block + 1 == model->encoder_layers;
    giving->block++;
}

static void give_predicted(struct giving *giving, size_t stage)
{
    giving->stages[stage].counts[PART_PREDICTED]++;
    giving->predicted++;
}

static bool give_layout(struct giving *giving, size_t count, struct error *error)
{
    struct text stages = { 0 };
    const char *cursor = giving->request->layout;
    bool good = expand(&cursor, 0, &stages, error) && (!*cursor || refuse_layout("a bracket is not opened", error));
    size_t stage = 0;
    for (size_t i = 0; good && i < stages.length; i++) {
        const char symbol = stages.data[i];
        stage += symbol == '|';
        if (symbol == 'm' && giving->request->how.without_mtp)
            good = error_set(error, "layout: it has m, multi-token prediction, which was to be left out");
        else if (stage >= count)
            good = error_set(error, "layout: it has more stages than ranks x chunks (%zu)", count);
        else if (symbol == 'm' && giving->request->model->predicted > 0)
            give_predicted(giving, stage);
        else if (symbol == 't' || symbol == 'm')
            give_block(giving, stage);
        else if (symbol == 'E' || symbol == 'L')
            giving->stages[stage].counts[symbol == 'E' ? PART_EMBEDDING : PART_HEAD]++;
    }
    if (good && stage + 1 < count)
        good = error_set(error, "layout: it has %zu stages, and ranks x chunks are %zu", stage + 1, count);
    if (good && giving->block < giving->request->model->layers)
        good = error_set(error, "layout: it has %llu blocks of the model's %llu", (unsigned long long)giving->block,
                         (unsigned long long)giving->request->model->layers);
    if (good && giving->predicted != giving->request->model->predicted)
        good = error_set(error, "layout: it has m %llu times, and of the model's layers %llu predict tokens further on",
                         (unsigned long long)giving->predicted, (unsigned long long)giving->request->model->predicted);
    if (good && stages.failed)
        good = error_no_memory(error, "a layout");
    text_clear(&stages);
    return good;
}

// The blocks of a stage if they are given evenly. If only (layers + 2) divides, both ends have one less, beside the
// embedding and the head (Megatron's --account-for-embedding-in-pipeline-split and its counterpart for the loss). If
// that does not divide either, the numbers are as even as possible.
static uint64_t even_blocks(uint64_t layers, uint64_t stages, uint64_t stage)
{
    if (layers % stages != 0 && (layers + 2) % stages == 0)
        return (layers + 2) / stages - (stage == 0) - (stage + 1 == stages);
    return layers * (stage + 1) / stages - layers * stage / stages;
}

static bool give_blocks(struct giving *giving, size_t count, struct error *error)
{
    const struct stated_request *request = giving->request;
    if (request->blocks.count && request->blocks.count != count)
        return error_set(error, "blocks: %zu numbers, and ranks x chunks are %zu stages", request->blocks.count, count);
    for (size_t s = 0; s < count; s++) {
        const uint64_t blocks =
            request->blocks.count ? request->blocks.at[s] : even_blocks(request->model->layers, count, s);
        for (uint64_t i = 0; i < blocks && giving->block <= request->model->layers; i++)
            give_block(giving, s);
    }
    giving->stages[0].counts[PART_EMBEDDING] = 1;
    giving->stages[count - 1].counts[PART_PREDICTED] = (double)request->model->predicted;
    giving->stages[count - 1].counts[PART_HEAD] = 1;
    return giving->block == request->model->layers
        || error_set(error, "blocks: they are not the model's %llu in all", (unsigned long long)request->model->layers);
}

double stated_blocks(const struct transformer *model, const struct stated_stage *stage)
{
    double blocks = 0;
    for (int i = PART_ATTENTION; i < PART_PREDICTED; i++)
        blocks += estimate_begins_block(model, (enum layer_part)i) ? stage->counts[i] : 0;
    return blocks;
}

// Recomputes the first blocks of each rank, spread alike over its stages. The embedding and the head are never
// recomputed.
static void run_again(const struct stated_request *request, struct stated_stage *stage)
{
    const struct stated_recompute *recompute = &request->recompute;
    const double blocks = stated_blocks(request->model, stage);
    double share = recompute->how == STATED_BLOCKS && blocks > 0
        ? (double)recompute->blocks / request->chunks / blocks : 0;
    share = share > 1 ? 1 : share;
    for (int i = PART_ATTENTION; i < PART_HEAD; i++)
        stage->again[i] = share * stage->counts[i];
    if (recompute->modules & MODULE_MLP)
        stage->again[PART_MLP] = stage->counts[PART_MLP];
    if (recompute->modules & MODULE_EXPERTS)
        stage->again[PART_EXPERTS] = stage->counts[PART_EXPERTS];
}

static void take_plan(const struct stated_request *request, struct stated_stage *stages)
{
    const struct plan *plan = request->plan;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        for (uint32_t i = stage->first; i < stage->end; i++)
            stages[s].counts[estimate_part(request->model, i)]++;
        for (size_t r = 0; r < stage->recompute_count; r++)
            for (uint32_t i = stage->recompute[r].first; i < stage->recompute[r].end; i++)
                stages[s].again[estimate_part(request->model, i)]++;
    }
}

struct stated_stage *stated_stages(const struct stated_request *request, struct error *error)
{
    const size_t count = (size_t)request->ranks * request->chunks;
    struct stated_stage *stages = calloc(count, sizeof *stages);
    struct giving giving = { .request = request, .stages = stages };
    if (!stages)
        return error_null(error_no_memory(error, "stages"));
    if (request->plan) {
        take_plan(request, stages);
        return stages;
    }
    if (!(request->layout ? give_layout : give_blocks)(&giving, count, error)) {
        free(stages);
        return NULL;
    }
    for (size_t s = 0; s < count; s++)
        run_again(request, &stages[s]);
    return stages;
}
