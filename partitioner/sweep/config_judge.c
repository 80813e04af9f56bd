// Results of a sweep over configurations: its lower bound, its front, why other rows lost, and what the best is
// worth.
#include <stdio.h>

#include "partitioner/sweep/config_sweep.h"

static uint32_t present(const struct config_request *request)
{
    return request->devices - request->without;
}

double config_utilization(const struct config_sweep *sweep, uint64_t iteration_ns)
{
    const struct config_request *request = &sweep->request;
    const char *dtype = request->how.products ? request->how.products : request->how.dtype;
    const struct rated_product *product = rated_device_product(request->device, dtype);
    const double peak = product ? (double)product->gigaflops * present(request) : 0;  // flops per ns
    return peak > 0 ? sweep->model_flops / (double)iteration_ns / peak : 0;
}

double config_tokens_per_second(const struct config_sweep *sweep, uint64_t iteration_ns)
{
    const struct config_request *request = &sweep->request;
    const double tokens = (double)request->global_batch * (double)request->how.sequence;
    return tokens / ((double)iteration_ns / 1e9) / present(request);
}

double config_headroom(const struct transformer *model, enum estimate_shard shard)
{
    return model->experts || shard == ESTIMATE_SHARD_WEIGHTS ? 0.2 : 0.08;
}

void config_say_headroom(const struct transformer *model, enum estimate_shard shard, struct text *text)
{
    const double percent = 100 * config_headroom(model, shard);
    if (model->experts || shard == ESTIMATE_SHARD_WEIGHTS)
        text_add(text, "Published runs took up to %.0f %% more memory than is said of them", percent);
    else
        text_add(text, "One of ten published runs took %.0f %% more memory than is said of it", percent);
}

uint64_t config_memory(const struct config_sweep *sweep, enum estimate_shard shard)
{
    const double headroom = config_headroom(sweep->request.model, shard);
    return sweep->request.memory_bytes ? sweep->memory_bytes : (uint64_t)((double)sweep->memory_bytes / (1 + headroom));
}

uint64_t config_left_out_ns(const struct config_sweep *sweep)
{
    const struct config_sweep *without = sweep->left_out;
    return without && without->best ? without->best->iteration_ns : 0;
}

static double device_hours(const struct config_sweep *sweep, uint64_t iteration_ns)
{
    return 1e9 / config_tokens_per_second(sweep, iteration_ns) / 3600;
}

double config_price(const struct config_sweep *sweep, uint64_t iteration_ns)
{
    return sweep->request.price * device_hours(sweep, iteration_ns);
}

double config_energy(const struct config_sweep *sweep, uint64_t iteration_ns)
{
    return sweep->request.watts / 1000 * device_hours(sweep, iteration_ns);
}

// --- the judgement --------------------------------------------------------------

// Names what makes most of the difference to the best: layers, waiting (with recomputation), or what lies between
// iterations.
static void explain(const struct config_sweep *sweep, struct config_row *row)
{
    const struct config_row *best = sweep->best;
    const double whole = (double)best->iteration_ns, behind = (double)row->iteration_ns - whole;
    const double work = row->work_ns - best->work_ns, between = (double)row->between_ns - (double)best->between_ns;
    const double waiting = behind - work - between;
    const char *what = work >= waiting && work >= between ? "layers" : waiting >= between ? "waiting" : "between";
    const double most = work >= waiting && work >= between ? work : waiting >= between ? waiting : between;
    snprintf(row->reason, sizeof row->reason, "%s +%.1f %%", what, 100 * most / whole);
}

// A planned row is on the front if no other planned row is at least as good in time and bytes, and better in one.
static bool is_on_front(const struct config_sweep *sweep, const struct config_row *row)
{
    bool is = row->outcome == CONFIG_PLANNED;
    for (size_t i = 0; is && i < sweep->count; i++) {
        const struct config_row *other = &sweep->rows[i];
        is = other->outcome != CONFIG_PLANNED || other->iteration_ns > row->iteration_ns
             || other->peak_bytes > row->peak_bytes
             || (other->iteration_ns == row->iteration_ns && other->peak_bytes == row->peak_bytes);
    }
    return is;
}

void config_judge(struct config_sweep *sweep)
{
    sweep->lower_bound_ns = sweep->best ? sweep->best->iteration_ns : UINT64_MAX;
    for (size_t i = 0; i < sweep->count; i++) {
        struct config_row *row = &sweep->rows[i];
        sweep->counts[row->outcome]++;
        row->is_best = row == sweep->best;
        const bool is_open = row->outcome == CONFIG_PLANNED || row->outcome == CONFIG_NOT_QUICKER;
        const uint64_t least = row->outcome == CONFIG_NOT_TRIED ? row->bound_ns : row->lower_bound_ns;
        if ((is_open || row->outcome == CONFIG_NOT_TRIED) && least < sweep->lower_bound_ns)
            sweep->lower_bound_ns = least;
        if (row->outcome == CONFIG_PLANNED && !row->is_best)
            explain(sweep, row);
    }
    for (size_t i = 0; i < sweep->count; i++)
        sweep->rows[i].is_on_front = is_on_front(sweep, &sweep->rows[i]);
}
