// Stages of branched models, cut and run again anywhere, held against a plain run: to the bit, on places of exactly the
// sizes that a plan counts.
#include "runtime/stages/chain.h"
#include "tests/runtime/graph_layers.h"
#include "tests/test.h"

enum { GUARD = 256, STAGES = 5, PLACES = 10 };
enum { WEIGHTS, GRADIENTS, KEPT, THROUGH, HELD, INPUT, OUTPUT, INPUT_GRADIENT, OUTPUT_GRADIENT, WORKSPACE };

struct ran {
    struct chain *chain;
    unsigned char *at[PLACES];
    uint64_t bytes[PLACES];
};

static unsigned char *make_place(uint64_t bytes)
{
    unsigned char *at = malloc(bytes + GUARD);
    assert_non_null(at);
    memset(at, 0xff, bytes);  // NaN
    memset(at + bytes, 0x5a, GUARD);
    return at;
}

static void make_stage(struct ran *ran, const struct graph *graph, uint32_t first, uint32_t end, uint64_t *seed)
{
    struct segment segments[GRAPH_MOST];
    struct error error = { 0 };
    size_t count = 0;
    for (uint32_t l = first; l < end;) {
        const uint32_t length = (uint32_t)(1 + random_below(seed, end - l));
        if (random_below(seed, 2))
            segments[count++] = (struct segment){ l, l + length };
        l += length;
    }
    ran->chain = chain_create(graph->layers, graph->count, first, end, segments, count, 1,
                              &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1, &error);
    assert_good(ran->chain, error);
    const struct stage_bytes *bytes = &chain_stage(ran->chain)->bytes;
    const uint64_t sizes[PLACES] = { bytes->weights, bytes->gradients, bytes->kept, bytes->kept_through, bytes->held,
                                     bytes->input, bytes->output, bytes->input, bytes->output, bytes->transient };
    for (int p = 0; p < PLACES; p++) {
        ran->bytes[p] = sizes[p];
        ran->at[p] = make_place(sizes[p]);
    }
    memset(ran->at[GRADIENTS], 0, sizes[GRADIENTS]);
}

static struct stage_pass pass_of(const struct ran *ran, struct queue *queue, float *loss)
{
    return (struct stage_pass){
        .base = { .queue = queue, .parameters = ran->at[WEIGHTS], .gradients = ran->at[GRADIENTS],
                  .input = ran->at[INPUT], .input_gradient = ran->at[INPUT_GRADIENT], .output = ran->at[OUTPUT],
                  .output_gradient = ran->at[OUTPUT_GRADIENT], .saved = ran->at[KEPT], .held = ran->at[HELD],
                  .workspace = ran->at[WORKSPACE], .loss = loss },
        .kept_through = ran->at[THROUGH], .workspace_bytes = ran->bytes[WORKSPACE],
    };
}

static void poison(const struct ran *ran, int place)
{
    memset(ran->at[place], 0xff, ran->bytes[place]);
}

static void run_backward(const struct ran *ran, struct queue *queue, bool split)
{
    struct error error = { 0 };
    float none;
    const struct stage *stage = chain_stage(ran->chain);
    struct stage_pass pass = pass_of(ran, queue, &none);
    poison(ran, WORKSPACE);  // nothing may live there between F and B
    if (stage->bytes.input_life == INPUT_UNTIL_F)
        poison(ran, INPUT);
    if (!split) {
        pass.base.held = NULL;
        assert_good(stage->functions->backward(stage->self, &pass, &error), error);
        return;
    }
    assert_good(stage->functions->backward_input(stage->self, &pass, &error), error);
    poison(ran, WORKSPACE);
    poison(ran, KEPT);  // and W may use only what it is left
    if (stage->bytes.input_life != INPUT_UNTIL_W)
        poison(ran, INPUT);
    assert_good(stage->functions->backward_weight(stage->self, &pass, &error), error);
}

