// PipeDream's published values beside ours, and what it takes to find and prove them; then
// the same model on chains that are made up, as large as anybody asks for.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/random.h"
#include "partitioner/bottleneck/bottleneck.h"
#include "profiler/import.h"

#define FOLDER "../shared/data/partition/pipedream/"

#define FLAT(devices) devices " devices, 16GB, 1GB/s 0us"
#define SERVERS "4 nodes x 4 devices, 16GB, 12GB/s 0us, 1250MB/s 0us"

static const struct row {
    const char *graph, *cluster, *what;
    bool straight, activations, memory;
    const char *published;  // seconds
} rows[] = {
    { "alexnet", FLAT("4"), "", 0, 0, 0, "0.023165752" },
    { "vgg16", FLAT("4"), "", 0, 0, 0, "0.175732624" },
    { "vgg16", FLAT("8"), "", 0, 0, 0, "0.09351323" },
    { "vgg16", FLAT("16"), "", 0, 0, 0, "0.04738646" },
    { "vgg16", FLAT("4"), "straight", 1, 0, 0, "0.21645" },
    { "vgg16", FLAT("4"), "activations", 0, 1, 0, "0.205520896" },
    { "vgg16", FLAT("16"), "activations", 0, 1, 0, "0.056529767" },
    { "vgg16", SERVERS, "", 0, 0, 0, "0.044008415" },
    { "resnet50", FLAT("4"), "", 0, 0, 0, "0.111497" },
    { "resnet50", FLAT("4"), "16 GB", 0, 0, 1, "0.114088" },
    { "resnet50", FLAT("4"), "activations", 0, 1, 0, "0.162880924" },
    { "resnet50", FLAT("16"), "", 0, 0, 0, "0.029212" },
    { "resnet50", SERVERS, "", 0, 0, 0, "0.028667352" },
    { "gnmt", FLAT("4"), "", 0, 0, 0, "0.025868" },
    { "gnmt", FLAT("16"), "", 0, 0, 0, "0.018379576" },
    { "gnmt", SERVERS, "", 0, 0, 0, "0.011081" },
    { "gnmt_large", FLAT("4"), "", 0, 0, 0, "0.137129" },
    { "gnmt_large", FLAT("8"), "", 0, 0, 0, "0.082845" },
    { "gnmt_large", FLAT("16"), "", 0, 0, 0, "0.058971" },
    { "inception_v3", FLAT("4"), "straight", 1, 0, 0, "0.177874" },
};

static int fail(const struct error *error)
{
    fprintf(stderr, "bench_bottleneck: %s\n", error->text);
    return 3;
}

static bool search(const struct profile *profile, const struct row *row, struct error *error)
{
    struct cluster *cluster = cluster_load(row->cluster, error);
    if (!cluster)
        return false;
    const struct bottleneck_request request = { .profile = profile, .cluster = cluster, .is_straight = row->straight,
                                                .counts_activations = row->activations, .heed_memory = row->memory };
    const clock_t since = clock();  // of this process: others may be busy too
    struct bottleneck_result *result = bottleneck_search(&request, error);
    const double took = (double)(clock() - since) / CLOCKS_PER_SEC;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (result)
        printf("%-13s %4zu machines  %-12s %-12s %-18.12g %s  %7zu downsets  %7.3f s of CPU  %4ld MiB so far\n",
               profile->model, cluster->device_count, row->what, row->published, result->value_ns * 1e-9,
               result->proved ? "proved" : "      ", result->downset_count, took, usage.ru_maxrss / 1024);
    fflush(stdout);
    const bool good = result != NULL;
    bottleneck_free(result);
    cluster_free(cluster);
    return good;
}

static bool search_published(const struct row *row, struct error *error)
{
    char path[200];
    snprintf(path, sizeof path, FOLDER "%s.graph.txt", row->graph);
    struct profile *profile = import_pipedream(path, 1, error);
    const bool good = profile && search(profile, row, error);
    profile_free(profile);
    return good;
}

// Layers of up to 9 ms and 15 MB.
static struct profile *make_chain(size_t layers, struct error *error)
{
    uint64_t seed = layers;
    struct profile *profile = profile_create("chain", "fp32", 1, layers, error);
    if (!profile)
        return NULL;
    profile->is_chain = true;
    for (size_t i = 0; i < layers; i++) {
        struct profile_layer *layer = &profile->layers[i];
        layer->name = strdup("layer");
        layer->kind = strdup("layer");
        layer->forward_ns = 200000 + random_below(&seed, 2800000);
        layer->backward_ns = 2 * layer->forward_ns;
        layer->parameter_bytes = 256 * random_below(&seed, 60000);
        layer->output_bytes = 256 * random_below(&seed, 40000);
        if (!layer->name || !layer->kind) {
            error_no_memory(error, "a chain");
            profile_free(profile);
            return NULL;
        }
    }
    return profile;
}

static bool search_chain(size_t layers, const char *cluster, struct error *error)
{
    struct profile *profile = make_chain(layers, error);
    const struct row row = { .graph = "chain", .cluster = cluster, .what = layers == 500 ? "500 layers" : "1000 layers",
                             .published = "" };
    const bool good = profile && search(profile, &row, error);
    profile_free(profile);
    return good;
}

int main(void)
{
    struct error error = { 0 };
    printf("model pipedream                              published    ours, seconds\n");
    const bool has_data = access(FOLDER, R_OK) == 0;
    if (!has_data)
        printf("skipped: the real profiles are not here (" FOLDER ")\n");
    for (size_t i = 0; has_data && i < sizeof rows / sizeof rows[0]; i++)
        if (!search_published(&rows[i], &error))
            return fail(&error);
    if (!search_chain(500, "64 devices, 80GB, 10GB/s 0us", &error)
        || !search_chain(1000, "512 devices, 80GB, 10GB/s 0us", &error)
        || !search_chain(1000, "64 nodes x 8 devices, 80GB, 100GB/s 0us, 10GB/s 0us", &error))
        return fail(&error);
    return 0;
}
