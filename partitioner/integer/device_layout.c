#include "partitioner/integer/device_layout.h"

#include <stdlib.h>

#include "common/number.h"
#include "partitioner/integer/linear_program.h"

// --- the value of a layout ------------------------------------------------------------

// The time that the tensor of a layer costs a device. It is handed on or received there if either the layer or a
// reader, but not both, is on the device.
static uint64_t transfers_of(const struct layout_problem *problem, const uint32_t *device_of, uint32_t layer,
                             uint32_t device)
{
    for (size_t e = 0; e < problem->edge_count; e++)
        if (problem->edges[e].from == layer
            && (device_of[layer] == device) != (device_of[problem->edges[e].to] == device))
            return problem->transfer_ns[layer];
    return 0;
}

static bool is_allowed(const struct layout_problem *problem, uint32_t layer, uint32_t device)
{
    return problem->time_ns[(size_t)layer * problem->devices + device] != LAYOUT_NEVER;
}

static bool keeps_rules(const struct layout_problem *problem, const uint32_t *device_of, struct error *error)
{
    for (uint32_t v = 0; v < problem->layers; v++)
        if (device_of[v] >= problem->devices || !is_allowed(problem, v, device_of[v]))
            return error_set(error, "layer %u cannot be on device %u", v, device_of[v]);
    for (size_t i = 0; i < problem->together_count; i++)
        if (device_of[problem->together[i].from] != device_of[problem->together[i].to])
            return error_set(error, "layers %u and %u must be on one device", problem->together[i].from,
                             problem->together[i].to);
    return true;
}

uint64_t layout_load(const struct layout_problem *problem, const uint32_t *device_of, uint32_t device)
{
    uint64_t load = 0;
    for (uint32_t v = 0; v < problem->layers; v++) {
        if (device_of[v] == device)
            load = add_clamped(load, problem->time_ns[(size_t)v * problem->devices + device]);
        if (!problem->pays_nothing[device])
            load = add_clamped(load, transfers_of(problem, device_of, v, device));
    }
    return load;
}

uint64_t layout_value(const struct layout_problem *problem, const uint32_t *device_of, struct error *error)
{
    if (!keeps_rules(problem, device_of, error))
        return LAYOUT_NEVER;
    uint64_t largest = 0;
    for (uint32_t d = 0; d < problem->devices; d++) {
        const uint64_t load = layout_load(problem, device_of, d);
        uint64_t bytes = 0;
        for (uint32_t v = 0; v < problem->layers; v++)
            bytes = add_clamped(bytes, device_of[v] == d ? problem->bytes[v] : 0);
        if (bytes > problem->capacity[d]) {
            error_set_kind(error, ERROR_ANSWER, "device %u holds %llu bytes and has %llu", d,
                           (unsigned long long)bytes, (unsigned long long)problem->capacity[d]);
            return LAYOUT_NEVER;
        }
        largest = load > largest ? load : largest;
    }
    return largest;
}

// --- the program ----------------------------------------------------------------------

// The program, and where its columns and rows are.
struct program {
    const struct layout_problem *problem;
    struct linear_model model;
    uint32_t largest;       // the column that is minimised
    uint32_t first;         // that of layer v on device d is first + v * devices + d
    size_t memory_rows;     // the first of the devices' rows
};

static uint32_t column_of(const struct program *program, uint32_t v, uint32_t d)
{
    return program->first + v * program->problem->devices + d;
}

// Each layer is on exactly one device, which can run it.
static void add_places(struct program *program)
{
    const struct layout_problem *problem = program->problem;
    struct linear_model *model = &program->model;
    for (uint32_t v = 0; v < problem->layers; v++)
        for (uint32_t d = 0; d < problem->devices; d++)
            linear_add_column(model, (struct linear_column){ 0, is_allowed(problem, v, d), true, 1 });
    for (uint32_t v = 0; v < problem->layers; v++) {
        linear_begin_row(model, LINEAR_EQUAL, 1);
        for (uint32_t d = 0; d < problem->devices; d++)
            linear_add_term(model, column_of(program, v, d), 1);
    }
    for (size_t i = 0; i < problem->together_count; i++) {
        for (uint32_t d = 0; d + 1 < problem->devices; d++) {
            linear_begin_row(model, LINEAR_EQUAL, 0);
            linear_add_term(model, column_of(program, problem->together[i].from, d), 1);
            linear_add_term(model, column_of(program, problem->together[i].to, d), -1);
        }
    }
}

