#include "partitioner/sweep/config_bound.h"

#include <math.h>

#include "common/number.h"

// --- what it is made of ---------------------------------------------------------------------------------------

static void set_bytes(const struct config_request *request, const struct estimate *estimate, struct config_costs *costs)
{
    struct profile_layer layers[LAYER_PARTS] = { 0 };
    struct profile mini = { .dtype = (char *)estimate->request.dtype, .layers = layers, .layer_count = LAYER_PARTS };
    struct storage storage = request->storage;
    storage.bytes_per_parameter =
        storage_bytes_per_parameter(storage.optimizer, &estimate->model, &estimate->request);
    for (int i = 0; i < LAYER_PARTS; i++) {
        estimate_numbers(estimate, (enum layer_part)i, &layers[i]);
        const uint64_t weights = round_to_256(layers[i].parameter_bytes);
        costs->fixed_bytes[i] = (double)weights + (double)storage_gradient_bytes(&storage, weights)
                                + (double)storage_state_bytes(&storage, &mini, (uint32_t)i);
        costs->saved_bytes[i] = (double)layers[i].saved_bytes;
    }
}

// Which parts blocks consist of is asked for every unit of every rank and end.
static void see_blocks(struct config_costs *costs)
{
    const struct transformer *model = costs->model;
    costs->attention = estimate_attention_part(model, 0);
    costs->rest = estimate_rest_part(model, 0);
    costs->blocks_are_same = true;
    for (uint64_t i = 1; i < model->layers && costs->blocks_are_same; i++)
        costs->blocks_are_same = estimate_attention_part(model, i) == costs->attention
                              && estimate_rest_part(model, i) == costs->rest;
}

static enum layer_part attention_of(const struct config_costs *costs, uint64_t block)
{
    return costs->blocks_are_same ? costs->attention : estimate_attention_part(costs->model, block);
}

static enum layer_part rest_of(const struct config_costs *costs, uint64_t block)
{
    return costs->blocks_are_same ? costs->rest : estimate_rest_part(costs->model, block);
}

struct config_costs config_costs(const struct config_request *request, uint64_t memory_bytes,
                                 const struct estimate *estimate)
{
    struct config_costs costs = { .model = request->model, .memory_bytes = (double)memory_bytes };
    set_bytes(request, estimate, &costs);
    see_blocks(&costs);
    for (int i = 0; i < LAYER_PARTS; i++) {
        const struct phase_estimate *phases = estimate->parts[i].phases;
        costs.forward_ns[i] = phase_estimate_ns(&phases[ESTIMATE_F]);
        costs.pass_ns[i] =
            costs.forward_ns[i] + phase_estimate_ns(&phases[ESTIMATE_I]) + phase_estimate_ns(&phases[ESTIMATE_W]);
        costs.work_ns += (double)estimate->counts[i] * costs.pass_ns[i];
        costs.work_forward_ns += (double)estimate->counts[i] * costs.forward_ns[i];
    }
    costs.output_bytes = (double)estimate_output_bytes(estimate);
    return costs;
}

bool config_costs_may_fit(const struct config_costs *costs, uint32_t ranks)
{
    double bytes = costs->fixed_bytes[PART_EMBEDDING] + costs->fixed_bytes[PART_HEAD];
    for (uint64_t i = 0; i < costs->model->layers; i++)
        bytes += costs->fixed_bytes[attention_of(costs, i)] + costs->fixed_bytes[rest_of(costs, i)];
    bytes += (double)costs->model->predicted * costs->fixed_bytes[PART_PREDICTED];
    return bytes / ranks <= costs->memory_bytes;
}

double config_speed(const struct config_request *request, const struct config_row *row, uint32_t rank)
{
    return (double)config_permille(request, row, rank) / 1000;
}

double config_speed_of_all(const struct config_request *request, const struct config_row *row)
{
    double speed = 0;
    for (uint32_t s = 0; s < row->ranks; s++)
        speed += config_speed(request, row, s);
    return speed;
}

// --- a rank -----------------------------------------------------------------------------------------------------

// Stages for which few micro-batches wait for their backwards, and stages for which many do.
enum stage_kind { CHEAP, DEAR, STAGE_KINDS };

struct load {
    const struct config_costs *costs;
    double live[STAGE_KINDS];
    double counts[STAGE_KINDS][LAYER_SLOTS];
    uint32_t given;  // a bit for each part of which there are any
    double pass_ns;  // of a micro-batch
    double bytes;    // if nothing is recomputed
};

static void give(struct load *load, enum stage_kind kind, enum layer_part part)
{
    load->counts[kind][part]++;
    load->given |= part == PART_NONE ? 0 : (uint32_t)1 << part;
    load->pass_ns += load->costs->pass_ns[part];
    load->bytes += load->costs->fixed_bytes[part] + load->live[kind] * load->costs->saved_bytes[part];
}

