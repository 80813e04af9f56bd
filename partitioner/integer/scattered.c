#include "partitioner/integer/scattered.h"

#include <stdlib.h>

#include "common/arrays.h"
#include "common/number.h"
#include "common/shown.h"
#include "partitioner/objectives/max_load.h"

// The time of a layer on an accelerator of this speed, rounded up, or on a CPU (speed 0).
static uint64_t time_of(const struct profile_layer *layer, uint64_t speed_permille)
{
    const struct profile_layer *way = speed_permille ? layer : max_load_on_cpu(layer);
    if (!way)
        return LAYOUT_NEVER;
    const uint64_t ns = way->forward_ns + way->backward_ns;
    return speed_permille ? (ns * 1000 + speed_permille - 1) / speed_permille : ns;
}

static void fill_device(struct layout_problem *problem, const struct profile *profile, uint32_t d,
                        uint64_t speed_permille, uint64_t memory_bytes)
{
    for (uint32_t v = 0; v < problem->layers; v++)
        problem->time_ns[(size_t)v * problem->devices + d] = time_of(&profile->layers[v], speed_permille);
    problem->capacity[d] = memory_bytes;
    problem->pays_nothing[d] = speed_permille == 0;
}

static void fill_layers(struct layout_problem *problem, const struct profile *profile, const struct machines *machines)
{
    for (uint32_t v = 0; v < problem->layers; v++) {
        const struct profile_layer *layer = &profile->layers[v];
        problem->bytes[v] = layer->parameter_bytes + layer->saved_bytes;
        problem->transfer_ns[v] = max_load_crossings(profile)
                                * transfer_ns(layer->output_bytes, machines->bytes_per_second, machines->latency_ns);
    }
    for (size_t i = 0; i < profile->tied_count; i++)
        problem->together[problem->together_count++] = profile->tied[i];
    for (size_t i = 0; i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i] + 1 < problem->layers)
            problem->together[problem->together_count++] =
                (struct edge){ profile->no_cut_after[i], profile->no_cut_after[i] + 1 };
}

static bool make_problem(const struct bottleneck_request *request, struct layout_problem *problem,
                         const struct machines *machines, struct arrays *arrays, struct error *error)
{
    const struct profile *profile = request->profile;
    const size_t layers = profile->layer_count, devices = (size_t)machines->accelerators + machines->cpus;
    *problem = (struct layout_problem){ .layers = (uint32_t)layers, .devices = (uint32_t)devices };
    problem->time_ns = arrays_add(arrays, layers * devices, sizeof problem->time_ns[0]);
    problem->bytes = arrays_add(arrays, layers, sizeof problem->bytes[0]);
    problem->capacity = arrays_add(arrays, devices, sizeof problem->capacity[0]);
    problem->transfer_ns = arrays_add(arrays, layers, sizeof problem->transfer_ns[0]);
    problem->pays_nothing = arrays_add(arrays, devices, sizeof problem->pays_nothing[0]);
    problem->together = arrays_add(arrays, profile->tied_count + profile->no_cut_count, sizeof problem->together[0]);
    problem->edges = arrays_keep(arrays, downsets_edges(profile, NULL, &problem->edge_count, error));
    if (arrays->failed)
        return error_no_memory(error, "a layout");
    uint32_t d = 0;
    for (size_t i = 0; i < request->cluster->device_count && d < machines->accelerators; i++) {
        const struct cluster_device *device = &request->cluster->devices[i];
        if (!is_cpu(device))
            fill_device(problem, profile, d++, device->speed_permille, device->memory_bytes);
    }
    for (; d < problem->devices; d++)
        fill_device(problem, profile, d, 0, UINT64_MAX);
    fill_layers(problem, profile, machines);
    return true;
}

// The best contiguous plan, as the device of each layer; NULL if there is none.
static uint32_t *find_start(const struct bottleneck_request *request, struct scattered *scattered, struct error *error)
{
    struct error none = { 0 };
    struct bottleneck_result *plan = bottleneck_search(request, &none);
    uint32_t *device_of = plan ? calloc(request->profile->layer_count, sizeof device_of[0]) : NULL;
    if (plan && !device_of)
        error_no_memory(error, "a layout");
    uint32_t accelerator = 0, cpu = scattered->accelerators;
    for (size_t s = 0; device_of && s < plan->stage_count; s++) {
        const uint32_t device = plan->stages[s].on_cpu ? cpu++ : accelerator++;
        for (uint32_t position = plan->stages[s].first; position < plan->stages[s].end; position++)
            device_of[plan->order[position]] = device;
    }
    if (device_of) {
        scattered->contiguous_ns = (uint64_t)plan->value_ns;
        scattered->is_contiguous_best = plan->proved;
    }
    bottleneck_free(plan);
    return device_of;
}

