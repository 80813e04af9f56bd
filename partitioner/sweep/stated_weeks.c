#include "partitioner/sweep/stated_weeks.h"

#include "common/number.h"
#include "profiler/estimate/framework.h"
#include "schedules/generators/generate.h"

#define NS 1e9

// What a run goes on from: weights, and the optimizer's states. Gradients are made anew.
static double saved_bytes(const struct judgement *judgement)
{
    const struct estimate *estimate = &judgement->estimate;
    const struct framework_states states = framework_states(&estimate->model, &estimate->request);
    double all = 0, trained = 0;  // frozen weights are there from the start
    for (int i = 0; i < LAYER_PARTS; i++) {
        const struct layer_estimate *layer = &estimate->parts[i];
        all += (double)estimate->counts[i] * (double)layer->parameters;
        trained += (double)estimate->counts[i] * (double)(layer->parameters - layer->frozen_parameters);
    }
    return (double)transformer_parameters(&estimate->model) * trained / all * (states.weights + states.optimizer);
}

// --- elastic -------------------------------------------------------------------------------------------------------

enum { MOST_LOST = 4 };

// The micro-batches of each pipeline if so many train. Some schedules take a multiple of ranks, or an even number.
static uint32_t micro_batches_with(const struct stated_request *request, uint64_t pipelines)
{
    struct error ignored = { 0 };
    const struct generator *generator = generator_find(request->schedule, &ignored);
    const uint64_t all = request->how.data * request->micro_batches, each = (all + pipelines - 1) / pipelines;
    const uint64_t step = generator->wants_rounds && request->chunks > 1 ? request->ranks
                        : generator->copies > 1                          ? generator->copies : 1;
    return (uint32_t)((each + step - 1) / step * step);
}

// The speeds with 0, 1, .. pipelines lost, as far as the layout allows that. Pipelines get whole micro-batches of the
// same iteration.
static size_t find_speeds(const struct judgement *judgement, double speeds[MOST_LOST + 1])
{
    size_t count = 1;
    speeds[0] = 1;
    for (; count <= MOST_LOST && count < judgement->request.how.data; count++) {
        struct stated_request request = judgement->request;
        struct error ignored = { 0 };
        request.how.data -= count;
        request.micro_batches = micro_batches_with(&judgement->request, request.how.data);
        struct judgement *fewer = stated_judge(&request, &ignored);
        if (!fewer)
            break;
        speeds[count] = (double)judgement->iteration_ns / (double)fewer->iteration_ns;
        judgement_free(fewer);
    }
    return count;
}

// --- choices -------------------------------------------------------------------------------------------------------

static void add_choice(struct long_run *run, uint32_t spares, bool elastic, struct weeks *weeks)
{
    const double devices = (double)run->pipelines * run->pipeline_devices;
    struct weeks_choice *choice = &weeks->choices[weeks->count];
    run->spares = spares;
    *choice = (struct weeks_choice){ .elastic = elastic, .spares = spares, .shares = long_run_shares(run, 0) };
    choice->paid = choice->shares.goodput * devices / (devices + spares);
    if (choice->paid > weeks->choices[weeks->best].paid)
        weeks->best = weeks->count;
    weeks->count++;
}

// Powers of two, until next to nothing is waited for.
static void add_choices(struct long_run *run, bool elastic, struct weeks *weeks)
{
    enum { MOST_SPARES = 1024 };
    add_choice(run, 0, elastic, weeks);
    for (uint32_t spares = 1; spares <= MOST_SPARES && !elastic; spares *= 2) {
        if (weeks->choices[weeks->count - 1].shares.waiting < 1e-4)
            break;
        add_choice(run, spares, elastic, weeks);
    }
}

bool weeks_of(const struct judgement *judgement, const struct weeks_request *request, struct weeks *weeks,
              struct error *error)
{
    const uint64_t bytes = request->checkpoint_bytes ? request->checkpoint_bytes : (uint64_t)saved_bytes(judgement);
    const double moved_s = (double)bytes / (double)request->checkpoint_rate;
    *weeks = (struct weeks){ .request = *request, .checkpoint_bytes = bytes, .checkpoint_s = moved_s,
                             .restart_s = (double)request->restart_ns / NS + moved_s,
                             .iteration_s = (double)judgement->iteration_ns / NS };
    double speeds[MOST_LOST + 1] = { 1 };
    struct long_run run = {
        .mtbf_s = (double)request->mtbf_ns / NS, .checkpoint_s = moved_s, .restart_s = weeks->restart_s,
        .repair_s = (double)request->repair_ns / NS, .iteration_s = weeks->iteration_s,
        .pipelines = (uint32_t)judgement->request.how.data,
        .pipeline_devices = (uint32_t)(judgement->devices / judgement->request.how.data),
        .speeds = speeds, .speed_count = 1,
    };
    const size_t able = request->repair_ns ? find_speeds(judgement, speeds) : 1;
    weeks->cannot_be_elastic = request->repair_ns && able == 1;
    if (request->elastic && able == 1)
        return error_set(error, "an elastic run: this layout has no fewer pipelines that could go on without a broken"
                         " device, or no repair time is stated in which they would");
    const bool is_open = !request->has_spares && !request->elastic;
    run.speed_count = request->elastic ? able : 1;
    if (is_open && request->repair_ns)
        add_choices(&run, false, weeks);
    else
        add_choice(&run, request->spares, request->elastic, weeks);
    run.speed_count = able;
    if (is_open && able > 1)
        add_choices(&run, true, weeks);
    return true;
}

