#include "bench/plan_case.h"

#include "bench/made_chain.h"
#include "bench/made_graph.h"
#include "bench/real_profiles.h"
#include "bench/repeated_profile.h"
#include "partitioner/plan_search.h"
#include "schedules/generators/generate.h"

enum { NOISE_PPM = 30000, NOISE_SEED = 1 };

// --- the profile ----------------------------------------------------------------------------

static bool draw_noise(struct plan_case *plan_case, const char *number, struct error *error)
{
    if (!noisy_profile_create(&plan_case->noisy, plan_case->profile, (struct noise_amount){ .ppm = NOISE_PPM }, error))
        return false;
    noisy_profile_draw(&plan_case->noisy, NOISE_SEED, (uint32_t)strtoul(number, NULL, 10));
    plan_case->request.profile = plan_case->noisy.profile;
    return true;
}

// "graph300" or "graph300.7", the seventh of that size.
static struct profile *find_graph(const char *word, struct error *error)
{
    char *rest;
    const uint32_t layers = (uint32_t)strtoul(word, &rest, 10);
    return made_graph(layers, *rest == '.' ? strtoull(rest + 1, NULL, 10) : 1, error);
}

static bool is_file(const char *word)
{
    const size_t length = strlen(word);
    return length > 5 && strcmp(word + length - 5, ".json") == 0;
}

// "inception_v3", "inception_v3*2", "chain500", "profile.json".
static struct profile *find_profile(char *word, struct error *error)
{
    if (is_file(word))
        return profile_load(word, error);
    char *times = strchr(word, '*');
    if (times)
        *times++ = '\0';
    struct profile *profile = strncmp(word, "graph", 5) == 0 ? find_graph(word + 5, error)
        : strncmp(word, "chain", 5) == 0
        ? made_chain("chain", (uint32_t)strtoul(word + 5, NULL, 10), false, error) : real_profile(word, error);
    if (!profile || !times)
        return profile;
    struct profile *repeated = repeated_profile(profile, (uint32_t)strtoul(times, NULL, 10), error);
    profile_free(profile);
    return repeated;
}

static bool read_profile(struct plan_case *plan_case, char *word, struct error *error)
{
    char *draw = strchr(word, '~');
    if (draw)
        *draw++ = '\0';
    plan_case->profile = find_profile(word, error);
    plan_case->request.profile = plan_case->profile;
    if (plan_case->profile && plan_case->profile->sequences == SEQUENCES_UNSAID)
        plan_case->profile->sequences = SEQUENCES_SOME;  // as if those of pictures could be cut, for seq1f1b
    return plan_case->profile && (!draw || draw_noise(plan_case, draw, error));
}

// --- words ----------------------------------------------------------------------------------

