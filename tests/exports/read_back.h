// What is exported, read back by the rules of its format: which decision the framework would take it for. Each reader
// shares nothing with what wrote it.
#ifndef TESTS_EXPORTS_READ_BACK_H
#define TESTS_EXPORTS_READ_BACK_H

#include <stdio.h>
#include <string.h>

#include "tests/exports/named.h"

static inline const char *told_after(const char *text, const char *what)
{
    const char *at = strstr(text, what);
    if (!at)
        fail_msg("no \"%s\" in:\n%s", what, text);
    return at + strlen(what);
}

// "[1, 2, 3]": how many numbers.
static inline uint32_t told_numbers(const char *at, uint32_t *numbers)
{
    uint32_t count = 0;
    assert_int_equal(*at++, '[');
    while (*at != ']') {
        char *end;
        numbers[count++] = (uint32_t)strtoul(at, &end, 10);
        assert_true(end > at && (*end == ',' || *end == ']'));
        at = *end == ',' ? end + 2 : end;
    }
    return count;
}

// Cuts from how many blocks each stage has: the input is on the first stage, the output on the last.
static inline void told_blocks(const struct named *named, const uint32_t *blocks, uint32_t stages,
                               struct decision *told)
{
    uint32_t before = 0;
    told->stages = stages;
    for (uint32_t s = 0; s < stages; s++) {
        told->cuts[s] = s == 0 ? 0 : named->inputs + before * named->parts;
        before += blocks[s];
    }
    assert_int_equal(before, named->blocks);
    told->cuts[stages] = (uint32_t)named->profile->layer_count;
}

// The first layer of the first block of a stage, and how many blocks it has.
static inline uint32_t told_first(const struct named *named, const struct decision *told, uint32_t stage,
                                  uint32_t *blocks)
{
    const uint32_t end_of_blocks = named->inputs + named->blocks * named->parts;
    const uint32_t first = told->cuts[stage] < named->inputs ? named->inputs : told->cuts[stage];
    const uint32_t end = told->cuts[stage + 1] < end_of_blocks ? told->cuts[stage + 1] : end_of_blocks;
    *blocks = end > first ? (end - first) / named->parts : 0;
    return first;
}

// Groups of `group` blocks, of the first `most` of each stage.
static inline void told_again(const struct named *named, struct decision *told, uint32_t stage, uint32_t most,
                              uint32_t group)
{
    uint32_t blocks;
    const uint32_t first = told_first(named, told, stage, &blocks);
    blocks = blocks < most ? blocks : most;
    for (uint32_t b = 0; b < blocks; b += group) {
        const uint32_t end = b + group < blocks ? b + group : blocks;
        told->again[told->count++] = (struct segment){ first + b * named->parts, first + end * named->parts };
    }
}

// --- Megatron-Core: its two passes over the layout, without groups ------------------------

static inline uint32_t told_layout(const char *at, uint32_t *blocks)
{
    char plain[4096];
    size_t length = 0;
    for (; *at != '\''; at++)
        if (*at == '*') {
            char *end;
            const unsigned long times = strtoul(at + 1, &end, 10);
            for (unsigned long i = 1; i < times; i++) {
                plain[length] = plain[length - 1];
                length++;
            }
            at = end - 1;
        } else if (*at != ',') {
            plain[length++] = *at;
        }
    assert_true(length > 1 && length < sizeof plain && plain[0] == 'E' && plain[length - 1] == 'L');
    uint32_t stages = 1;
    memset(blocks, 0, NAMED_MOST * sizeof blocks[0]);
    for (size_t i = 1; i + 1 < length; i++) {
        assert_true(plain[i] == 't' || plain[i] == '|');
        if (plain[i] == '|')
            stages++;
        else
            blocks[stages - 1]++;
    }
    return stages;
}

static inline void told_mlps(const struct named *named, struct decision *told)
{
    for (uint32_t l = 0; l < named->profile->layer_count; l++) {
        const char *name = named->profile->layers[l].name;
        if (strlen(name) > 4 && strcmp(name + strlen(name) - 4, ".mlp") == 0)
            told->again[told->count++] = (struct segment){ l, l + 1 };
    }
}

