// Models of random branches, of layers small enough to check: each reads some of those before it, of any widths,
// wrapped to its own. With a plain run of them: every layer with memory of its own, nothing cut, nothing run again.
//
//     source   y = p sin(j)                  reads nothing
//     linear   y = sum of p_i x_i            needs its inputs for W; holds dy
//     curve    y = sin(sum of x_i)           keeps the cosine; no parameters
//     square   y = p (sum of x_i)^2          needs its inputs for I and W; holds dy
//     loss     sum of all x x / 2            needs its inputs for I; hands on nothing
#ifndef TESTS_RUNTIME_GRAPH_LAYERS_H
#define TESTS_RUNTIME_GRAPH_LAYERS_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/random.h"
#include "runtime/stages/layer_inputs.h"

enum { GRAPH_MOST = 14, GRAPH_WIDEST = 200, GRAPH_READS = WEIR_MOST_INPUTS };

enum graph_kind { GRAPH_SOURCE, GRAPH_LINEAR, GRAPH_CURVE, GRAPH_SQUARE, GRAPH_LOSS };

struct graph_self {
    enum graph_kind kind;
    size_t out, count;
    size_t in[GRAPH_READS];
    uint32_t number;
};

struct graph {
    size_t count;
    struct graph_self selves[GRAPH_MOST];
    const struct weir_layer *reads[GRAPH_MOST][GRAPH_READS];
    char names[GRAPH_MOST][16];
    struct weir_layer layers[GRAPH_MOST];
};

static inline float *graph_floats(const void *p)
{
    return (float *)(uintptr_t)p;
}

// The sum of what is read, for its number j.
static inline float graph_sum(const struct graph_self *self, const struct weir_pass *pass, size_t j)
{
    float sum = 0;
    for (size_t i = 0; i < self->count; i++)
        sum += graph_floats(pass->inputs[i])[j % self->in[i]];
    return sum;
}

static inline bool graph_forward(void *it, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct graph_self *self = it;
    const float *p = pass->parameters;
    float *y = pass->output, *saved = pass->saved, loss = 0;
    if (self->out > 0)
        memset(pass->workspace, 0xff, 4 * self->out);
    for (size_t j = 0; j < self->out; j++) {
        const float sum = graph_sum(self, pass, j);
        y[j] = self->kind == GRAPH_SOURCE ? p[0] * sinf((float)(j + pass->micro_batch + 7 * pass->step))
             : self->kind == GRAPH_CURVE  ? sinf(sum) : p[0] * sum * sum;
        if (self->kind == GRAPH_CURVE)
            saved[j] = cosf(sum);
        if (self->kind == GRAPH_LINEAR)
            y[j] = 0;
        for (size_t i = 0; self->kind == GRAPH_LINEAR && i < self->count; i++)
            y[j] += p[i] * graph_floats(pass->inputs[i])[j % self->in[i]];
    }
    for (size_t i = 0; self->kind == GRAPH_LOSS && i < self->count; i++)
        for (size_t k = 0; k < self->in[i]; k++)
            loss += graph_floats(pass->inputs[i])[k] * graph_floats(pass->inputs[i])[k] / 2;
    if (self->kind == GRAPH_LOSS && pass->loss)
        *pass->loss = loss;
    return true;
}

static inline bool graph_backward_input(void *it, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct graph_self *self = it;
    const float *p = pass->parameters, *saved = pass->saved, *dy = pass->output_gradient;
    if (self->out > 0)
        memset(pass->workspace, 0xff, 4 * self->out);
    for (size_t i = 0; i < self->count; i++) {
        float *dx = pass->input_gradients[i];
        if (!dx)
            continue;
        for (size_t k = 0; k < self->in[i]; k++)
            dx[k] = self->kind == GRAPH_LOSS ? graph_floats(pass->inputs[i])[k] : 0;
        for (size_t j = 0; j < self->out; j++)
            dx[j % self->in[i]] += self->kind == GRAPH_LINEAR ? p[i] * dy[j]
                                 : self->kind == GRAPH_CURVE ? saved[j] * dy[j]
                                                             : 2 * p[0] * graph_sum(self, pass, j) * dy[j];
    }
    return true;
}

