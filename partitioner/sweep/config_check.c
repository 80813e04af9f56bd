// Checks what a sweep over configurations is asked.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/sweep/config_sweep.h"
#include "partitioner/target_search.h"

static bool is_within(const char *name, uint64_t value, uint64_t least, uint64_t most, struct error *error)
{
    return (value >= least && value <= most)
        || error_set(error, "%s: %llu is not between %llu and %llu", name, (unsigned long long)value,
                     (unsigned long long)least, (unsigned long long)most);
}

static bool is_amount(const char *name, double value, struct error *error)
{
    return (isfinite(value) && value >= 0) || error_set(error, "%s: %g is no amount, which is 0 or more", name, value);
}

static bool check_list(const char *name, struct sweep_list list, struct error *error)
{
    bool good = list.count <= CONFIG_MOST_NUMBERS
        || error_set(error, "%s: %zu numbers, of %d at most", name, list.count, CONFIG_MOST_NUMBERS);
    for (size_t i = 0; good && i < list.count; i++)
        good = is_within(name, list.at[i], 1, CONFIG_MOST_DEGREE, error);
    return good;
}

static bool check_lists(const struct config_request *request, struct error *error)
{
    return check_list("tensor", request->tensor, error) && check_list("context", request->context, error)
        && check_list("expert", request->expert, error) && check_list("ranks", request->ranks, error)
        && check_list("chunks", request->chunks, error)
        && check_list("micro_batch", request->micro_batches, error)
        && is_within("schedules", request->schedule_count, 0, CONFIG_MOST_SCHEDULES, error);
}

static uint64_t reach_of(const struct rated_device *device)
{
    uint64_t reach = 1;
    for (size_t i = 0; i < device->level_count; i++)
        reach = multiply_clamped(reach, device->levels[i].size);
    return reach;
}

bool config_check(const struct config_request *request, struct error *error)
{
    if (!is_within("devices", request->devices, 1, CONFIG_MOST_DEVICES, error)
        || !is_within("global_batch", request->global_batch, 1, JSON_MAX, error) || !check_lists(request, error)
        || !is_amount("price", request->price, error) || !is_amount("watts", request->watts, error))
        return false;
    if (request->without >= request->devices)
        return error_set(error, "%u devices without %u leave none", request->devices, request->without);
    if (request->slow > 0 && request->slow >= request->devices - request->without)
        return error_set(error, "%u of %u devices are slow, which leaves none; say how fast the device is instead",
                         request->slow, request->devices - request->without);
    if (request->slow > 0 && (request->slow_permille == 0 || request->slow_permille > 1000))
        return error_set(error, "slow devices have 1 to 1000 thousandths of the rate of others, not %u",
                         request->slow_permille);
    if (!request->device->level_count)
        return error_set(error, "%s has no links, so that no two of it can be used", request->device->name);
    if (request->devices > reach_of(request->device))
        return error_set(error, "%u devices are more than the levels of %s hold (%llu)", request->devices,
                         request->device->name, (unsigned long long)reach_of(request->device));
    if (storage_uses_host(&request->storage) || request->storage.shard != SHARD_NONE || request->storage.window)
        return error_set(error, "a sweep over configurations chooses what is shared, and has no host");
    return target_check_model(request->target, request->model->predicted, error);
}

void config_meet(struct config_sweep *sweep, enum config_obstacle what, const char *format, ...)
{
    va_list arguments;
    if (sweep->obstacle >= what)
        return;
    sweep->obstacle = what;
    va_start(arguments, format);
    vsnprintf(sweep->met, sizeof sweep->met, format, arguments);
    va_end(arguments);
}
