// PipeDream's published values next to ours, and the time and memory to find and prove ours. Then synthetic chains,
// as large as anyone may need, by the same cost model. They are also planned by Piper's cost model, with layers that
// can be recomputed and stages that must fit.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/real_profiles.h"
#include "common/random.h"
#include "partitioner/objectives/bottleneck.h"

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

static bool search(const struct profile *profile, enum bottleneck_model model, const struct row *row,
                   struct error *error)
{
    struct cluster *cluster = cluster_load(row->cluster, error);
    if (!cluster)
        return false;
    const struct bottleneck_request request = { .model = model, .profile = profile, .cluster = cluster,
                                                .is_straight = row->straight, .counts_activations = row->activations,
                                                .heed_memory = row->memory };
    const clock_t since = clock();  // of this process, since others may be busy too
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
    struct profile *profile = real_profile(row->graph, error);
    const bool good = profile && search(profile, BOTTLENECK_PIPEDREAM, row, error);
    profile_free(profile);
    return good;
}

// If it recomputes itself, a layer takes a third more and keeps only its output.
static bool add_recomputation(struct profile_layer *layer)
{
    layer->variants = calloc(1, sizeof layer->variants[0]);
    if (!layer->variants)
        return false;
    struct profile_variant *variant = &layer->variants[0];
    variant->devices = 1;
    variant->layer = (struct profile_layer){ .name = strdup("recompute"),
                                             .forward_ns = layer->forward_ns,
                                             .backward_ns = layer->backward_ns + layer->forward_ns,
                                             .parameter_bytes = layer->parameter_bytes,
                                             .output_bytes = layer->output_bytes,
                                             .saved_bytes = layer->output_bytes };
    layer->variant_count = 1;
    return variant->layer.name != NULL;
}

// Layers with up to 9 ms, 15 MB of parameters, 10 MB of output and 100 MB of kept activations.
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
        layer->saved_bytes = 256 * random_below(&seed, 400000);
        if (!layer->name || !layer->kind || !add_recomputation(layer)) {
            error_no_memory(error, "a chain");
            profile_free(profile);
            return NULL;
        }
    }
    return profile;
}

static bool search_chain(size_t layers, enum bottleneck_model model, const char *what, const char *cluster,
                         bool straight, struct error *error)
{
    struct profile *profile = make_chain(layers, error);
    const struct row row = { .graph = "chain", .cluster = cluster, .what = what, .straight = straight,
                             .published = model == BOTTLENECK_PIPEDREAM ? "pipedream"
                                 : straight ? "tps straight" : "tps" };
    const bool good = profile && search(profile, model, &row, error);
    profile_free(profile);
    return good;
}

int main(void)
{
    struct error error = { 0 };
    printf("model pipedream                              published    ours, seconds\n");
    const bool has_data = real_profiles_are_here();
    for (size_t i = 0; has_data && i < sizeof rows / sizeof rows[0]; i++)
        if (!search_published(&rows[i], &error))
            return fail(&error);
    printf("chains       machines                layers        by           seconds\n");
    static const struct {
        size_t layers;
        enum bottleneck_model model;
        const char *what, *cluster;
        bool straight;
    } chains[] = {
        { 500, BOTTLENECK_PIPEDREAM, "500", "64 devices, 80GB, 10GB/s 0us", false },
        { 1000, BOTTLENECK_PIPEDREAM, "1000", "512 devices, 80GB, 10GB/s 0us", false },
        { 1000, BOTTLENECK_PIPEDREAM, "1000, servers", "64 nodes x 8 devices, 80GB, 100GB/s 0us, 10GB/s 0us", false },
        { 500, BOTTLENECK_TPS, "500, 80 GB", "64 devices, 80GB, 10GB/s 0us", false },
        { 500, BOTTLENECK_TPS, "500, 8 GB", "64 devices, 8GB, 10GB/s 0us", false },
        { 500, BOTTLENECK_TPS, "500, 4 GB", "64 devices, 4GB, 10GB/s 0us", false },
        { 500, BOTTLENECK_TPS, "500, 4 GB", "64 devices, 4GB, 10GB/s 0us", true },
        { 177, BOTTLENECK_TPS, "177, 8 GB", "8 devices, 8GB, 10GB/s 0us", false },
        { 177, BOTTLENECK_TPS, "177, 8 GB", "8 devices, 8GB, 10GB/s 0us", true },
    };
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++)
        if (!search_chain(chains[i].layers, chains[i].model, chains[i].what, chains[i].cluster, chains[i].straight,
                          &error))
            return fail(&error);
    return 0;
}
