#include <math.h>
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/sweep/stated.h"
#include "profiler/estimate/framework.h"
#include "schedules/generators/generate.h"
#include "schedules/simulate.h"

// --- what can be -------------------------------------------------------------------------------------------------

static bool check_request(const struct stated_request *request, struct error *error)
{
    const struct generator *generator = generator_find(request->schedule, error);
    if (!generator)
        return false;
    if (generator->weights != WEIGHTS_FLUSH || generator->is_inference)
        return error_set(error, "%s does not flush: its iterations are not of so many sequences", request->schedule);
    if (request->ranks == 0 || request->chunks == 0 || request->micro_batches == 0)
        return error_set(error, "a layout has a rank, a stage on it and a micro-batch at least");
    if ((uint64_t)request->ranks * request->chunks > request->model->layers + 2)
        return error_set(error, "%u ranks of %u stages are more than the model's blocks, embedding and head (%llu)",
                         request->ranks, request->chunks, (unsigned long long)request->model->layers + 2);
    return true;
}

// Recomputing attention's scores is a kind of attention. Recomputed parts of layers are settings of the estimate.
static void set_recomputation(struct judgement *judgement)
{
    const struct stated_recompute *recompute = &judgement->request.recompute;
    struct estimate_request *how = &judgement->request.how;
    framework_fill(judgement->request.model, judgement->request.device, how);
    how->recompute_tensors |= recompute->again;
    if (recompute->how == STATED_SELECTIVE && how->attention == ATTENTION_PLAIN)
        how->attention = ATTENTION_RECOMPUTED;
}

static const struct generator *generator_of(const struct judgement *judgement)
{
    struct error ignored = { 0 };
    return generator_find(judgement->request.schedule, &ignored);  // check_request() has found it
}

// The pipelines that run against each other, each with a copy of every stage.
static double copies_of(const struct judgement *judgement)
{
    const uint32_t copies = generator_of(judgement)->copies;
    return judgement->request.ranks > 1 && copies > 0 ? copies : 1;
}

// Copies share states and add up gradients as data-parallel devices do.
static bool estimate(struct judgement *judgement, struct error *error)
{
    const struct stated_request *request = &judgement->request;
    const struct generator *generator = generator_of(judgement);
    struct estimate_request how = request->how;
    how.data *= (uint64_t)copies_of(judgement);
    if (!estimate_model(request->model, request->device, &how, &judgement->estimate, error))
        return false;
    const bool can_pair = generator->has_pairs || generator->may_have_pairs || request->ranks == 1;
    for (int i = 0; i < LAYER_PARTS && can_pair; i++)
        judgement->has_pairs |= judgement->estimate.parts[i].phases[ESTIMATE_F].paired_ns > 0;
    return true;
}

// --- messages from stage to stage ----------------------------------------------------------------------------------

struct messages {
    struct config_hops hops;
    double bytes;
    bool are_waited_for;
    double launch_ns;  // the time to launch the work after a message
};

// The time from a rank to the next, or from the last rank to the first.
static double message_ns(const struct judgement *judgement, const struct messages *messages, uint32_t rank,
                         double bytes)
{
    const bool is_last = rank + 1 == judgement->request.ranks;
    const struct rated_level *level =
        is_last ? messages->hops.at[messages->hops.count - 1].level : config_hop(&messages->hops, rank);
    return (double)level->latency_ns + bytes / rated_message_rate(level) * 1e9 + messages->launch_ns;
}

// A device of a tensor-parallel group sends its share of a stage's output, and the receivers gather it. Some
// frameworks send the whole output from each device instead.
static struct messages messages_of(const struct judgement *judgement)
{
    const struct stated_request *request = &judgement->request;
    const struct estimate_request *how = &judgement->estimate.request;
    const struct framework *like = framework_of(&judgement->request.how);
    const struct generator *generator = generator_of(judgement);
    const struct config_request placing = { .device = request->device, .devices = (uint32_t)judgement->devices };
    const struct config_row row = {
        .tensor = (uint32_t)how->tensor, .context = (uint32_t)how->context, .data = (uint32_t)request->how.data,
        .ranks = request->ranks, .placement = request->placement,
    };
    const double output = (double)estimate_output_bytes(&judgement->estimate);
    const bool is_whole = how->sequence_parallel || like->sends_whole;
    return (struct messages){
        .hops = config_hops(&placing, &row),
        .bytes = is_whole ? output : output / (double)how->tensor,
        .are_waited_for = generator->order == ORDER_1F1B
            || (generator->order == ORDER_INTERLEAVED && like->waits_interleaved),
        .launch_ns = like->synchronizes ? (double)request->device->host_ns : 0,
    };
}

