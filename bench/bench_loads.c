// The inputs of dnn-partitioning and Piper by their own cost models: published values, our values, and our time.
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "bench/fail.h"
#include "common/number.h"
#include "partitioner/objectives/bottleneck.h"
#include "profiler/import.h"

#define DNN_PARTITIONING "../shared/data/partition/dnn-partitioning/LayerGraphs/"
#define PIPER "../shared/data/partition/piper/"

struct load_case {
    enum bottleneck_model model;
    const char *file;
    uint32_t machines, micro_batches;  // 0: as in the file
    const char *memory;                // or NULL
    uint64_t bytes_per_second;
    bool is_straight;
    const char *published;             // with their time if it was measured
};

static const struct load_case cases[] = {
    { BOTTLENECK_MAX_LOAD, "bert24_inference", 0, 0, NULL, 0, false, "0.0177899 (0.00 s)" },
    { BOTTLENECK_MAX_LOAD, "bert24_training", 0, 0, NULL, 0, false, "0.0417458 (0.00 s)" },
    { BOTTLENECK_MAX_LOAD, "gnmt_inference", 0, 0, NULL, 0, false, "0.0329107 (13.6 s, 549 MB)" },
    { BOTTLENECK_MAX_LOAD, "resnet50_inference", 0, 0, NULL, 0, false, "0.0337747 (0.14 s)" },
    { BOTTLENECK_MAX_LOAD, "resnet50_training", 0, 0, NULL, 0, false, "0.0786318 (0.20 s)" },
    { BOTTLENECK_TPS, "bert32a100", 8, 128, "8GiB", 25000000000, false, "0.166904267 (0.04 s)" },
    { BOTTLENECK_TPS, "bert32a100", 32, 480, "8GiB", 25000000000, false, "0.0419473 (0.15 s)" },
    { BOTTLENECK_TPS, "bert32a100", 64, 512, "8GiB", 25000000000, false, "0.0211050 (0.12 s)" },
    { BOTTLENECK_TPS, "bert32a100", 64, 512, "80GiB", 25000000000, false, "0.01700963 (0.19 s)" },
    { BOTTLENECK_TPS, "bert32a100", 8, 128, "8GiB", 26843545600, true, "0.16585575 (25 s by GLPK)" },
    { BOTTLENECK_TPS, "resnet", 4, 128, "8GiB", 26843545600, true, "130.0015703 (1.4 s by HiGHS)" },
    { BOTTLENECK_TPS, "resnet", 8, 128, "8GiB", 26843545600, true, "-" },
    { BOTTLENECK_TPS, "resnet", 8, 128, "4GiB", 26843545600, true, "-" },
    { BOTTLENECK_TPS, "resnet", 8, 128, "4GiB", 26843545600, false, "-" },
    { BOTTLENECK_TPS, "resnet", 16, 128, "4GiB", 26843545600, false, "-" },
};

static struct profile *import(const struct load_case *load_case, struct cluster **cluster, struct error *error)
{
    char path[200];
    snprintf(path, sizeof path, "%s%s.json", load_case->model == BOTTLENECK_TPS ? PIPER : DNN_PARTITIONING,
             load_case->file);
    struct profile *profile = load_case->model == BOTTLENECK_TPS ? import_piper(path, 1, cluster, error)
                                                                 : import_dnn_partitioning(path, 1, cluster, error);
    uint64_t memory;
    if (!profile || !load_case->memory)
        return profile;
    cluster_free(*cluster);
    *cluster = bytes_parse(load_case->memory, &memory, error)
                   ? cluster_uniform(load_case->machines, memory, 0, load_case->bytes_per_second, error) : NULL;
    if (*cluster)
        return profile;
    profile_free(profile);
    return NULL;
}

static bool plan(const struct load_case *load_case, struct error *error)
{
    struct cluster *cluster = NULL;
    struct profile *profile = import(load_case, &cluster, error);
    if (!profile)
        return false;
    const struct bottleneck_request request = { .model = load_case->model, .profile = profile, .cluster = cluster,
                                                .micro_batches = load_case->micro_batches,
                                                .is_straight = load_case->is_straight };
    const clock_t begin = clock();
    struct bottleneck_result *result = bottleneck_search(&request, error);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (result)
        printf("%-8s  %-18s  %3zu  %5s  %-8s  %-27s  %.10g  %s  %6zu  %.3f s\n", bottleneck_names[load_case->model],
               load_case->file, cluster->device_count, load_case->memory ? load_case->memory : "",
               load_case->is_straight ? "straight" : "", load_case->published, result->value_ns * 1e-9,
               result->proved ? "proved" : "      ", result->downset_count, seconds);
    const bool good = result != NULL;
    bottleneck_free(result);
    cluster_free(cluster);
    profile_free(profile);
    return good;
}

int main(void)
{
    struct error error = { 0 };
    if (access(PIPER, R_OK) != 0 || access(DNN_PARTITIONING, R_OK) != 0) {
        printf("skipped: the published inputs are not here (../shared/data/partition)\n");
        return 0;
    }
    printf("model     input              machines                published, in s"
           "              found          downsets\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (!plan(&cases[i], &error))
            return fail(&error);
    return 0;
}