static void give_block(struct load *load, enum stage_kind kind, uint64_t block)
{
    give(load, kind, attention_of(load->costs, block));
    give(load, kind, rest_of(load->costs, block));
}

// Takes out of `load` the layers that free most bytes for the time that recomputing them takes. False if there are
// none.
static bool take_best(struct load *load, double *bytes, double *ns)
{
    const struct config_costs *costs = load->costs;
    int kind = 0, part = 0;
    double best = 0;
    for (int k = 0; k < STAGE_KINDS; k++)
        for (uint32_t left = load->given; left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            const double rate = load->live[k] * costs->saved_bytes[i] / costs->forward_ns[i];
            if (load->counts[k][i] > 0 && rate > best) {
                best = rate;
                kind = k;
                part = i;
            }
        }
    *bytes = load->counts[kind][part] * load->live[kind] * costs->saved_bytes[part];
    *ns = load->counts[kind][part] * costs->forward_ns[part];
    load->counts[kind][part] = 0;
    return best > 0;
}

// The time of a micro-batch, including necessary recomputation. INFINITY if recomputing everything does not free
// enough.
static double load_ns(const struct load *load)
{
    double lacking = load->bytes - load->costs->memory_bytes, bytes, ns;
    if (lacking <= 0)
        return load->pass_ns;
    struct load left = *load;
    while (lacking > 0) {
        if (!take_best(&left, &bytes, &ns))
            return INFINITY;
        left.pass_ns += bytes > lacking ? ns * lacking / bytes : ns;
        lacking -= bytes;
    }
    return left.pass_ns;
}

static struct generator_flight flight_of(const struct config_row *row, uint32_t rank)
{
    const struct generate_request request = { .ranks = row->ranks, .micro_batches = row->micro_batches,
                                              .chunks = row->chunks };
    return generator_flight(row->generator, &request, rank);
}

_Static_assert(LAYER_PARTS <= 32, "each part has a bit");

static struct load no_load(const struct config_costs *costs, const struct generator_flight *flight)
{
    return (struct load){ .costs = costs, .live = { [CHEAP] = flight->least, [DEAR] = flight->most } };
}

// --- an end -----------------------------------------------------------------------------------------------------

struct bound {
    const struct config_costs *costs;
    const struct config_request *request;
    const struct config_row *row;
    struct config_hops hops;
    enum generator_waits waiting;
};

static double waited_ns(const struct bound *bound, enum layer_part part)
{
    const struct config_costs *costs = bound->costs;
    return bound->waiting == WAITS_FOR_NONE       ? 0
           : bound->waiting == WAITS_FOR_FORWARDS ? costs->forward_ns[part]
                                                  : costs->pass_ns[part];
}

static double waited_block_ns(const struct bound *bound, uint64_t block)
{
    return waited_ns(bound, attention_of(bound->costs, block)) + waited_ns(bound, rest_of(bound->costs, block));
}

static double hop_ns(const struct bound *bound, uint32_t rank)
{
    const struct rated_level *level = config_hop(&bound->hops, rank);
    const double ns = (double)level->latency_ns + bound->costs->output_bytes / rated_message_rate(level) * 1e9;
    return bound->waiting == WAITS_FOR_NONE ? 0 : bound->waiting == WAITS_FOR_FORWARDS ? ns : 2 * ns;
}

// The time that the s-th rank has for each micro-batch, on the time scale of the estimate.
static double room_ns(const struct bound *bound, uint32_t rank, double before, double end)
{
    return (end - before) / bound->row->micro_batches * config_speed(bound->request, bound->row, rank);
}

// Gives the rank the next unit. Unit 0 is the embedding, the last one is the head.
static double give_unit(const struct bound *bound, struct load *load, uint64_t unit)
{
    const uint64_t layers = bound->costs->model->layers;
    if (unit > 0 && unit <= layers) {
        give_block(load, CHEAP, unit - 1);
        return waited_block_ns(bound, unit - 1);
    }
    const enum layer_part part = unit == 0 ? PART_EMBEDDING : PART_HEAD;
    give(load, CHEAP, part);
    return waited_ns(bound, part);
}

// One stage on each rank. It is best if the first ranks take as much as they can. A unit costs a later rank m times
// what it costs the ranks behind to wait for it. The difference is larger if the later rank is slow. A slow rank is
// never before one that is not.
static bool can_end_in_a_row(const struct bound *bound, double end)
{
    const struct config_row *row = bound->row;
    const uint64_t units = bound->costs->model->layers + 2;
    double before = 0;
    uint64_t next = 0;
    for (uint32_t s = 0; s < row->ranks && next < units; s++) {
        const struct generator_flight flight = flight_of(row, s);
        struct load load = no_load(bound->costs, &flight);
        double passes = 0, waited = 0;
        const double room = room_ns(bound, s, before, end);
        for (; next < units; next++, passes += waited) {
            waited = give_unit(bound, &load, next);
            if (load_ns(&load) > room)
                break;
        }
        before += passes / config_speed(bound->request, row, s) + hop_ns(bound, s);
    }
    return next == units;
}