// A send waits for its receive, and both wait for the work between them: with the next rank after F, with the
// previous one after B. A layer that predicts a token further on sends its own output beside what it received.
static void wait_for_messages(const struct judgement *judgement, const struct messages *messages,
                              const struct stated_stage *stages, struct cost_row *rows, size_t count)
{
    const uint32_t ranks = judgement->request.ranks;
    double outputs = 1;
    for (size_t s = 0; s + 1 < count; s++) {
        outputs += stages[s].counts[PART_PREDICTED];
        const double bytes = outputs * messages->bytes;
        const uint64_t ns = (uint64_t)llround(message_ns(judgement, messages, (uint32_t)(s % ranks), bytes));
        rows[s].forward_ns += ns;
        rows[s + 1].backward_input_ns += ns;
        rows[s + 1].backward_ns += ns;
    }
}

static struct network *network_of(const struct judgement *judgement, const struct messages *messages,
                                  struct error *error)
{
    double most = 0;
    for (uint32_t rank = 0; rank < judgement->request.ranks && !messages->are_waited_for; rank++)
        most = fmax(most, message_ns(judgement, messages, rank, messages->bytes));
    return network_uniform(judgement->request.ranks, (struct link){ .latency_ns = (uint64_t)llround(most) }, error);
}

double judgement_sequences(const struct judgement *judgement)
{
    const struct estimate_request *how = &judgement->request.how;
    return (double)how->data * judgement->request.micro_batches * (double)how->micro_batch;
}

// --- an iteration --------------------------------------------------------------------------------------------------

struct run {
    struct stated_stage *stages;
    struct stated_bytes *bytes;  // of each stage
    struct cost_row *rows;
    struct schedule *schedule;
    struct simulation simulation;
};

static void clear_run(struct run *run)
{
    simulation_clear(&run->simulation);
    schedule_free(run->schedule);
    free(run->rows);
    free(run->bytes);
    free(run->stages);
}

static bool simulate(const struct judgement *judgement, struct run *run, struct error *error)
{
    const struct stated_request *request = &judgement->request;
    const struct messages messages = messages_of(judgement);
    const size_t count = (size_t)request->ranks * request->chunks;
    if (request->ranks > 1 && messages.are_waited_for)
        wait_for_messages(judgement, &messages, run->stages, run->rows, count);
    struct network *network = network_of(judgement, &messages, error);
    const bool good = network && schedule_simulate(run->schedule, run->rows, network, &run->simulation, NULL, error);
    network_free(network);
    return good;
}

// How long an F takes together with a backward: of the stage that the schedule pairs it with, or else in the mean over
// the rank's stages.
static void set_pairs(const struct judgement *judgement, const struct generator *generator, struct run *run)
{
    const uint32_t ranks = judgement->request.ranks, chunks = judgement->request.chunks;
    const size_t count = (size_t)ranks * chunks;
    const bool is_even = ranks == 1 || !generator->has_pairs;
    for (size_t s = 0; s < count; s++) {
        uint64_t backwards = 0;
        const size_t first = is_even ? s % ranks : count - 1 - s;
        const uint32_t others = is_even ? chunks : 1;
        for (size_t other = first, i = 0; i < others; i++, other += ranks)
            backwards += run->rows[other].backward_input_ns + run->rows[other].backward_weight_ns
                - stated_paired_ns(judgement, &run->stages[other], ESTIMATE_I);
        run->rows[s].overlapped_ns = run->rows[s].forward_ns
            - stated_paired_ns(judgement, &run->stages[s], ESTIMATE_F) + backwards / others;
    }
    if (is_even)
        generate_pairs(run->schedule);
}

static bool is_on_rank(const struct schedule *schedule, size_t stage, uint32_t rank)
{
    for (size_t route = 0; route < schedule->route_count; route++)
        if (schedule->routes[route * schedule->stages + stage] == rank)
            return true;
    return false;
}

// Whether each rank of a stage has the embedding, too, as where the ends of two pipelines are one rank's.
static bool has_table(const struct run *run, size_t stage)
{
    const struct schedule *schedule = run->schedule;
    size_t table = 0;
    while (table + 1 < schedule->stages && run->stages[table].counts[PART_EMBEDDING] <= 0)
        table++;
    for (size_t route = 0; route < schedule->route_count; route++)
        if (!is_on_rank(schedule, table, schedule->routes[route * schedule->stages + stage]))
            return false;
    return true;
}