static inline bool graph_backward_weight(void *it, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct graph_self *self = it;
    const float *held = pass->held;
    float *dp = pass->gradients;
    if (self->out > 0)
        memset(pass->workspace, 0xff, 4 * self->out);
    for (size_t j = 0; j < self->out; j++) {
        const float sum = self->kind == GRAPH_SQUARE ? graph_sum(self, pass, j) : 0;
        if (self->kind == GRAPH_SOURCE)
            dp[0] += sinf((float)(j + pass->micro_batch + 7 * pass->step)) * held[j];
        else if (self->kind == GRAPH_SQUARE)
            dp[0] += sum * sum * held[j];
        for (size_t i = 0; self->kind == GRAPH_LINEAR && i < self->count; i++)
            dp[i] += graph_floats(pass->inputs[i])[j % self->in[i]] * held[j];
    }
    return true;
}

// What a backward at once is allowed: no `held`.
static inline bool graph_backward(void *it, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass own = *pass;
    own.held = (void *)(uintptr_t)pass->output_gradient;
    return graph_backward_input(it, &own, error) && graph_backward_weight(it, &own, error);
}

static inline bool graph_initialize(void *it, void *queue, void *parameters, struct weir_error *error)
{
    (void)queue, (void)error;
    const struct graph_self *self = it;
    for (size_t i = 0; i < GRAPH_READS; i++)
        graph_floats(parameters)[i] = 0.4f + 0.3f * sinf((float)(3 * self->number + i));
    return true;
}

static inline void graph_put_layer(struct graph *graph, size_t l, bool fused)
{
    const struct graph_self *self = &graph->selves[l];
    const bool trains = self->kind != GRAPH_CURVE && self->kind != GRAPH_LOSS;
    snprintf(graph->names[l], sizeof graph->names[l], "layer%zu", l);
    graph->layers[l] = (struct weir_layer){
        .name = graph->names[l], .kind = "graph", .self = &graph->selves[l],
        .parameter_bytes = trains ? 4 * GRAPH_READS : 0,
        .output_bytes = 4 * self->out,
        .saved_bytes = self->kind == GRAPH_CURVE ? 4 * self->out : 0,
        .input_kept = self->kind == GRAPH_LINEAR ? WEIR_INPUT_KEPT_WEIGHT
                    : self->kind == GRAPH_SQUARE || self->kind == GRAPH_LOSS ? WEIR_INPUT_KEPT_BOTH
                                                                             : WEIR_INPUT_KEPT_NONE,
        .held_for_weight_bytes = trains ? 4 * self->out : 0,
        .workspace_bytes = 4 * self->out, .backward_workspace_bytes = 4 * self->out,
        .forward = graph_forward, .backward_input = graph_backward_input, .backward_weight = graph_backward_weight,
        .backward = fused ? graph_backward : NULL, .initialize = trains ? graph_initialize : NULL,
        .inputs = graph->reads[l], .input_count = self->count,
    };
}

static inline void graph_read(struct graph *graph, size_t l, size_t from)
{
    struct graph_self *self = &graph->selves[l];
    for (size_t i = 0; i < self->count; i++)
        if (graph->reads[l][i] == &graph->layers[from])
            return;
    graph->reads[l][self->count] = &graph->layers[from];
    self->in[self->count++] = graph->selves[from].out;
}

static inline bool graph_is_read(const struct graph *graph, size_t layer)
{
    for (size_t l = layer + 1; l < graph->count; l++)
        for (size_t i = 0; i < graph->selves[l].count; i++)
            if (graph->reads[l][i] == &graph->layers[layer])
                return true;
    return false;
}