// The blocks are alike, except that some may attend to a window only. Returns a block that is as quick as any.
static uint64_t quickest_block(const struct transformer *model)
{
    uint64_t block = 0;
    while (model->local_window > 0 && !transformer_is_local(model, block))
        block++;
    return block;
}

// Counts how many of the remaining blocks a rank takes beside the embedding or the head. Each counts as the quickest
// block.
static bool take_blocks(const struct bound *bound, uint32_t rank, double room, uint64_t *left)
{
    const struct config_row *row = bound->row;
    struct generator_flight flight = flight_of(row, rank);
    struct load load = no_load(bound->costs, &flight);
    if (rank == 0)
        give(&load, CHEAP, PART_EMBEDDING);
    if (rank == (row->generator->comes_back ? 0 : row->ranks - 1))
        give(&load, CHEAP, PART_HEAD);
    if (rank == 0 && flight.dear)
        flight.dear--;  // the first stage may be the embedding alone
    if (load_ns(&load) > room)
        return false;
    for (uint32_t taken = 0; *left > 0; taken++, --*left) {
        give_block(&load, taken < flight.dear ? DEAR : CHEAP, quickest_block(bound->costs->model));
        if (load_ns(&load) > room)
            break;
    }
    return true;
}

// Several stages on each rank. Each stage has at least one block, but the first may be the embedding alone. The s-th
// rank waits for that many stages.
static bool can_end_in_rounds(const struct bound *bound, double end)
{
    const struct config_row *row = bound->row;
    const double block = waited_block_ns(bound, quickest_block(bound->costs->model));
    double before = 0;
    uint64_t left = bound->costs->model->layers;
    for (uint32_t s = 0; s < row->ranks; s++) {
        if (!take_blocks(bound, s, room_ns(bound, s, before, end), &left))
            return false;
        const double least = s == 0 ? fmin(waited_ns(bound, PART_EMBEDDING), block) : block;
        before += least / config_speed(bound->request, row, s) + hop_ns(bound, s);
    }
    return left == 0;
}

// Blocks may differ by a window that some of them have. With a window a block is quicker and keeps as much.
static bool blocks_are_alike(const struct transformer *model)
{
    if (model->encoder_layers > 0)
        return false;
    for (uint64_t i = 1; i < model->layers; i++)
        if (estimate_rest_part(model, i) != estimate_rest_part(model, 0)
            || transformer_is(model, i, LAYER_RECURRENT) != transformer_is(model, 0, LAYER_RECURRENT)
            || transformer_is(model, i, LAYER_WITHOUT_MIXER) != transformer_is(model, 0, LAYER_WITHOUT_MIXER))
            return false;
    return true;
}

// --- the least --------------------------------------------------------------------------------------------------

static double search_end(const struct bound *bound, bool (*can_end)(const struct bound *, double), double low)
{
    const struct config_costs *costs = bound->costs;
    const struct config_row *row = bound->row;
    double slowest = 1, hops = 0;
    for (uint32_t s = 0; s < row->ranks; s++) {
        slowest = fmin(slowest, config_speed(bound->request, row, s));
        hops += hop_ns(bound, s);
    }
    const double all = costs->work_ns + costs->work_forward_ns;
    const double most = all * ((double)row->micro_batches + row->ranks) / slowest + hops;
    if (!can_end(bound, most))
        return INFINITY;
    double high = low, step = 0.01;
    for (; high < most && !can_end(bound, high); step *= 2) {
        low = high;
        high = fmin(high * (1 + step), most);
    }
    while (high - low > 1e-5 * high) {
        const double middle = (low + high) / 2;
        if (can_end(bound, middle))
            high = middle;
        else
            low = middle;
    }
    return low;
}

double config_least_ns(const struct config_costs *costs, const struct config_request *request,
                       const struct config_row *row)
{
    const struct bound bound = { costs, request, row, config_hops(request, row), row->generator->waits };
    const double least = costs->work_ns * row->micro_batches / config_speed_of_all(request, row);
    if (config_copies(row) > 1)  // a rank has the same part of two stages
        return least;
    if (row->chunks == 1)
        return search_end(&bound, can_end_in_a_row, least);
    return bound.waiting != WAITS_FOR_NONE && blocks_are_alike(costs->model)
               ? search_end(&bound, can_end_in_rounds, least)
               : least;
}