static bool set_up(const struct judgement *judgement, struct run *run, struct error *error)
{
    const struct stated_request *request = &judgement->request;
    const size_t count = (size_t)request->ranks * request->chunks;
    const char *name = request->ranks == 1 ? "1f1b" : request->schedule;
    run->stages = stated_stages(request, error);
    run->bytes = calloc(count, sizeof run->bytes[0]);
    run->rows = calloc(count, sizeof run->rows[0]);
    if (!run->stages)
        return false;
    if (!run->bytes || !run->rows)
        return error_no_memory(error, "stages");
    run->schedule = schedule_generate(name, request->ranks, request->chunks, request->micro_batches, error);
    if (!run->schedule)
        return false;
    if (run->schedule->stages != count)
        return error_set(error, "%s has %u stages on %u ranks, not %zu", name, run->schedule->stages, request->ranks,
                         count);
    for (size_t s = 0; s < count; s++) {
        run->stages[s].has_table = has_table(run, s);
        stated_costs(judgement, &run->stages[s], s + 1 == count, &run->rows[s], &run->bytes[s]);
    }
    if (judgement->has_pairs)
        set_pairs(judgement, generator_of(judgement), run);
    return true;
}

// --- what came of it -----------------------------------------------------------------------------------------------

// What PyTorch's allocator reserves, as a multiple of what is allocated. It is the mean of three runs whose model
// cards print both (Megatron-Bridge: 59.0 and 69.3 GiB, 72.07 and 75.34, 156.9 and 161.3). Logits that PyTorch's own
// loss frees before the backward stay reserved, too.
static double reserved_bytes(const struct judgement *judgement, double given_out)
{
    static const double cached = 1.083;
    const struct estimate_request *how = &judgement->estimate.request;
    const double logits = (double)(how->micro_batch * how->sequence * judgement->estimate.model.vocabulary)
        / (double)(how->context * how->tensor);
    return cached * (given_out + (how->loss == LOSS_PLAIN ? profile_dtype_bytes(how->dtype) * logits : 0));
}

static bool set_bytes(struct judgement *judgement, const struct run *run, struct error *error)
{
    const uint32_t ranks = judgement->request.ranks;
    const double workspace = stated_workspace(judgement);
    judgement->bytes = calloc(ranks, sizeof judgement->bytes[0]);
    if (!judgement->bytes)
        return error_no_memory(error, "a judgement");
    for (size_t i = 0; i < (size_t)run->schedule->route_count * run->schedule->stages; i++) {
        const size_t s = i % run->schedule->stages;
        struct stated_bytes *bytes = &judgement->bytes[run->schedule->routes[i]];
        bytes->weights += run->bytes[s].weights;
        bytes->gradients += run->bytes[s].gradients;
        bytes->optimizer += run->bytes[s].optimizer;
        bytes->workspace = fmax(bytes->workspace, (double)run->rows[s].transient_bytes);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct stated_bytes *bytes = &judgement->bytes[rank];
        const double live = (double)run->simulation.per_rank[rank].live_peak_bytes;
        const double waiting = live - bytes->weights - bytes->gradients - bytes->optimizer;
        bytes->workspace = fmin(bytes->workspace, waiting);
        bytes->activations = waiting - bytes->workspace;
        bytes->workspace += workspace;
        bytes->given_out = live + workspace;
        bytes->reserved = reserved_bytes(judgement, bytes->given_out);
        if (bytes->given_out > judgement->bytes[judgement->fullest].given_out)
            judgement->fullest = rank;
    }
    const struct stated_request *request = &judgement->request;
    judgement->reserved_bytes = (double)request->device->reserved_bytes;
    judgement->memory_bytes = request->memory_bytes ? (double)request->memory_bytes + judgement->reserved_bytes
                                                    : (double)request->device->memory_bytes;
    judgement->fits =
        judgement->bytes[judgement->fullest].given_out + judgement->reserved_bytes <= judgement->memory_bytes;
    return true;
}

static void multiply(struct stated_time *time, double factor)
{
    time->products_ns *= factor;
    time->attention_ns *= factor;
    time->passes_ns *= factor;
    time->messages_ns *= factor;
    time->host_ns *= factor;
    time->again_ns *= factor;
}

// The time of all stages of a rank for one micro-batch. A rank has a share of the work of stages with copies.
static struct stated_time work_of(const struct judgement *judgement, const struct run *run, uint32_t rank)
{
    struct stated_time time = { 0 };
    for (size_t i = 0; i < (size_t)run->schedule->route_count * run->schedule->stages; i++)
        if (run->schedule->routes[i] == rank)
            stated_work(judgement, &run->stages[i % run->schedule->stages], &time);
    multiply(&time, 1.0 / run->schedule->route_count);
    return time;
}

static double all_of(const struct stated_time *time)
{
    return time->products_ns + time->attention_ns + time->passes_ns + time->messages_ns + time->host_ns
         + time->again_ns;
}

// Gradients are reduced while the last micro-batch's backward runs through a rank's stages, if the framework does
// that. At least a tenth of this is not hidden. Likewise, the gather may be hidden behind the next first forward.
static double reduced_ns(const struct judgement *judgement, double micro_batch_ns)
{
    const struct framework *like = framework_of(&judgement->request.how);
    const double share = copies_of(judgement) / judgement->request.ranks;
    const double gather = like->hides_gather ? 0 : judgement->estimate.gather_ns * share;
    const double reduce = judgement->estimate.reduce_ns * share - gather;
    return gather + (like->hides_reduction ? fmax(0.1 * reduce, reduce - micro_batch_ns) : reduce);
}