static bool search(const struct bottleneck_request *request, const struct layout_problem *problem,
                   struct integer_limits limits, struct scattered *scattered, struct error *error)
{
    uint32_t *start = find_start(request, scattered, error);
    const bool good = error->kind == ERROR_NONE && layout_solve(problem, start, limits, &scattered->layout, error);
    free(start);
    if (!good)
        return false;
    if (!scattered->layout.device_of)
        return error_set_kind(error, ERROR_ANSWER, scattered->layout.status == INTEGER_INFEASIBLE
                              ? "no layout keeps within the devices' memory, as GLPK says"
                              : "GLPK found no layout within its limits");
    scattered->load_ns = calloc(scattered->devices, sizeof scattered->load_ns[0]);
    for (uint32_t d = 0; scattered->load_ns && d < scattered->devices; d++)
        scattered->load_ns[d] = layout_load(problem, scattered->layout.device_of, d);
    return scattered->load_ns != NULL || error_no_memory(error, "a layout");
}

bool scattered_search(const struct bottleneck_request *request, struct integer_limits limits,
                      struct scattered *scattered, struct error *error)
{
    struct machines machines;
    struct layout_problem problem;
    struct arrays arrays = { 0 };
    bool good = machines_find(&machines, request, 1, true, error)
             && make_problem(request, &problem, &machines, &arrays, error);
    *scattered = (struct scattered){ .devices = good ? problem.devices : 0, .accelerators = machines.accelerators };
    good = good && search(request, &problem, limits, scattered, error);
    arrays_clear(&arrays);
    if (!good)
        scattered_clear(scattered);
    return good;
}

void scattered_clear(struct scattered *scattered)
{
    device_layout_clear(&scattered->layout);
    free(scattered->load_ns);
    *scattered = (struct scattered){ 0 };
}

// "node1 .. node4, node9, ...": runs of consecutive layers.
static void print_pieces(const struct profile *profile, const uint32_t *device_of, uint32_t d, struct text *text)
{
    enum { MOST_PIECES = 6 };
    size_t pieces = 0;
    for (uint32_t v = 0; v < profile->layer_count;) {
        uint32_t end = v + 1;
        if (device_of[v] != d) {
            v = end;
            continue;
        }
        while (end < profile->layer_count && device_of[end] == d)
            end++;
        if (pieces++ < MOST_PIECES) {
            shown_add(text, "%s%s", pieces > 1 ? ", " : "", profile->layers[v].name);
            if (end > v + 1)
                shown_add(text, " .. %s", profile->layers[end - 1].name);
        }
        v = end;
    }
    if (pieces > MOST_PIECES)
        text_add(text, ", and %zu more", pieces - MOST_PIECES);
    if (pieces == 0)
        text_add(text, "nothing");
}

// Prints what the relaxation gains from more memory, if memory binds it.
static void print_memory_prices(const struct scattered *scattered, struct text *text)
{
    char buffer[NUMBER_SIZE];
    for (uint32_t d = 0; scattered->layout.memory_price && d < scattered->accelerators; d++) {
        const double per_gibibyte = scattered->layout.memory_price[d] * 0x1p30;
        if (per_gibibyte >= 1000)
            text_add(text, "Memory binds on device %u: were layers divisible, each GiB more there would take %s off"
                     " the bound.\n", d, time_format((uint64_t)per_gibibyte, buffer));
    }
}

void scattered_print(const struct bottleneck_request *request, const struct scattered *scattered, struct text *text)
{
    const struct profile *profile = request->profile;
    const struct device_layout *layout = &scattered->layout;
    char buffer[NUMBER_SIZE];
    shown_add(text, "%s by max-load, layers scattered over ", profile->model);
    text_add_count(text, scattered->devices, "device", "devices");
    text_add(text, "\n\n  device         load  layers\n");
    for (uint32_t d = 0; d < scattered->devices; d++) {
        text_add(text, "  %s%-3u  %10s  ", d < scattered->accelerators ? "   " : "cpu",
                 d < scattered->accelerators ? d : d - scattered->accelerators,
                 time_format(scattered->load_ns[d], buffer));
        print_pieces(profile, layout->device_of, d, text);
        text_add(text, "\n");
    }
    text_add(text, "\nThe largest load is %.6f ms", (double)layout->value_ns / 1e6);
    if (scattered->contiguous_ns > 0)
        text_add(text, "; of contiguous stages %.6f ms%s", (double)scattered->contiguous_ns / 1e6,
                 scattered->is_contiguous_best ? ", proved" : "");
    static const char *const calls[] = {
        [INTEGER_OPTIMAL] = "GLPK calls it optimal",
        [INTEGER_FEASIBLE] = "GLPK calls it the best it found in its time",
        [INTEGER_STOPPED] = "GLPK was stopped before it found a better one",
    };
    text_add(text, ". %s; ", calls[layout->status]);
    if (layout->bound_ns == 0)
        text_add(text, "no bound of all layouts is known.\n");
    else
        text_add(text,
                 "proved, by duals summed up in whole numbers, is that none is below %.6f ms: at most %.2f %% could be"
                 " gained.\n", (double)layout->bound_ns / 1e6,
                 layout->value_ns ? 100.0 * (double)(layout->value_ns - layout->bound_ns) / (double)layout->value_ns
                                  : 0);
    print_memory_prices(scattered, text);
}