static inline void told_megatron(const struct named *named, const struct plan *plan, const char *text,
                                 struct decision *told)
{
    uint32_t blocks[NAMED_MOST];
    const uint32_t stages = told_layout(told_after(text, "--pipeline-model-parallel-layout '"), blocks);
    assert_int_equal(strtoul(told_after(text, "--num-layers "), NULL, 10), named->blocks);
    assert_int_equal(strtoul(told_after(text, "--pipeline-model-parallel-size "), NULL, 10), plan->ranks);
    told_blocks(named, blocks, stages, told);
    if (strstr(text, "--recompute-granularity selective"))
        told_mlps(named, told);
    else if (strstr(text, "--recompute-granularity full")) {
        const uint32_t n = (uint32_t)strtoul(told_after(text, "--recompute-num-layers "), NULL, 10);
        const bool in_groups = strstr(text, "--recompute-method uniform");
        for (uint32_t s = 0; s < stages; s++)
            told_again(named, told, s, in_groups ? UINT32_MAX : n, in_groups ? n : 1);
    }
}

// --- torchtitan ---------------------------------------------------------------------------

// The layer that a module is the first of.
static inline uint32_t told_module(const struct named *named, const char *module)
{
    const uint32_t layers = (uint32_t)named->profile->layer_count;
    unsigned number;
    if (sscanf(module, "layers.%u\"", &number) == 1)
        return named->inputs + number * named->parts;
    if (strncmp(module, "tok_embeddings\"", 15) == 0)
        return 0;
    if (strncmp(module, "position\"", 9) == 0)
        return 1;
    if (strncmp(module, "norm\"", 5) == 0)
        return layers - named->outputs;
    assert_true(strncmp(module, "lm_head\"", 8) == 0);
    return layers - 1;
}

static inline void told_torchtitan(const struct named *named, const struct plan *plan, const char *text,
                                   struct decision *told)
{
    const char *at = told_after(text, "module_fqns_per_model_part = [\n");
    uint32_t next = 0;  // every module is there once, in order
    for (; strncmp(at, "        [", 9) == 0; at = strchr(at, '\n') + 1) {
        told->cuts[told->stages++] = next;
        for (const char *name = at + 8; *name != ']';) {
            name += strspn(name, "[, ");
            const uint32_t layer = told_module(named, name + 1);
            assert_true(layer == next || (named->outputs == 1 && layer == next - 1));  // a norm that is in the head
            next = layer < named->inputs || layer >= named->inputs + named->blocks * named->parts ? layer + 1
                                                                                                 : layer + named->parts;
            if (named->outputs == 1 && strncmp(name, "\"norm\"", 6) == 0)
                next = layer;
            name = strchr(name + 1, '"') + 1;
        }
    }
    assert_int_equal(next, named->profile->layer_count);
    told->cuts[told->stages] = next;
    assert_int_equal(strtoul(told_after(text, "pipeline_parallel_degree = "), NULL, 10), plan->ranks);
    for (uint32_t s = 0; strstr(text, "FullAC") && s < told->stages; s++)
        told_again(named, told, s, UINT32_MAX, 1);
}

// --- DeepSpeed and torchgpipe: each layer is one of theirs --------------------------------

static inline void told_deepspeed(const struct named *named, const struct plan *plan, const char *text,
                                  struct decision *told)
{
    (void)named;
    (void)plan;
    uint32_t numbers[NAMED_MOST];
    told->stages = told_numbers(told_after(text, "PARTS = "), told->cuts) - 1;
    const char *each = strstr(text, "    RUN_AGAIN = ["), *groups = strstr(text, "    INTERVALS = ");
    for (uint32_t s = 0; each && s < told->stages; s++) {
        each = strchr(each, '\n') + 9;
        const uint32_t count = told_numbers(each, numbers);
        for (uint32_t i = 0; i < count; i++)
            told->again[told->count++] = (struct segment){ told->cuts[s] + numbers[i], told->cuts[s] + numbers[i] + 1 };
    }
    if (groups)
        assert_int_equal(told_numbers(strchr(groups, '['), numbers), told->stages);
    for (uint32_t s = 0; groups && s < told->stages; s++)
        for (uint32_t l = told->cuts[s]; numbers[s] > 0 && l < told->cuts[s + 1]; l += numbers[s])
            told->again[told->count++] = (struct segment){ l, l + numbers[s] < told->cuts[s + 1] ? l + numbers[s]
                                                                                                  : told->cuts[s + 1] };
}

static inline void told_torchgpipe(const struct named *named, const struct plan *plan, const char *text,
                                   struct decision *told)
{
    (void)named;
    uint32_t balance[NAMED_MOST];
    told->stages = told_numbers(told_after(text, "balance="), balance);
    for (uint32_t s = 0; s < told->stages; s++)
        told->cuts[s + 1] = told->cuts[s] + balance[s];
    for (uint32_t s = 0; strstr(text, "checkpoint=\"always\"") && s < told->stages; s++)
        told->again[told->count++] = (struct segment){ told->cuts[s], told->cuts[s + 1] };
    assert_int_equal(strtoul(told_after(text, "chunks="), NULL, 10), plan->micro_batches);
}