// The model FLOPs of an iteration, forward and backward, without recomputation. They are counted for the model on one
// device, since no sharing out changes them.
static bool count_flops(const struct judgement *judgement, double *flops, struct error *error)
{
    struct estimate_request alone = judgement->estimate.request;
    alone.tensor = alone.context = alone.expert = alone.data = alone.micro_batch = 1;
    alone.within = 0;
    alone.sequence_parallel = false;
    struct estimate *estimate = malloc(sizeof *estimate);
    *flops = 0;
    if (!estimate)
        return error_no_memory(error, "an estimate");
    const bool good = estimate_model(judgement->request.model, judgement->request.device, &alone, estimate, error);
    for (int i = 0; i < LAYER_PARTS && good; i++)
        *flops += (double)estimate->counts[i]
            * (3 * (double)estimate->parts[i].flops - (double)estimate->parts[i].frozen_flops)
            * judgement_sequences(judgement);
    free(estimate);
    return good;
}

static bool set_time(struct judgement *judgement, const struct run *run, struct error *error)
{
    const struct estimate_request *how = &judgement->estimate.request;
    struct stated_time busiest = { 0 };
    double flops;
    if (!count_flops(judgement, &flops, error))
        return false;
    for (uint32_t rank = 0; rank < judgement->request.ranks; rank++) {
        const struct stated_time work = work_of(judgement, run, rank);
        if (rank > 0 && all_of(&work) <= all_of(&busiest))
            continue;
        busiest = work;
        judgement->busiest = rank;
    }
    busiest.reduce_ns = reduced_ns(judgement, all_of(&busiest));
    busiest.update_ns = judgement->estimate.update_ns * copies_of(judgement) / judgement->request.ranks;
    multiply(&busiest, judgement->request.micro_batches);
    busiest.waiting_ns = fmax(0, (double)run->simulation.iteration_ns - all_of(&busiest));
    judgement->time = busiest;
    judgement->iteration_ns = add_clamped(run->simulation.iteration_ns,
                                          (uint64_t)llround(busiest.reduce_ns + busiest.update_ns));
    const double seconds = (double)judgement->iteration_ns / 1e9;
    const struct rated_product *product = rated_device_product(judgement->request.device,
                                                               how->products ? how->products : how->dtype);
    judgement->utilization = flops / seconds / ((double)product->gigaflops * 1e9) / (double)judgement->devices;
    judgement->tokens_per_second =
        judgement_sequences(judgement) * (double)how->sequence / seconds / (double)judgement->devices;
    return true;
}

static bool judge(struct judgement *judgement, struct error *error)
{
    struct stated_request *request = &judgement->request;
    struct run run = { 0 };
    if (!check_request(request, error))
        return false;
    set_recomputation(judgement);
    if (!estimate(judgement, error))
        return false;
    request->how.sequence = judgement->estimate.request.sequence;
    judgement->devices = multiply_clamped(request->how.tensor * request->how.context * request->how.data,
                                          request->ranks);
    const bool good = set_up(judgement, &run, error) && simulate(judgement, &run, error)
        && set_bytes(judgement, &run, error) && set_time(judgement, &run, error);
    clear_run(&run);
    return good;
}

struct judgement *stated_judge(const struct stated_request *request, struct error *error)
{
    struct judgement *judgement = calloc(1, sizeof *judgement);
    if (!judgement)
        return error_null(error_no_memory(error, "a judgement"));
    judgement->request = *request;
    if (request->ranks == 1)
        judgement->request.chunks = 1;
    if (judge(judgement, error))
        return judgement;
    judgement_free(judgement);
    return NULL;
}

struct judgement *stated_judge_best(const struct config_sweep *sweep, struct error *error)
{
    const struct config_row *best = sweep->best;
    struct stated_request request = {
        .model = sweep->request.model, .device = sweep->request.device, .how = sweep->request.how,
        .placement = best->placement, .schedule = best->schedule, .ranks = best->ranks, .chunks = best->chunks,
        .micro_batches = best->micro_batches, .plan = best->plan,
    };
    request.how.tensor = best->tensor;
    request.how.context = best->context;
    request.how.expert = best->expert;
    request.how.data = best->data;
    request.how.micro_batch = best->micro_batch;
    request.how.shard = best->shard;
    request.how.inner_ranks = best->placement == PLACEMENT_PIPELINE_INSIDE ? best->ranks : 1;
    return stated_judge(&request, error);
}

void judgement_free(struct judgement *judgement)
{
    if (judgement)
        free(judgement->bytes);
    free(judgement);
}