static const char *value_of(const char *word, const char *key)
{
    const size_t length = strlen(key);
    return strncmp(word, key, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

// Its index in a list of names that ends with NULL; -1 if it is not there.
static int place_of(const char *const *names, const char *word)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

// "auto", or a list that is repeated until all ranks have a stage. The last stage may get fewer replicas.
static void read_replicas(struct plan_case *plan_case, const char *list)
{
    struct search_request *request = &plan_case->request;
    request->free.replicas = strcmp(list, "auto") == 0;
    if (request->free.replicas)
        return;
    request->layout.replicas = plan_case->replicas;
    uint32_t left = request->ranks;
    for (const char *cursor = list; left > 0 && request->layout.stages < PLAN_CASE_MOST_STAGES;) {
        char *end;
        const uint32_t wanted = (uint32_t)strtoul(cursor, &end, 10),
                       ranks = wanted > 0 && wanted < left ? wanted : left;
        plan_case->replicas[request->layout.stages++] = ranks;
        left -= ranks;
        cursor = *end ? end + 1 : list;
    }
}

static void slow_down(struct cluster *cluster, uint32_t every)
{
    for (size_t d = 0; d < cluster->device_count; d += every ? every : 1)
        cluster->devices[d].speed_permille = 500;
}

// Words about sharding, offload and the optimizer.
static bool read_storage(struct storage *storage, const char *word)
{
    const char *value;
    const int optimizer = place_of(optimizer_names, word);
    const int shard = (value = value_of(word, "shard")) ? place_of(shard_names, value) : -1;
    const char *host = value_of(word, "host");
    if (optimizer >= 0)
        storage->optimizer = (enum optimizer_kind)optimizer;
    if (shard >= 0)
        storage->shard = (enum shard)shard;
    if (host) {
        storage->optimizer_on_host = strcmp(host, "optimizer") == 0;
        storage->activations_on_host = strcmp(host, "activations") == 0;
    }
    return optimizer >= 0 || shard >= 0 || host;
}

static bool read_word(struct plan_case *plan_case, const char *word, struct error *error)
{
    struct search_request *request = &plan_case->request;
    const char *value;
    if ((value = value_of(word, "m")))
        request->micro_batches = (uint32_t)strtoul(value, NULL, 10);
    else if ((value = value_of(word, "chunks")))
        request->chunks = (uint32_t)strtoul(value, NULL, 10);
    else if ((value = value_of(word, "budget")))
        request->limits.budget = strtoull(value, NULL, 10);
    else if ((value = value_of(word, "replicas")))
        read_replicas(plan_case, value);
    else if ((value = value_of(word, "slow")))
        slow_down(plan_case->cluster, (uint32_t)strtoul(value, NULL, 10));
    else if (strcmp(word, "all") == 0)
        plan_case->all_orders = true;
    else if (strcmp(word, "devices=auto") == 0)
        request->free.devices = true;
    else if (strcmp(word, "fewer") == 0)
        request->free.fewer = true;
    else if (!read_storage(&request->storage, word))
        return error_set(error, "\"%s\" is no word of plan_case.h", word);
    return true;
}

// --- the whole ------------------------------------------------------------------------------

// The part before the bar.
static bool read_words(struct plan_case *plan_case, char *text, struct error *error)
{
    char *rest, *word = strtok_r(text, " ", &rest);
    char *schedule = NULL;
    bool good = word != NULL;
    if (good)
        snprintf(plan_case->name, sizeof plan_case->name, "%s", word);
    word = good ? strtok_r(NULL, " ", &rest) : NULL;
    good = word && read_profile(plan_case, word, error);
    schedule = good ? strtok_r(NULL, " ", &rest) : NULL;
    const struct generator *generator = schedule ? generator_find(schedule, error) : NULL;
    if (!generator)
        return error_set(error, "a case has a name, a profile and a schedule");
    plan_case->request.schedule = generator->name;
    while (good && (word = strtok_r(NULL, " ", &rest)))
        good = read_word(plan_case, word, error);
    return good;
}

bool plan_case_read(struct plan_case *plan_case, const char *line, struct error *error)
{
    *plan_case = (struct plan_case){ 0 };
    const char *bar = strchr(line, '|');
    if (!bar)
        return error_set(error, "a case has a cluster after a bar, which is missing");
    char *text = strndup(line, (size_t)(bar - line));
    plan_case->cluster = text ? cluster_load(bar + 1, error) : NULL;
    plan_case->request.cluster = plan_case->cluster;
    plan_case->request.ranks = plan_case->cluster ? (uint32_t)plan_case->cluster->device_count : 0;
    const bool good = text ? plan_case->cluster && read_words(plan_case, text, error)
                           : error_no_memory(error, "a bench");
    free(text);
    return good;
}

void plan_case_clear(struct plan_case *plan_case)
{
    if (plan_case->noisy.profile)
        noisy_profile_clear(&plan_case->noisy);
    profile_free(plan_case->profile);
    cluster_free(plan_case->cluster);
    *plan_case = (struct plan_case){ 0 };
}

struct plan *plan_case_search(const struct plan_case *plan_case, struct error *error)
{
    struct search_request request = plan_case->request;
    request.wanted.own_order = !plan_case->all_orders;
    request.wanted.never_worse = true;
    return plan_search(&request, error);
}
