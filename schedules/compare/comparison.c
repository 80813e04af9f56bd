#include "schedules/compare/comparison.h"

#include <stdlib.h>

// For bytes, everything that is planned counts, also updates that no trace shows.
static bool predict_peaks(struct comparison *comparison, const struct network *network, uint64_t *iteration_ns,
                          struct error *error)
{
    struct simulation whole = { .ranks = 0 };
    bool good = schedule_simulate(comparison->schedule, NULL, network, &whole, NULL, error)
             && simulation_fits_document(&whole, error);
    comparison->predicted_peaks = good ? calloc(whole.ranks + (size_t)1, sizeof *comparison->predicted_peaks) : NULL;
    good = good && (comparison->predicted_peaks || error_no_memory(error, "a comparison"));
    for (uint32_t rank = 0; good && rank < whole.ranks; rank++)
        comparison->predicted_peaks[rank] = whole.per_rank[rank].live_peak_bytes;
    *iteration_ns = whole.iteration_ns;
    simulation_clear(&whole);
    return good;
}

bool comparison_create(struct comparison *comparison, const struct schedule *schedule, const struct network *network,
                       const struct measured_run *run, const struct stage_exchange *within, struct error *error)
{
    *comparison = (struct comparison){ .schedule = schedule, .run = run };
    struct aligned aligned = { .count = 0 };
    uint64_t whole_ns;
    const bool good = predict_peaks(comparison, network, &whole_ns, error)
                   && aligned_create(&aligned, schedule, network, &run->timeline, error)
                   && deviation_find(&aligned, within, &comparison->deviation, error)
                   && schedule_simulate(aligned.schedule, NULL, aligned.network, &comparison->predicted, NULL, error);
    comparison->lacks_updates = good && whole_ns != aligned.planned_ns;
    aligned_clear(&aligned);
    return good;
}

void comparison_clear(struct comparison *comparison)
{
    simulation_clear(&comparison->predicted);
    deviation_clear(&comparison->deviation);
    free(comparison->predicted_peaks);
    free(comparison->experts);
    *comparison = (struct comparison){ .schedule = NULL };
}
