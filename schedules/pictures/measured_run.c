#include "schedules/pictures/measured_run.h"

#include "common/number.h"
#include "schedules/pictures/measured.h"

// --- reading ------------------------------------------------------------------------

static bool read_all(const char *const files[], size_t count, int64_t iteration, struct measured_run *run,
                     struct error *error)
{
    struct trace_reader *reader = trace_reader_create(error);
    bool good = reader != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = trace_reader_load(reader, files[i], error);
    good = good && trace_reader_finish(reader, iteration, &run->timeline, &run->trace, error)
        && trace_reader_about(reader, &run->about, error);
    trace_reader_free(reader);
    return good;
}

bool measured_run_load(const char *const files[], size_t count, int64_t iteration, struct measured_run *run,
                       struct error *error)
{
    *run = (struct measured_run){ .all_iterations = iteration == TRACE_ALL };
    return read_all(files, count, iteration, run, error) && timeline_measure(&run->timeline, &run->simulation, error)
        && (simulation_fits_document(&run->simulation, error) || error_at(error, "%s", files[0]));
}

void measured_run_clear(struct measured_run *run)
{
    timeline_clear(&run->timeline);
    simulation_clear(&run->simulation);
    text_clear(&run->about);
    *run = (struct measured_run){ .all_iterations = false };
}

// --- in words -----------------------------------------------------------------------

static void add_count(uint64_t count, const char *what, const char **before, struct text *text)
{
    if (count == 0)
        return;
    text_add(text, "%s%llu %s", *before, (unsigned long long)count, what);
    *before = ", ";
}

void measured_run_note(const struct measured_run *run, struct text *text)
{
    const struct trace_summary *trace = &run->trace;
    const char *before = "left out: ";
    char time[NUMBER_SIZE];
    add_count(trace->left_out, "events that are no actions", &before, text);
    add_count(trace->messages, "sends and receives", &before, text);
    add_count(trace->doubled, "times of the host where the GPU's are there", &before, text);
    if (trace->left_out + trace->messages + trace->doubled > 0)
        text_add(text, "\n");
    if (trace->waits > 0)
        text_add(text, "waiting for messages within %llu actions is taken off them: %s in all\n",
                 (unsigned long long)trace->waits, time_format(trace->waited_ns, time));
    if (trace->uneven)
        text_add(text, "some actions come more often than others: it begins or ends within an iteration\n");
    if (trace->renumbered)
        text_add(text, "some ranks are missing: those there are have been numbered from 0\n");
}

void measured_run_write_shape(const struct measured_run *run, struct text *text)
{
    const struct trace_summary *trace = &run->trace;
    schedule_write_shape(run->simulation.ranks, trace->stages, trace->micro_batches, text);
    if (run->all_iterations)
        text_add(text, ", all %u iterations\n", trace->iterations);
    else
        text_add(text, ", iteration %u of 0 to %u\n", trace->iteration, trace->iterations - 1);
}

static void print_ranks(const struct simulation *simulation, struct text *text)
{
    text_add(text, "rank       first        last        busy   recompute  in flight\n");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++) {
        char first[NUMBER_SIZE], last[NUMBER_SIZE], busy[NUMBER_SIZE], again[NUMBER_SIZE];
        const struct rank_result *result = &simulation->per_rank[rank];
        text_add(text, "%4u  %10s  %10s  %10s  %10s  %9u\n", rank, time_format(result->first_ns, first),
                 time_format(result->last_ns, last), time_format(result->busy_ns, busy),
                 time_format(result->recompute_ns, again), result->peak_in_flight);
    }
}

void measured_run_print(const struct measured_run *run, struct text *text)
{
    const struct simulation *simulation = &run->simulation;
    const struct critical_path *path = &simulation->critical_path;
    const struct bubble *bubble = &simulation->bubble;
    char a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE];
    text_add(text, "measured: ");
    measured_run_write_shape(run, text);
    text_add(text, "time           %s (%llu ns); longest span of a rank %s\n", time_format(simulation->iteration_ns, a),
             (unsigned long long)simulation->iteration_ns, time_format(simulation->max_span_ns, b));
    text_add(text, "bubble         makespan %.2f %%, overhead %.2f %%, span %.2f %%, zb_rate %.2f %%\n",
             100 * bubble->makespan, 100 * bubble->overhead, 100 * bubble->span, 100 * bubble->zb_rate);
    text_add(text, "critical path  computing %s, recomputing %s, waiting between actions %s\n\n",
             time_format(path->compute_ns, a), time_format(path->recompute_ns, b),
             time_format(path->transfer_ns + path->order_ns, c));
    print_ranks(simulation, text);
    text_add(text, "\n");
}