static void compare(uint64_t trial, const struct ran *ran, const struct graph *graph, const struct graph_plain *plain)
{
    for (size_t l = 0; l < graph->count; l++) {
        uint64_t offset;
        if (chain_find_parameters(ran->chain, &graph->layers[l], &offset)
            && memcmp(ran->at[GRADIENTS] + offset, plain->gradients[l], graph->layers[l].parameter_bytes) != 0)
            fail_msg("trial %llu: other gradients of layer %zu", (unsigned long long)trial, l);
    }
    for (int p = 0; p < PLACES; p++)
        for (size_t i = 0; i < GUARD; i++)
            if (ran->at[p][ran->bytes[p] + i] != 0x5a)
                fail_msg("trial %llu: wrote behind place %d", (unsigned long long)trial, p);
}

static void hand_over(const struct ran *from, int sent, const struct ran *to, int received)
{
    assert_int_equal(from->bytes[sent], to->bytes[received]);
    memcpy(to->at[received], from->at[sent], from->bytes[sent]);
}

// Moves the end of a stage on to where there may be a cut.
static uint32_t cut_from(const struct graph *graph, const struct profile *profile, uint32_t end)
{
    while (end > 0 && end < graph->count && !profile_can_cut_after(profile, end - 1))
        end++;
    return end;
}

// Some stages have no layers: they hand on what they get.
static void run_trial(uint64_t trial, struct queue *queue, struct graph_plain *plain)
{
    uint64_t seed = trial;
    struct error error = { 0 };
    struct graph graph;
    struct ran ran[STAGES];
    graph_random(&seed, &graph);
    if (trial % 2)
        graph_random_constants(&seed, &graph);
    struct profile *profile = chain_profile(graph.layers, graph.count, "fp32", &error);
    assert_good(profile, error);
    graph_run_plain(&graph, plain);
    const size_t stages = 1 + random_below(&seed, STAGES);
    const bool split = random_below(&seed, 2);
    float loss = -1;
    uint32_t first = 0;
    for (size_t s = 0; s < stages; s++) {
        const uint32_t left = (uint32_t)graph.count - first, least = first + (s == 0);
        const uint32_t drawn = left > 0 ? least + (uint32_t)random_below(&seed, left - (s == 0)) : first;
        const uint32_t end = s + 1 == stages ? (uint32_t)graph.count : cut_from(&graph, profile, drawn);
        make_stage(&ran[s], &graph, first, end, &seed);
        first = end;
    }
    for (size_t s = 0; s < stages; s++) {
        const struct stage *stage = chain_stage(ran[s].chain);
        const struct stage_pass pass = pass_of(&ran[s], queue, &loss);
        if (s > 0)
            hand_over(&ran[s - 1], OUTPUT, &ran[s], INPUT);
        assert_good(stage->functions->initialize(stage->self, queue, ran[s].at[WEIGHTS], &error), error);
        assert_good(stage->functions->forward(stage->self, &pass, &error), error);
    }
    if (memcmp(&loss, &plain->loss, sizeof loss) != 0)
        fail_msg("trial %llu: loss %g, not %g", (unsigned long long)trial, (double)loss, (double)plain->loss);
    for (size_t s = stages; s-- > 0;) {
        if (s + 1 < stages)
            hand_over(&ran[s + 1], INPUT_GRADIENT, &ran[s], OUTPUT_GRADIENT);
        run_backward(&ran[s], queue, split);
    }
    profile_free(profile);
    for (size_t s = 0; s < stages; s++) {
        compare(trial, &ran[s], &graph, plain);
        chain_free(ran[s].chain);
        for (int p = 0; p < PLACES; p++)
            free(ran[s].at[p]);
    }
}

static void any_cuts_and_segments_of_any_graph_equal_plain_layers(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    assert_good(queue, error);
    struct graph_plain *plain = malloc(sizeof *plain);
    for (uint64_t trial = 0; trial < test_trials(3000, 100000); trial++)
        run_trial(trial, queue, plain);
    free(plain);
    queue_free(queue);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cuts_and_segments_of_any_graph_equal_plain_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