// --- for people ----------------------------------------------------------------------------------------------------

static void say_choice(const struct weeks_choice *choice, struct text *text)
{
    const uint32_t spares = choice->spares;
    text_add(text, "%s", choice->elastic ? "elastic" : spares == 0 ? "waits for the repair" : "");
    if (spares > 0)
        text_add(text, "%s%u %s", choice->elastic ? ", " : "", spares, spares == 1 ? "spare" : "spares");
}

static void print_share(const char *what, double share, struct text *text)
{
    if (share >= 0.0005)
        text_add(text, "  %-28s %17.1f %%\n", what, 100 * share);
}

static void print_choices(const struct weeks *weeks, struct text *text)
{
    text_add(text, "\nIf a device breaks:          goodput  of paid devices\n");
    for (size_t i = 0; i < weeks->count; i++) {
        const size_t from = text->length;
        text_add(text, "%c ", i == weeks->best ? '*' : ' ');
        say_choice(&weeks->choices[i], text);
        text_add(text, "%*s", (int)(28 - (text->length - from)), "");
        text_add(text, "%7.1f %% %14.1f %%\n", 100 * weeks->choices[i].shares.goodput, 100 * weeks->choices[i].paid);
    }
    if (weeks->cannot_be_elastic)
        text_add(text, "Fewer pipelines cannot share the model out like this, so the run is not elastic.\n");
}

void weeks_print(const struct weeks *weeks, const struct judgement *judgement, struct text *text)
{
    const struct weeks_choice *best = &weeks->choices[weeks->best];
    const struct long_run_shares *shares = &best->shares;
    const double interval_s = (double)shares->iterations * weeks->iteration_s;
    char mtbf[NUMBER_SIZE], bytes[NUMBER_SIZE], saved[NUMBER_SIZE], interval[NUMBER_SIZE], restart[NUMBER_SIZE];
    text_add(text, "\nOver weeks, with a failure every %s and restarts of %s:\n",
             wait_format(weeks->request.mtbf_ns, mtbf), wait_format((uint64_t)(weeks->restart_s * NS), restart));
    text_add(text, "a checkpoint of %s takes %s, and is best every %llu iterations (%s).\n",
             bytes_format(weeks->checkpoint_bytes, bytes), time_format((uint64_t)(weeks->checkpoint_s * NS), saved),
             (unsigned long long)shares->iterations, wait_format((uint64_t)(interval_s * NS), interval));
    text_add(text, "Goodput is %.1f %%: %.0f tokens/s a device.%s", 100 * shares->goodput,
             shares->goodput * judgement->tokens_per_second, weeks->count > 1 ? " A broken device: " : "");
    if (weeks->count > 1)
        say_choice(best, text);
    text_add(text, "%s\n", weeks->count > 1 ? "." : "");
    print_share("checkpoints", shares->checkpoints, text);
    print_share("work that is lost", shares->lost, text);
    print_share("restarts", shares->restarts, text);
    print_share("waiting for repairs", shares->waiting, text);
    print_share("pipelines that are lost", shares->fewer, text);
    if (weeks->count > 1)
        print_choices(weeks, text);
}

// --- the document --------------------------------------------------------------------------------------------------

static void write_choice(const struct weeks_choice *choice, struct json_writer *writer)
{
    const struct long_run_shares *shares = &choice->shares;
    json_begin_object(writer, NULL, JSON_INLINE);
    json_put_bool(writer, "elastic", choice->elastic);
    json_put_u64(writer, "spares", choice->spares);
    json_put_u64(writer, "iterations", shares->iterations);
    json_put_fraction(writer, "goodput", shares->goodput);
    json_put_fraction(writer, "paid", choice->paid);
    json_put_fraction(writer, "checkpoints", shares->checkpoints);
    json_put_fraction(writer, "lost", shares->lost);
    json_put_fraction(writer, "restarts", shares->restarts);
    json_put_fraction(writer, "waiting", shares->waiting);
    json_put_fraction(writer, "fewer", shares->fewer);
    json_close(writer);
}

void weeks_write(const struct weeks *weeks, struct json_writer *writer)
{
    json_begin_object(writer, "weeks", JSON_LINES);
    json_put_u64(writer, "mtbf_ns", weeks->request.mtbf_ns);
    json_put_u64(writer, "checkpoint_bytes", weeks->checkpoint_bytes);
    json_put_u64(writer, "checkpoint_ns", (uint64_t)(weeks->checkpoint_s * NS));
    json_put_u64(writer, "restart_ns", (uint64_t)(weeks->restart_s * NS));
    json_put_u64(writer, "repair_ns", weeks->request.repair_ns);
    json_put_u64(writer, "best", weeks->best);
    json_begin_array(writer, "choices", JSON_LINES);
    for (size_t i = 0; i < weeks->count; i++)
        write_choice(&weeks->choices[i], writer);
    json_close(writer);
    json_close(writer);
}