// The transfers that device d pays for the tensor of layer v take two columns. One is at least 1 if the layer is on
// the device and some reader of it is not. The other is for the opposite case.
static bool has_crossings(const struct layout_problem *problem, uint32_t v, uint32_t d)
{
    bool is_read = false;
    for (size_t e = 0; e < problem->edge_count; e++)
        is_read |= problem->edges[e].from == v;
    return is_read && !problem->pays_nothing[d] && problem->transfer_ns[v] > 0;
}

static void add_apart(struct program *program, uint32_t crossing, uint32_t here, uint32_t there, uint32_t d)
{
    linear_begin_row(&program->model, LINEAR_AT_LEAST, 0);
    linear_add_term(&program->model, crossing, 1);
    linear_add_term(&program->model, column_of(program, here, d), -1);
    linear_add_term(&program->model, column_of(program, there, d), 1);
}

static void add_crossings(struct program *program, uint32_t v, uint32_t d)
{
    const struct layout_problem *problem = program->problem;
    const struct linear_column crossing = { 0, 1, false, 1 };
    const uint32_t out = linear_add_column(&program->model, crossing);
    const uint32_t in = linear_add_column(&program->model, crossing);
    for (size_t e = 0; e < problem->edge_count; e++) {
        if (problem->edges[e].from != v)
            continue;
        add_apart(program, out, v, problem->edges[e].to, d);
        add_apart(program, in, problem->edges[e].to, v, d);
    }
}

static void add_load(struct program *program, uint32_t d)
{
    const struct layout_problem *problem = program->problem;
    struct linear_model *model = &program->model;
    uint32_t crossing = (uint32_t)model->column_count;
    for (uint32_t v = 0; v < problem->layers; v++)
        if (has_crossings(problem, v, d))
            add_crossings(program, v, d);
    linear_begin_row(model, LINEAR_AT_LEAST, 0);
    linear_add_term(model, program->largest, 1);
    for (uint32_t v = 0; v < problem->layers; v++) {
        const uint64_t time = problem->time_ns[(size_t)v * problem->devices + d];
        if (time > 0 && time != LAYOUT_NEVER)
            linear_add_term(model, column_of(program, v, d), -(int64_t)time);
        for (uint32_t i = 0; has_crossings(problem, v, d) && i < 2; i++)
            linear_add_term(model, crossing++, -(int64_t)problem->transfer_ns[v]);
    }
}

static void add_memory(struct program *program, uint32_t d)
{
    const struct layout_problem *problem = program->problem;
    uint64_t all = 0;
    for (uint32_t v = 0; v < problem->layers; v++)
        all = add_clamped(all, problem->bytes[v]);
    const uint64_t capacity = problem->capacity[d] < all ? problem->capacity[d] : all;
    linear_begin_row(&program->model, LINEAR_AT_MOST, (int64_t)capacity);
    for (uint32_t v = 0; v < problem->layers; v++)
        if (problem->bytes[v] > 0)
            linear_add_term(&program->model, column_of(program, v, d), (int64_t)problem->bytes[v]);
}

// A load that no device exceeds: all layers where they are slowest, and all transfers twice.
static uint64_t ceiling_of(const struct layout_problem *problem)
{
    uint64_t sum = 1;
    for (uint32_t v = 0; v < problem->layers; v++) {
        uint64_t slowest = 0;
        for (uint32_t d = 0; d < problem->devices; d++) {
            const uint64_t time = problem->time_ns[(size_t)v * problem->devices + d];
            slowest = time != LAYOUT_NEVER && time > slowest ? time : slowest;
        }
        sum = add_clamped(sum, slowest);
        sum = add_clamped(sum, 2 * problem->transfer_ns[v]);
    }
    return sum;
}

// `ceiling`: a value that some layout has, or that none exceeds.
static void program_write(const struct layout_problem *problem, uint64_t ceiling, struct program *program)
{
    *program = (struct program){ .problem = problem };
    // The largest load is counted in millionths of what it can be.
    const double unit = ceiling > 1000000 ? (double)ceiling / 1e6 : 1;
    program->largest = linear_add_column(&program->model, (struct linear_column){ 1, (int64_t)ceiling, false, unit });
    program->first = program->largest + 1;
    add_places(program);
    for (uint32_t d = 0; d < problem->devices; d++)
        add_load(program, d);
    program->memory_rows = program->model.row_count;
    for (uint32_t d = 0; d < problem->devices; d++)
        add_memory(program, d);
}