// --- Colossal-AI --------------------------------------------------------------------------

// How it deals layers to stages by itself.
static inline void told_dealt(uint32_t layers, uint32_t stages, uint32_t *blocks)
{
    for (uint32_t s = 0; s < stages; s++)
        blocks[s] = layers / stages;
    const uint32_t rest = layers % stages, from = stages / 2 - rest / 2;
    for (uint32_t s = from; s < from + rest; s++)
        blocks[s]++;
}

static inline void told_colossalai(const struct named *named, const struct plan *plan, const char *text,
                                   struct decision *told)
{
    uint32_t blocks[NAMED_MOST], again[NAMED_MOST], ranks = (uint32_t)strtoul(told_after(text, "pp_size="), NULL, 10);
    const uint32_t stages = ranks * (uint32_t)strtoul(told_after(text, "num_model_chunks="), NULL, 10);
    if (strstr(text, "num_layers_per_stage="))
        assert_int_equal(told_numbers(told_after(text, "num_layers_per_stage="), blocks), stages);
    else
        told_dealt(named->blocks, stages, blocks);
    assert_int_equal(ranks, plan->ranks);
    told_blocks(named, blocks, stages, told);
    if (!strstr(text, "num_ckpt_layers_per_stage="))
        return;
    assert_int_equal(told_numbers(told_after(text, "num_ckpt_layers_per_stage="), again), stages);
    for (uint32_t s = 0; s < stages; s++)  // get_num_ckpt_layers(): of rank r and chunk c number r + c P
        told_again(named, told, s, again[strstr(text, "\"zbv\"") && s >= ranks ? ranks + (stages - 1 - s) : s], 1);
}

// --- nanotron -----------------------------------------------------------------------------

static inline void told_nanotron(const struct named *named, const struct plan *plan, const char *text,
                                 struct decision *told)
{
    uint32_t blocks[NAMED_MOST] = { 0 }, stages = (uint32_t)strtoul(told_after(text, "pp: "), NULL, 10), at = 0;
    assert_int_equal(stages, plan->ranks);
    if (stages > 1) {  // its loop: a module is on the rank that it is at, which moves on behind it
        const uint64_t e = strtoul(told_after(text, "llama.Embedding: "), NULL, 10);
        const uint64_t d = strtoul(told_after(text, "LlamaDecoderLayer: "), NULL, 10);
        const uint64_t h = strtoul(told_after(text, "ColumnLinear: "), NULL, 10);
        const uint64_t total = e + named->blocks * d + h;
        uint64_t sum = 0;
        for (uint32_t module = 0; module <= named->blocks + 1; module++) {
            sum += module == 0 ? e : module <= named->blocks ? d : h;
            blocks[at] += module >= 1 && module <= named->blocks;
            at += sum * stages > total * (at + 1);
        }
        assert_int_equal(at, stages - 1);
    } else {
        blocks[0] = named->blocks;
    }
    told_blocks(named, blocks, stages, told);
    for (uint32_t s = 0; strstr(text, "recompute_layer: true") && s < stages; s++)
        told_again(named, told, s, UINT32_MAX, 1);
}

// --- PyTorch's split points ---------------------------------------------------------------

static inline uint32_t told_layer(const struct named *named, const char **at)
{
    char name[40];
    const char *from = strchr(*at, '"') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(strchr(from, '"') - from), from);
    *at = strchr(from, '"') + 1;
    const uint32_t layer = profile_find_layer(named->profile, name);
    assert_true(layer < named->profile->layer_count);
    return layer;
}

static inline void told_pytorch(const struct named *named, const struct plan *plan, const char *text,
                                struct decision *told)
{
    const char *at = told_after(text, "SPLIT_SPEC = {\n");
    (void)plan;
    told->stages = 1;
    for (; *at != '}'; at = strchr(at, '\n') + 1)
        told->cuts[told->stages++] = told_layer(named, &at);
    told->cuts[told->stages] = (uint32_t)named->profile->layer_count;
    at = strstr(text, "RECOMPUTE = [\n");
    for (at = at ? strchr(at, '\n') + 1 : "]"; *at != ']'; at = strchr(at, '\n') + 1) {
        struct segment segment = { UINT32_MAX, 0 };
        while (*at != ']' && *at != '\n') {
            const uint32_t layer = told_layer(named, &at);
            assert_true(segment.first == UINT32_MAX || layer == segment.end);
            segment.first = segment.first == UINT32_MAX ? layer : segment.first;
            segment.end = layer + 1;
        }
        told->again[told->count++] = segment;
    }
}

#endif
