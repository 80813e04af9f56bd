// A front as a table that a person reads.
#include <stdio.h>

#include "common/number.h"
#include "partitioner/sweep/plan_front.h"

enum { MOST_STAGES = 8 };

static void print_certificate(const struct front_point *point, struct text *text)
{
    char gap[NUMBER_SIZE];
    if (point->plan->certificate.proved) {
        text_add(text, "  %9s", "proved");
        return;
    }
    const double value = (double)point->plan->iteration_ns, bound = (double)point->plan->certificate.lower_bound_ns;
    snprintf(gap, sizeof gap, "%.2f %%", value > 0 ? 100 * (value - bound) / value : 0);
    text_add(text, "  %9s", gap);
}

// "6 5 7+2 23": of stage 2's seven layers two are run again.
static void print_stages(const struct plan *plan, struct text *text)
{
    for (size_t s = 0; s < plan->stage_count && s < MOST_STAGES; s++) {
        text_add(text, "%s%u", s ? " " : "", plan->stages[s].end - plan->stages[s].first);
        if (front_recomputed(&plan->stages[s]) > 0)
            text_add(text, "+%u", front_recomputed(&plan->stages[s]));
    }
    if (plan->stage_count > MOST_STAGES)
        text_add(text, " ...");
}

static void print_point(const struct front_point *point, struct text *text)
{
    char peak[NUMBER_SIZE], time[NUMBER_SIZE];
    text_add(text, "%c %7u  %10s  %10s", point->is_on_front ? '*' : ' ', point->plan->ranks,
             bytes_format(point->peak_bytes, peak), time_format(point->plan->iteration_ns, time));
    print_certificate(point, text);
    text_add(text, "  ");
    print_stages(point->plan, text);
    text_add(text, "\n");
}

static void print_sense(const struct plan_front *front, struct text *text)
{
    const struct front_point *quickest = &front->points[0], *smallest = quickest;
    size_t proved = 0;
    for (size_t i = 0; i < front->count; i++) {
        const struct front_point *point = &front->points[i];
        proved += point->plan->certificate.proved;
        if (point->is_on_front && point->plan->iteration_ns < quickest->plan->iteration_ns)
            quickest = point;
        if (point->peak_bytes < smallest->peak_bytes)
            smallest = point;
    }
    char time[NUMBER_SIZE], peak[NUMBER_SIZE], slow[NUMBER_SIZE], least[NUMBER_SIZE];
    text_add(text, "\n%zu of %zu points are proved. The quickest takes %s with %s on each of ", proved, front->count,
             time_format(quickest->plan->iteration_ns, time), bytes_format(quickest->peak_bytes, peak));
    text_add_count(text, quickest->plan->ranks, "device", "devices");
    text_add(text, ", the smallest %s with %s on each of ", time_format(smallest->plan->iteration_ns, slow),
             bytes_format(smallest->peak_bytes, least));
    text_add_count(text, smallest->plan->ranks, "device", "devices");
    if (front->stopped[0])
        text_add(text, ". It ended early: %s", front->stopped);
    text_add(text, ".\n");
    if (front->request->resolution_ppm > 0)
        text_add(text, "Points whose memory is less than %.6g %% apart may be missing (--resolution 0%% finds all).\n",
                 1e-4 * front->request->resolution_ppm);
}

void front_print(const struct plan_front *front, struct text *text)
{
    const struct search_request *search = front->request->search;
    text_add(text, "%s by %s: time against memory, ", search->profile->model, search->schedule);
    text_add_count(text, search->micro_batches, "micro-batch", "micro-batches");
    text_add(text, ", %s\n\n", optimizer_names[search->holding.optimizer]);
    text_add(text, "  devices   peak each   iteration        gap  layers of each stage (+ of them run again)\n");
    for (size_t i = 0; i < front->count; i++) {
        if (i > 0 && front->points[i].plan->ranks != front->points[i - 1].plan->ranks)
            text_add(text, "\n");
        print_point(&front->points[i], text);
    }
    text_add(text, "\n* no other has as few devices, as little memory and as little time\n");
    print_sense(front, text);
}
