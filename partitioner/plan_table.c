// A plan as a table that a person reads, and a sentence of sense.
#include <stdio.h>

#include "common/number.h"
#include "partitioner/plan.h"

enum { LAYERS_WIDTH = 44 };

// "embedding .. block1.mlp (5)", shortened in its middle if it must be.
static void format_layers(const struct plan_stage *stage, char buffer[2 * LAYERS_WIDTH])
{
    const uint32_t count = stage->end - stage->first;
    if (count == 0)
        snprintf(buffer, 2 * LAYERS_WIDTH, "none");
    else if (count == 1)
        snprintf(buffer, 2 * LAYERS_WIDTH, "%.36s", stage->layers[0]);
    else
        snprintf(buffer, 2 * LAYERS_WIDTH, "%.18s .. %.18s (%u)", stage->layers[0], stage->layers[count - 1], count);
}

static void print_times(const struct plan *plan, struct text *text)
{
    text_add(text, "  stage  %-*s device           F           B   recompute\n", LAYERS_WIDTH, "layers");
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        char layers[2 * LAYERS_WIDTH], f[NUMBER_SIZE], b[NUMBER_SIZE], r[NUMBER_SIZE];
        format_layers(stage, layers);
        text_add(text, "  %5zu  %-*s %6u  %10s  %10s  %10s%s\n", s, LAYERS_WIDTH, layers, stage->devices[0],
                 time_format(stage->costs.forward_ns, f), time_format(stage->costs.backward_ns, b),
                 stage->recompute_count ? time_format(stage->costs.recompute_ns, r) : "-",
                 s == plan->bottleneck_stage ? "  < bottleneck" : "");
    }
}

static void print_memory(const struct plan *plan, struct text *text)
{
    text_add(text, "\n  stage     weights   gradients   optimizer    versions        kept   transient     buffers"
                   "        peak\n");
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct stage_memory *memory = &plan->stages[s].memory;
        const uint64_t columns[] = { memory->weights_bytes,  memory->gradients_bytes, memory->optimizer_bytes,
                                     memory->versions_bytes, memory->kept_bytes,      memory->transient_bytes,
                                     memory->buffers_bytes,  memory->peak_bytes };
        char buffer[NUMBER_SIZE];
        text_add(text, "  %5zu", s);
        for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
            text_add(text, "  %10s", columns[i] ? bytes_format(columns[i], buffer) : "-");
        text_add(text, " of %s (%.0f %%)\n", bytes_format(memory->capacity_bytes, buffer),
                 100.0 * (double)memory->peak_bytes / (double)memory->capacity_bytes);
    }
}

static void print_recompute(const struct plan *plan, struct text *text)
{
    size_t printed = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        if (!stage->recompute_count)
            continue;
        text_add(text, "%s  stage %zu runs again before their backward:", printed++ ? "" : "\n", s);
        for (size_t i = 0; i < stage->recompute_count; i++) {
            const struct segment segment = stage->recompute[i];
            text_add(text, "%s %s", i ? "," : "", stage->layers[segment.first - stage->first]);
            if (segment.end - segment.first > 1)
                text_add(text, " .. %s", stage->layers[segment.end - 1 - stage->first]);
        }
        text_add(text, "\n");
    }
}

static void print_sense(const struct plan *plan, struct text *text)
{
    char time[NUMBER_SIZE], bound[NUMBER_SIZE];
    const struct certificate *certificate = &plan->certificate;
    text_add(text, "\nAn iteration takes %s, %.1f %% of it bubble (makespan); stage %u is the busiest. ",
             time_format(plan->iteration_ns, time), 100 * plan->bubble.makespan, plan->bottleneck_stage);
    if (certificate->proved)
        text_add(text, "No other cut or recomputation that fits is faster: proved.\n");
    else
        text_add(text, "Nothing that fits can take less than %s: at most %.2f %% could be gained%s%s.\n",
                 time_format(certificate->lower_bound_ns, bound), 100 * certificate->gap,
                 certificate->stopped[0] ? "; the search ended early: " : "", certificate->stopped);
}

void plan_print(const struct plan *plan, struct text *text)
{
    text_add(text, "%s by %s: ", plan->model, plan->schedule);
    text_add_count(text, plan->ranks, "rank", "ranks");
    text_add(text, ", ");
    text_add_count(text, plan->micro_batches, "micro-batch", "micro-batches");
    text_add(text, ", %s\n\n", optimizer_names[plan->holding.optimizer]);
    print_times(plan, text);
    print_memory(plan, text);
    print_recompute(plan, text);
    print_sense(plan, text);
}