// --- its answer -------------------------------------------------------------------------

// The values of all columns for a known layout.
static double *values_of(const struct program *program, const uint32_t *device_of, uint64_t value)
{
    const struct layout_problem *problem = program->problem;
    double *values = calloc(program->model.column_count + 1, sizeof values[0]);
    if (!values)
        return NULL;
    values[program->largest] = (double)value;
    for (uint32_t v = 0; v < problem->layers; v++)
        for (uint32_t d = 0; d < problem->devices; d++)
            values[column_of(program, v, d)] = device_of[v] == d;
    // The columns left are the crossings, each in rows of its own: crossing >= the rest.
    for (size_t r = 0; r < program->model.row_count; r++) {
        const struct linear_row *row = &program->model.rows[r];
        const struct linear_term *terms = &program->model.terms[row->first];
        if (row->first == row->end || program->model.columns[terms[0].column].is_integer
            || terms[0].column == program->largest)
            continue;
        double rest = 0;
        for (size_t i = 1; i < row->end - row->first; i++)
            rest -= (double)terms[i].factor * values[terms[i].column];
        if (rest > values[terms[0].column])
            values[terms[0].column] = rest;
    }
    return values;
}

static bool read_layout(const struct program *program, const double *values, struct device_layout *layout,
                        struct error *error)
{
    const struct layout_problem *problem = program->problem;
    layout->device_of = calloc(problem->layers + 1, sizeof layout->device_of[0]);
    if (!layout->device_of)
        return error_no_memory(error, "a layout");
    for (uint32_t v = 0; v < problem->layers; v++) {
        uint32_t d = 0;
        while (d < problem->devices && values[column_of(program, v, d)] <= 0.5)
            d++;
        layout->device_of[v] = d;
    }
    layout->value_ns = layout_value(problem, layout->device_of, error);
    if (layout->value_ns != LAYOUT_NEVER)
        return true;
    error->kind = ERROR_MACHINE;
    error_at(error, "weir-glpk's answer is no layout");
    return false;
}

// Reads what the duals of the relaxation prove and say.
static bool read_prices(const struct program *program, const double *duals, struct device_layout *layout,
                        struct error *error)
{
    const uint32_t devices = program->problem->devices;
    layout->memory_price = calloc(devices, sizeof layout->memory_price[0]);
    if (!layout->memory_price)
        return error_no_memory(error, "a layout");
    for (uint32_t d = 0; d < devices; d++)
        layout->memory_price[d] = -duals[program->memory_rows + d];
    layout->bound_ns = (uint64_t)linear_proved_bound(&program->model, duals);
    return true;
}

bool layout_solve(const struct layout_problem *problem, const uint32_t *start, struct integer_limits limits,
                  struct device_layout *layout, struct error *error)
{
    *layout = (struct device_layout){ 0 };
    const uint64_t known = start ? layout_value(problem, start, error) : ceiling_of(problem);
    if (known == LAYOUT_NEVER)
        return false;
    struct program program;
    program_write(problem, known, &program);
    double *begin = start && !program.model.failed ? values_of(&program, start, known) : NULL;
    struct linear_solution solution = { 0 };
    bool good = (!start || begin || error_no_memory(error, "a layout"))
             && linear_solve(&program.model, begin, limits, &solution, error)
             && (!solution.duals || read_prices(&program, solution.duals, layout, error));
    layout->status = solution.status;
    const double *found = solution.values ? solution.values : layout->status == INTEGER_STOPPED ? begin : NULL;
    good = good && (!found || read_layout(&program, found, layout, error));
    if (good && layout->device_of && layout->bound_ns > layout->value_ns)
        good = error_set_kind(error, ERROR_MACHINE,
                              "the duals claim more than a layout takes, which is a fault of Weir");
    linear_solution_clear(&solution);
    free(begin);
    linear_clear(&program.model);
    if (!good)
        device_layout_clear(layout);
    return good;
}

void device_layout_clear(struct device_layout *layout)
{
    free(layout->device_of);
    free(layout->memory_price);
    *layout = (struct device_layout){ 0 };
}