// Who is read by nobody else is read by some later layer that has room.
static inline void graph_random(uint64_t *seed, struct graph *graph)
{
    memset(graph, 0, sizeof *graph);
    graph->count = 3 + random_below(seed, GRAPH_MOST - 2);
    for (size_t l = 0; l < graph->count; l++) {
        struct graph_self *self = &graph->selves[l];
        const bool is_last = l + 1 == graph->count, is_source = l == 0 || (!is_last && random_below(seed, 8) == 0);
        self->number = (uint32_t)l;
        self->kind = is_last ? GRAPH_LOSS : is_source ? GRAPH_SOURCE : GRAPH_LINEAR + random_below(seed, 3);
        self->out = is_last ? 0 : 1 + random_below(seed, GRAPH_WIDEST);
        const size_t reads = is_source ? 0 : 1 + random_below(seed, 3);
        for (size_t i = 0; i < reads; i++)
            graph_read(graph, l, l - 1 - random_below(seed, l < 4 ? l : 4));
    }
    for (size_t l = 0; l + 1 < graph->count; l++) {
        size_t to = l + 1 + random_below(seed, graph->count - 1 - l);
        while (to + 1 < graph->count && (graph->selves[to].kind == GRAPH_SOURCE || graph->selves[to].count > 4))
            to++;
        if (!graph_is_read(graph, l))
            graph_read(graph, to, l);
    }
    for (size_t l = 0; l < graph->count; l++)
        graph_put_layer(graph, l, random_below(seed, 2));
}

// Some layers want no gradient of what they read. Layers of which nobody wants one are frozen.
static inline void graph_random_constants(uint64_t *seed, struct graph *graph)
{
    bool has_backward[GRAPH_MOST];
    for (size_t l = 1; l + 1 < graph->count; l++)
        graph->layers[l].has_constant_inputs = graph->selves[l].count > 0 && random_below(seed, 6) == 0;
    layers_find_backwards(graph->layers, graph->count, has_backward);
    for (size_t l = 0; l < graph->count; l++)
        graph->layers[l].is_frozen = !has_backward[l];
}

// Every layer with memory of its own. Gradients of what several read: the last reader's, and the others' added to it.
struct graph_plain {
    float y[GRAPH_MOST][GRAPH_WIDEST], dy[GRAPH_MOST][GRAPH_WIDEST], part[GRAPH_READS][GRAPH_WIDEST];
    float saved[GRAPH_MOST][GRAPH_WIDEST], work[GRAPH_WIDEST];
    float weights[GRAPH_MOST][GRAPH_READS], gradients[GRAPH_MOST][GRAPH_READS];
    float loss;
};

static inline void graph_run_plain(const struct graph *graph, struct graph_plain *plain)
{
    memset(plain, 0, sizeof *plain);
    for (size_t l = 0; l < graph->count; l++) {
        const struct weir_layer *layer = &graph->layers[l];
        struct weir_pass pass = { .parameters = plain->weights[l], .output = plain->y[l], .saved = plain->saved[l],
                                  .workspace = plain->work, .loss = &plain->loss };
        for (size_t i = 0; i < layer->input_count; i++)
            pass.inputs[i] = plain->y[layer->inputs[i] - graph->layers];
        if (layer->initialize)
            layer->initialize(layer->self, NULL, plain->weights[l], NULL);
        layer->forward(layer->self, &pass, NULL);
    }
    bool begun[GRAPH_MOST] = { false };
    for (size_t l = graph->count; l-- > 0;) {
        const struct weir_layer *layer = &graph->layers[l];
        const size_t writes = layer->has_constant_inputs ? 0 : layer->input_count;
        if (l + 1 < graph->count && !begun[l])
            continue;
        struct weir_pass pass = { .parameters = plain->weights[l], .saved = plain->saved[l], .workspace = plain->work,
                                  .output_gradient = plain->dy[l], .held = plain->dy[l],
                                  .gradients = plain->gradients[l] };
        for (size_t i = 0; i < layer->input_count; i++) {
            pass.inputs[i] = plain->y[layer->inputs[i] - graph->layers];
            pass.input_gradients[i] = writes > 0 ? plain->part[i] : NULL;
        }
        layer->backward_input(layer->self, &pass, NULL);
        layer->backward_weight(layer->self, &pass, NULL);
        for (size_t i = 0; i < writes; i++) {
            const size_t from = (size_t)(layer->inputs[i] - graph->layers);
            for (size_t k = 0; k < graph->selves[from].out; k++)
                plain->dy[from][k] = begun[from] ? plain->dy[from][k] + plain->part[i][k] : plain->part[i][k];
            begun[from] = true;
        }
    }
}

#endif
