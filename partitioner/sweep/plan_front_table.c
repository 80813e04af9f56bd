// Prints a front as a table for people.
#include <stdio.h>

#include "common/number.h"
#include "common/shown.h"
#include "partitioner/sweep/plan_front.h"

enum { MOST_STAGES = 8 };

void front_print_layers(const struct plan *plan, size_t most, struct text *text)
{
    for (size_t s = 0; s < plan->stage_count && s < most; s++) {
        text_add(text, "%s%u", s ? " " : "", plan->stages[s].end - plan->stages[s].first);
        if (front_recomputed(&plan->stages[s]) > 0)
            text_add(text, "+%u", front_recomputed(&plan->stages[s]));
    }
    text_add(text, plan->stage_count > most ? " ..." : "");
}

static void print_point(const struct front_point *point, struct text *text)
{
    const struct certificate *certificate = &point->plan->certificate;
    const double value = (double)point->plan->iteration_ns, bound = (double)certificate->lower_bound_ns;
    char peak[NUMBER_SIZE], time[NUMBER_SIZE], gap[NUMBER_SIZE] = "proved";
    if (!certificate->proved)
        snprintf(gap, sizeof gap, "%.2f %%", value > 0 ? 100 * (value - bound) / value : 0);
    text_add(text, "%c %7u  %10s  %10s  %9s  ", point->is_on_front ? '*' : ' ', point->plan->ranks,
             bytes_format(point->peak_bytes, peak), time_format(point->plan->iteration_ns, time), gap);
    front_print_layers(point->plan, MOST_STAGES, text);
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
        text_add(text,
                 "Points whose memory is less than %.6g %% apart may be missing (--resolution 0%% looks for all).\n",
                 1e-4 * front->request->resolution_ppm);
}

void front_print(const struct plan_front *front, struct text *text)
{
    const struct search_request *search = front->request->search;
    shown_add(text, "%s by %s: time against memory, ", search->profile->model, search->schedule);
    text_add_count(text, search->micro_batches, "micro-batch", "micro-batches");
    text_add(text, ", %s\n\n", optimizer_names[search->storage.optimizer]);
    text_add(text, "  devices   peak each   iteration        gap  layers of each stage (+ of them run again)\n");
    for (size_t i = 0; i < front->count; i++) {
        if (i > 0 && front->points[i].plan->ranks != front->points[i - 1].plan->ranks)
            text_add(text, "\n");
        print_point(&front->points[i], text);
    }
    text_add(text, "\n* no other has as few devices, as little memory and as little time\n");
    print_sense(front, text);
}
