// What states take, by hand and as papers have it.
#include "partitioner/plan/storage.h"

#include "tests/partitioner/small.h"

// --- optimizers ------------------------------------------------------------------------

struct state_row {
    const char *name;
    enum optimizer_kind optimizer;
    const char *dtype;
    uint64_t bytes;  // of 1,000,000 parameters as a matrix of 1000 x 1000, and a vector of 1000
};

// 1,001,000 parameters: 4,004,000 bytes in fp32, rounded 4,004,096; 2,002,000 in bf16, rounded 2,002,176.
static struct state_row state_rows[] = {
    { "sgd keeps nothing", OPTIMIZER_SGD, "fp32", 0 },
    { "momentum keeps a copy", OPTIMIZER_MOMENTUM, "fp32", 4004096 },
    { "lars keeps a copy", OPTIMIZER_LARS, "fp32", 4004096 },
    { "adam keeps two copies", OPTIMIZER_ADAM, "fp32", 8008192 },
    { "adamw keeps two copies", OPTIMIZER_ADAMW, "fp32", 8008192 },
    { "lamb keeps two copies", OPTIMIZER_LAMB, "fp32", 8008192 },
    { "adamw keeps its copies in the type of the weights", OPTIMIZER_ADAMW, "bf16", 4004352 },
    { "adamw with fp32 masters keeps 12 bytes per parameter", OPTIMIZER_ADAMW_MASTER, "bf16", 12012032 },
    { "momentum with fp32 masters keeps 8 bytes per parameter", OPTIMIZER_MOMENTUM_MASTER, "fp16", 8008192 },
    { "sgd with fp32 masters keeps 4 bytes per parameter", OPTIMIZER_SGD_MASTER, "bf16", 4004096 },
    // 2 x 1,001,000 and 8 for each of 489 blocks: 2,005,912.
    { "adam in 8 bits keeps 2 bytes per parameter and 8 per block", OPTIMIZER_ADAM_8BIT, "fp32", 2006016 },
    { "adam in 1 bit keeps three copies", OPTIMIZER_ADAM_1BIT, "fp32", 12012288 },
    // 4 (1000 + 1000) and 4 x 1000: 12,000.
    { "adafactor keeps rows and columns, and vectors whole", OPTIMIZER_ADAFACTOR, "fp32", 12032 },
};

static struct profile *one_layer(const char *dtype)
{
    struct error error = { 0 };
    const uint64_t element = strcmp(dtype, "fp32") == 0 ? 4 : 2;
    struct profile *profile = small_chain(&(struct small_layer){ .forward = 1, .backward = 2 }, 1);
    free(profile->dtype);
    profile->dtype = strdup(dtype);
    profile->layers[0].parameter_bytes = 1001000 * element;
    profile->layers[0].shapes = calloc(2, sizeof(struct shape));
    profile->layers[0].shapes[0] = (struct shape){ 1000, 1000 };
    profile->layers[0].shapes[1] = (struct shape){ 1000, 1 };
    profile->layers[0].shape_count = 2;
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static void is_what_it_keeps(void **state)
{
    const struct state_row *row = *state;
    struct profile *profile = one_layer(row->dtype);
    assert_int_equal(storage_state_bytes(&(struct storage){ .optimizer = row->optimizer }, profile, 0), row->bytes);
    profile_free(profile);
}

// 1,001,000 parameters of which others keep the states of 1,000,000: of 1,000 it keeps 12 bytes each, and of a plain
// adamw two copies of 2,000 bytes rounded up.
static void states_that_are_elsewhere_take_nothing(void **state)
{
    (void)state;
    struct profile *profile = one_layer("bf16");
    profile->layers[0].states_elsewhere_bytes = 2000000;
    const struct storage master = { .optimizer = OPTIMIZER_ADAMW_MASTER }, plain = { .optimizer = OPTIMIZER_ADAMW };
    const struct storage whole = { .optimizer = OPTIMIZER_LAMB };
    assert_int_equal(storage_state_bytes(&master, profile, 0), 12032);
    assert_int_equal(storage_state_bytes(&plain, profile, 0), 2 * 2048);
    assert_int_equal(storage_state_bytes(&whole, profile, 0), 4004352);  // it updates tensors, which stay whole
    profile_free(profile);
}

// --- ZeRO ------------------------------------------------------------------------------

// Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 replicas, in GB. Ours are of a
// stage of 50 equal layers, of which one is gathered whole: a fiftieth of 15 GB for weights, and of 30 GB for
// gradients, which are in fp32 where the paper's are in fp16: two bytes more per parameter, 15 GB in all.
struct zero_row {
    const char *name;
    enum shard shard;
    uint32_t replicas;
    double published, more;
};

static struct zero_row zero_rows[] = {
    { "without sharding 16 bytes per parameter: 120 GB", SHARD_NONE, 64, 120, 15 },
    { "ZeRO 1 on 64 replicas: 31.4 GB", SHARD_OPTIMIZER, 64, 31.4, 15 },
    { "ZeRO 2 on 64 replicas: 16.6 GB", SHARD_GRADIENTS, 64, 16.6, 15.0 / 64 + 0.6 },
    { "ZeRO 3 on 64 replicas: 1.9 GB", SHARD_WEIGHTS, 64, 1.9, 15.0 / 64 + 0.9 },
    { "a single replica shares with nobody", SHARD_WEIGHTS, 1, 120, 15 },
};

static void is_what_the_paper_has(void **state)
{
    const struct zero_row *row = *state;
    struct small_layer rows[50] = { { .forward = 0 } };
    struct profile *profile = small_chain(rows, 50);
    free(profile->dtype);
    profile->dtype = strdup("bf16");
    for (size_t l = 0; l < 50; l++)
        profile->layers[l].parameter_bytes = 2 * (uint64_t)150000000;
    const struct storage storage = { .optimizer = OPTIMIZER_ADAMW_MASTER, .shard = row->shard };
    const struct stage_bytes bytes = stage_bytes_at(profile, 0, 50, NULL, 0, &storage, row->replicas);
    const double all = (double)(bytes.weights + bytes.gradients + bytes.optimizer) / 1e9;
    assert_true(all > row->published + row->more - 0.06 && all < row->published + row->more + 0.06);
    profile_free(profile);
}

// --- times -------------------------------------------------------------------------------

// A stage of 2 layers with 1024 and 3072 bytes of weights, adamw: W = 4096, O = 8192. Four replicas
// share 1024 and 2048; links take 100 ns and 1 ns per byte, a device's host 2 ns per byte, updates 1 ns per 10 bytes.
struct time_row {
    const char *name;
    struct storage storage;
    uint32_t replicas;
    uint64_t forward, backward, input, weight, step;  // added
    uint64_t weights, gradients, optimizer, host;
};

#define ADAMW .optimizer = OPTIMIZER_ADAMW
static struct time_row time_rows[] = {
    { "nothing is added to a plain stage", { ADAMW }, 4, 0, 0, 0, 0, 0, 4096, 4096, 8192, 0 },
    // 3 x 4096 + 2 x 8192 = 28672 bytes at 10 bytes per ns, rounded up.
    { "an update reads and writes", { ADAMW, .step_rate = 10000000000 }, 1, 0, 0, 0, 0, 2868, 4096, 4096, 8192, 0 },
    { "a shared update is a share", { ADAMW, .shard = SHARD_OPTIMIZER, .step_rate = 10000000000 }, 4,
      0, 0, 0, 0, 3172 + 717, 4096, 4096, 2048, 0 },
    // 3 x 1024 bytes and the latency: 3172.
    { "sharded states gather weights", { ADAMW, .shard = SHARD_OPTIMIZER }, 4, 0, 0, 0, 0, 3172, 4096, 4096, 2048, 0 },
    // All of 1024 and of 3072 bytes, with a latency each: 1124 and 3172.
    { "sharded gradients leave after each backward", { ADAMW, .shard = SHARD_GRADIENTS }, 4,
      0, 4296, 0, 4296, 3172, 4096, 1024 + 3072, 2048, 0 },
    { "sharded weights come for F, B, I and W", { ADAMW, .shard = SHARD_WEIGHTS }, 4,
      4296, 8592, 4296, 8592, 0, 1024 + 3072, 1024 + 3072, 2048, 0 },
    // F: 1124 | 10 beside 3172 | 10. B: 3172 | 20 beside 1124 | 20 beside 3172 | 1124. Less what F and B take themselves.
    { "sharded weights come a layer ahead", { ADAMW, .shard = SHARD_WEIGHTS, .window = 2 }, 4,
      4286, 8552, 4286, 8572, 0, 1024 + 4096, 1024 + 4096, 2048, 0 },
    { "sharded gradients leave while others are made", { ADAMW, .shard = SHARD_GRADIENTS, .window = 2 }, 4,
      0, 4276, 0, 4286, 3172, 4096, 1024 + 4096, 2048, 0 },
    { "a window of what nobody shares", { ADAMW, .shard = SHARD_WEIGHTS, .window = 1 }, 1, 0, 0, 0, 0, 0, 4096, 4096, 8192, 0 },
    { "sharding alone does nothing", { ADAMW, .shard = SHARD_WEIGHTS }, 1, 0, 0, 0, 0, 0, 4096, 4096, 8192, 0 },
    // 4096 bytes there and back.
    { "an update on the host", { ADAMW, .optimizer_on_host = true }, 1, 0, 0, 0, 0, 16384, 4096, 4096, 0, 16384 },
    { "a shared update on the host", { ADAMW, .optimizer_on_host = true, .shard = SHARD_OPTIMIZER }, 4,
      0, 0, 0, 0, 3172 + 4096, 4096, 4096, 0, 4096 },
    // 2 x 4096 bytes of gradients there and 4096 of weights back; O = 12 x 2048.
    { "an update of 16-bit weights on the host", { .optimizer = OPTIMIZER_ADAMW_MASTER, .optimizer_on_host = true }, 1,
      0, 0, 0, 0, 16384 + 8192, 4096, 8192, 0, 12 * 2048 + 4096 + 8192 },
    { "gradients of 16-bit weights leave in fp32", { .optimizer = OPTIMIZER_ADAMW_MASTER, .shard = SHARD_GRADIENTS }, 4,
      0, 200 + 8192, 0, 200 + 8192, 3172, 4096, 2048 + 6144, 6144, 0 },
    { "a window of one layer", { ADAMW, .optimizer_on_host = true, .window = 1 }, 1,
      8192, 24576, 8192, 24576, 0, 3072, 3072, 0, 16384 },
    { "a window of all layers", { ADAMW, .optimizer_on_host = true, .window = 2 }, 1,
      0, 0, 0, 0, 16384, 4096, 4096, 0, 16384 },
    { "activations on the host move beside", { ADAMW, .activations_on_host = true }, 1, 0, 0, 0, 0, 0, 4096, 4096, 8192, 0 },
};

static void adds_what_it_costs(void **state)
{
    const struct time_row *row = *state;
    const struct small_layer layers[] = {
        { .forward = 10, .backward = 20, .parameters = 4, .output = 1, .saved = 1 },
        { .forward = 10, .backward = 20, .parameters = 12, .saved = 1, .input_kept = INPUT_KEPT_WEIGHT },
    };
    struct profile *profile = small_chain(layers, 2);
    free(profile->dtype);
    profile->dtype = strdup(optimizer_is_master(row->storage.optimizer) ? "bf16" : "fp32");
    const struct stage_place place = { .speed_permille = 1000, .replicas = row->replicas,
                                       .link = { 100, 1000000000 }, .host_bytes_per_second = 500000000 };
    const struct cost_row cost = stage_cost_at(profile, 0, 2, NULL, 0, &row->storage, &place);
    const struct stage_bytes bytes = stage_bytes_at(profile, 0, 2, NULL, 0, &row->storage, row->replicas);
    assert_int_equal(cost.forward_ns, 20 + row->forward);
    assert_int_equal(cost.backward_ns, 40 + row->backward);
    assert_int_equal(cost.backward_input_ns, 20 + row->input);
    assert_int_equal(cost.backward_weight_ns, 20 + row->weight);
    assert_int_equal(cost.step_ns, row->step);
    // One byte of saved in each layer and one of through in units of 256: 512 + 256 bytes, at 2 ns each.
    assert_int_equal(cost.move_ns, row->storage.activations_on_host ? 1536 : 0);
    assert_int_equal(cost.moved_bytes, row->storage.activations_on_host ? 768 : 0);
    assert_int_equal(bytes.weights, row->weights);
    assert_int_equal(bytes.gradients, row->gradients);
    assert_int_equal(bytes.optimizer, row->optimizer);
    assert_int_equal(host_states_bytes(&bytes.host), row->host);
    assert_int_equal(cost.fixed_bytes, row->weights + row->gradients + row->optimizer);
    profile_free(profile);
}

// W = 4096 over links of 100 ns and 1 ns per byte.
struct reduce_row {
    const char *name;
    struct storage storage;
    uint32_t replicas;
    uint64_t ns;
};

static struct reduce_row reduce_rows[] = {
    { "nobody to add up with", { ADAMW }, 1, 0 },
    { "two replicas hand each other a half, and the sum of the other", { ADAMW }, 2, 2 * (100 + 2048) },
    { "four hand each other a quarter each, and the sums", { ADAMW }, 4, 2 * (100 + 3 * 1024) },
    { "eight move 7 / 4 of the gradients", { ADAMW }, 8, 2 * (100 + 3584) },
    { "three round the share of the others up", { ADAMW }, 3, 2 * (100 + 2731) },
    { "gradients of 16-bit weights are added up in fp32", { .optimizer = OPTIMIZER_ADAMW_MASTER }, 4,
      2 * (100 + 3 * 2048) },
    { "who updates a share needs no other sum", { ADAMW, .shard = SHARD_OPTIMIZER }, 4, 100 + 3 * 1024 },
    { "other stages add to whole sums", { ADAMW, .shard = SHARD_OPTIMIZER, .tied_apart = true }, 4,
      2 * (100 + 3 * 1024) },
    // 1024 signs and their size: a block, which one of the four owns.
    { "signs go both ways by the block", { .optimizer = OPTIMIZER_ADAM_1BIT }, 4, 2 * (100 + 132) },
    { "sharded gradients were handed on before", { ADAMW, .shard = SHARD_GRADIENTS }, 4, 0 },
};

static void adds_up(void **state)
{
    const struct reduce_row *row = *state;
    assert_int_equal(storage_reduce_ns(&row->storage, row->replicas, 4096, (struct link){ 100, 1000000000 }), row->ns);
    assert_int_equal(storage_reduce_ns(&row->storage, row->replicas, 0, (struct link){ 100, 1000000000 }), 0);
}

// Sums that all get and weights that all get are as many bytes, so that sharing an update gains what the update takes.
static void sharing_states_alone_takes_as_long_as_adding_up(void **state)
{
    (void)state;
    const struct link link = { 100, 1000000000 };
    const struct stage_states states = { .layers = 2, .weights = 40960, .optimizer = 81920 };
    const struct stage_place place = { .speed_permille = 1000, .replicas = 6, .link = link };
    const struct storage plain = { ADAMW }, shared = { ADAMW, .shard = SHARD_OPTIMIZER };
    struct cost_row row = { 0 };
    storage_add_times(&shared, &place, &states, &row);
    const uint64_t all = storage_reduce_ns(&plain, 6, 40960, link), part = storage_reduce_ns(&shared, 6, 40960, link);
    assert_int_equal(all, part + row.step_ns);
}

static void what_goes_to_the_host_has_slots_here_and_there(void **state)
{
    (void)state;
    const struct stage_bytes bytes = { .kept = 1000, .kept_through = 100, .input = 10, .kept_moves = true,
                                       .host = { 4, 2, 1 }, .input_life = INPUT_UNTIL_W };
    const struct slots slots = { .input = { 2, 5, 5 }, .kept = 2, .kept_through = 3, .away = 4 };
    const struct stage_memory memory = stage_memory_of(&bytes, &slots);
    assert_int_equal(memory.kept_bytes, 2 * 1000 + 3 * 100 + 5 * 10);
    assert_int_equal(memory.host_bytes, 7 + 4 * 1100);
    assert_int_equal(stage_away_of(&bytes, 1, &slots).moved_bytes, 1100);
    const struct slots at_home = { .kept = 2, .kept_through = 2 };
    assert_int_equal(stage_away_of(&bytes, 1, &at_home).moved_bytes, 0);
}

static void a_segment_keeps_the_weights_it_fetched(void **state)
{
    (void)state;
    const struct small_layer layers[] = { { .parameters = 4 }, { .parameters = 12 }, { .parameters = 1 } };
    struct profile *profile = small_chain(layers, 3);
    const struct segment segment = { 0, 2 };
    const struct storage sharded = { .shard = SHARD_WEIGHTS }, plain = { .shard = SHARD_NONE };
    const uint64_t more = stage_bytes_at(profile, 0, 3, &segment, 1, &sharded, 2).transient
                        - stage_bytes_at(profile, 0, 3, &segment, 1, &plain, 2).transient;
    assert_int_equal(more, 256 * (4 + 12));
    profile_free(profile);
}

// --- what is refused ------------------------------------------------------------------------

struct bad_row {
    const char *name;
    struct storage storage;
    const char *dtype, *cluster;
    bool flushes;
    const char *sentence;
};

#define HOST "2 devices, 1GiB, 1GB/s 1us, host 1GiB 1GB/s"
static struct bad_row bad_rows[] = {
    { "a host that is not there", { .optimizer_on_host = true }, "fp32", "2 devices, 1GiB, 1GB/s 1us", true,
      "states on the host: the cluster has no host; add one, such as \", host 512GiB 25GB/s\"" },
    { "a window without a host", { .window = 1 }, "fp32", HOST, true,
      "a window of layers leaves weights on the host, where their update must be too; put the optimizer on the host, or"
      " shard gradients or weights, which leaves them with replicas" },
    { "a window of several versions", { .window = 1, .optimizer_on_host = true }, "fp32", HOST, false,
      "a window of layers: an asynchronous schedule needs several versions of the weights at hand; use a schedule that"
      " flushes" },
    { "tied layers that never meet", { .tied_apart = true }, "fp32", HOST, false,
      "tied layers apart: their gradients are added up at a flush, which an asynchronous schedule has not; keep them"
      " together" },
    { "signs of halves", { .optimizer = OPTIMIZER_ADAM_1BIT }, "bf16", HOST, true,
      "optimizer adam1bit keeps its state in fp32 and beside weights in fp32, but the profile's are bf16; use"
      " adamw-master" },
    { "shares of what signs leave", { .optimizer = OPTIMIZER_ADAM_1BIT, .shard = SHARD_OPTIMIZER }, "fp32", HOST, true,
      "optimizer adam1bit: each replica keeps the whole momentum and what compression left of its own, and none of it"
      " can be shared; do not share its state, or take adamw" },
    { "momentum on the host", { .optimizer = OPTIMIZER_ADAM_1BIT, .optimizer_on_host = true }, "fp32", HOST, true,
      "optimizer adam1bit: replicas send each other momentum, which is to be on their devices; leave the optimizer there,"
      " or take adamw" },
    { "momentum of tied layers", { .optimizer = OPTIMIZER_ADAM_1BIT, .tied_apart = true }, "fp32", HOST, true,
      "optimizer adam1bit: tied layers apart need each other's gradients, and replicas send momentum; keep tied layers"
      " together, or take adamw" },
    { "momentum that never comes together", { .optimizer = OPTIMIZER_ADAM_1BIT }, "fp32", HOST, false,
      "optimizer adam1bit: replicas bring their momentum together at a flush, which an asynchronous schedule has not; use"
      " a schedule that flushes, or adamw" },
    { "masters of fp32", { .optimizer = OPTIMIZER_ADAMW_MASTER }, "fp32", HOST, true,
      "optimizer adamw-master keeps fp32 weights beside 16-bit ones, but the profile's are fp32; use the optimizer"
      " without -master" },
    { "factors without shapes", { .optimizer = OPTIMIZER_ADAFACTOR }, "fp32", HOST, true,
      "optimizer adafactor: layer l0 has parameters but no \"shapes\", from which its state follows; add them to the"
      " profile" },
};

static void is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    struct profile *profile = small_chain(&(struct small_layer){ .forward = 1, .backward = 1, .parameters = 1 }, 1);
    free(profile->dtype);
    profile->dtype = strdup(row->dtype);
    struct cluster *cluster = cluster_load(row->cluster, &error);
    assert_good(cluster, error);
    assert_false(storage_check(&row->storage, profile, cluster, row->flushes, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    assert_error(error, row->sentence);
    cluster_free(cluster);
    profile_free(profile);
}

// They hold shares of all versions, and need no host.
static void a_window_of_shares_is_for_every_schedule(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = small_chain(&(struct small_layer){ .forward = 1, .backward = 1, .parameters = 1 }, 1);
    struct cluster *cluster = cluster_load("2 devices, 1GiB, 1GB/s 1us", &error);
    assert_good(cluster, error);
    for (enum shard shard = SHARD_GRADIENTS; shard <= SHARD_WEIGHTS; shard++)
        for (int flushes = 0; flushes < 2; flushes++)
            assert_good(storage_check(&(struct storage){ .shard = shard, .window = 2 }, profile, cluster, flushes,
                                      &error), error);
    cluster_free(cluster);
    profile_free(profile);
}

static void shares_of_what_another_layer_reads_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct small_layer layers[] = { { .forward = 1, .backward = 1, .parameters = 1 }, { .forward = 1, .backward = 1 } };
    struct profile *profile = small_chain(layers, 2);
    struct cluster *cluster = cluster_load(HOST, &error);
    assert_good(cluster, error);
    profile->one_owner = calloc(1, sizeof profile->one_owner[0]);
    profile->one_owner[0] = (struct edge){ 0, 1 };
    profile->one_owner_count = 1;
    for (enum shard shard = SHARD_NONE; shard <= SHARD_OPTIMIZER; shard++)
        assert_good(storage_check(&(struct storage){ .shard = shard }, profile, cluster, true, &error), error);
    assert_false(storage_check(&(struct storage){ .shard = SHARD_GRADIENTS }, profile, cluster, true, &error));
    assert_error(error, "sharded gradients: layer l1 reads the parameters of layer l0, and a replica has room for those of"
                        " one layer at a time; share the optimizer's state alone");
    cluster_free(cluster);
    profile_free(profile);
}

static struct bad_row unrunnable_rows[] = {
    { "a run in bf16 without fp32 weights", { .optimizer = OPTIMIZER_ADAMW }, "bf16", NULL, true,
      "the plan's optimizer is adamw, and training in bf16 takes weights in fp32 beside those in bf16: plan with"
      " adamw-master" },
    { "a run in bf16 of an optimizer without a -master", { .optimizer = OPTIMIZER_ADAM }, "bf16", NULL, true,
      "the plan's optimizer is adam, and training in bf16 takes weights in fp32 beside those in bf16: plan with"
      " adamw-master" },
    { "a run in fp32 with weights in bf16", { .optimizer = OPTIMIZER_SGD_MASTER }, "fp32", NULL, true,
      "the plan's optimizer is sgd-master, for weights in bf16 or fp16, and the device computes in fp32: name a device such as"
      " cpu:bf16, or plan without -master" },
};

static void what_a_framework_holds_otherwise_is_not_run(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct storage storage = { .optimizer = OPTIMIZER_ADAMW_MASTER, .bytes_per_parameter = 16 };
    assert_int_equal(storage_gradient_bytes(&storage, 1000), 1000);
    assert_int_equal(storage_gradient_bytes(&(struct storage){ .optimizer = OPTIMIZER_ADAMW_MASTER }, 1000), 2000);
    assert_false(storage_check_runnable(&storage, "bf16", &error));
    assert_error(error, "the plan counts on 16 bytes of a parameter, as the framework holds them that it was estimated"
                 " for: it is for planning alone");
}

static void is_not_run(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    assert_false(storage_check_runnable(&row->storage, row->dtype, &error));
    assert_error(error, row->sentence);
}

static void every_optimizer_is_run_in_its_type(void **state)
{
    (void)state;
    for (enum optimizer_kind kind = OPTIMIZER_SGD; optimizer_names[kind]; kind++) {
        struct error error = { 0 };
        const char *dtype = optimizer_is_master(kind) ? "bf16" : "fp32";
        const struct storage storage = { .optimizer = kind };
        assert_good(storage_check_runnable(&storage, dtype, &error), error);
    }
}

// 3 replicas of 128 parameters have 43, 43 and 42: what adamw-master keeps of 43 are 516 bytes.
static void what_is_kept_of_a_parameter_is_one_replicas(void **state)
{
    (void)state;
    const struct storage master = { .optimizer = OPTIMIZER_ADAMW_MASTER, .shard = SHARD_OPTIMIZER };
    const struct storage plain = { .optimizer = OPTIMIZER_ADAMW, .shard = SHARD_OPTIMIZER };
    const struct shared_states states = { .layers = 1, .weights = 2 * 128, .optimizer = 12 * 128 };
    const struct shared_states few = { .layers = 1, .weights = 4 * 96, .optimizer = 8 * 96 };
    assert_int_equal(storage_state_share(&master, &states, 3), 768);
    assert_int_equal(storage_state_share(&master, &states, 2), 768);
    assert_int_equal(storage_state_share(&master, &states, 1), 12 * 128);
    assert_int_equal(storage_state_share(&plain, &few, 3), 256);
}

// 100,000 numbers, of which four replicas have 25,000 each in even shares: less than a block more, or a tensor.
static void what_is_updated_together_is_one_replicas(void **state)
{
    (void)state;
    const struct storage blocks = { .optimizer = OPTIMIZER_ADAM_8BIT, .shard = SHARD_OPTIMIZER };
    const struct storage lamb = { .optimizer = OPTIMIZER_LAMB, .shard = SHARD_OPTIMIZER };
    const struct storage adafactor = { .optimizer = OPTIMIZER_ADAFACTOR, .shard = SHARD_OPTIMIZER };
    const struct shared_states states = { .layers = 3, .weights = 400000, .optimizer = 300000, .tensor = 40960 };
    assert_int_equal(storage_share(&blocks, 400000, 40960, 4), 108288);  // 100,000 + 8,188, rounded up
    assert_int_equal(storage_share(&blocks, 4096, 4096, 4), 4096);
    assert_int_equal(storage_share(&blocks, 400000, 40960, 1), 400000);
    // 27,072 numbers: two bytes each, and 8 for 13 full blocks and 6 that are not.
    assert_int_equal(storage_state_share(&blocks, &states, 4), 54528);
    assert_int_equal(storage_share(&lamb, 400000, 40960, 4), 141056);
    assert_int_equal(storage_state_share(&lamb, &states, 4), 2 * 141056);
    assert_int_equal(storage_state_share(&lamb, &states, 2), 300000);
    assert_int_equal(storage_state_share(&adafactor, &states, 4), 300000);
}

static void the_largest_tensor_is_of_the_shapes(void **state)
{
    (void)state;
    struct profile *profile = one_layer("fp32");
    assert_int_equal(storage_largest_tensor(profile, 0), 4000000);
    profile->layers[0].shape_count = 0;
    assert_int_equal(storage_largest_tensor(profile, 0), 4004096);  // the layer, rounded up
    profile_free(profile);
}

static void what_is_plain_is_run(void **state)
{
    (void)state;
    struct error error = { 0 };
    for (enum optimizer_kind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_ADAMW; kind++) {
        const struct storage timed = { .optimizer = kind, .step_rate = 1 };
        const struct storage shared = { .optimizer = kind, .shard = SHARD_OPTIMIZER };
        assert_true(storage_check_runnable(&timed, "fp32", &error));
        assert_true(storage_check_runnable(&shared, "fp32", &error));
    }
    for (enum optimizer_kind kind = OPTIMIZER_SGD_MASTER; kind <= OPTIMIZER_ADAMW_MASTER; kind++)
        assert_true(storage_check_runnable(&(struct storage){ .optimizer = kind }, "bf16", &error));
}

#define COUNT(rows) (sizeof (rows) / sizeof (rows)[0])

int main(void)
{
    enum { SINGLE = 11 };
    struct CMUnitTest tests[SINGLE + COUNT(state_rows) + COUNT(zero_rows) + COUNT(time_rows) + COUNT(reduce_rows)
                            + COUNT(bad_rows) + COUNT(unrunnable_rows)] = {
        cmocka_unit_test(sharing_states_alone_takes_as_long_as_adding_up),
        cmocka_unit_test(a_window_of_shares_is_for_every_schedule),
        cmocka_unit_test(shares_of_what_another_layer_reads_are_refused),
        cmocka_unit_test(what_goes_to_the_host_has_slots_here_and_there),
        cmocka_unit_test(a_segment_keeps_the_weights_it_fetched),
        cmocka_unit_test(states_that_are_elsewhere_take_nothing),
        cmocka_unit_test(what_is_plain_is_run),
        cmocka_unit_test(what_is_kept_of_a_parameter_is_one_replicas),
        cmocka_unit_test(what_is_updated_together_is_one_replicas),
        cmocka_unit_test(the_largest_tensor_is_of_the_shapes),
        cmocka_unit_test(what_a_framework_holds_otherwise_is_not_run),
        cmocka_unit_test(every_optimizer_is_run_in_its_type),
    };
    size_t count = SINGLE;
    for (size_t i = 0; i < COUNT(state_rows); i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(is_what_it_keeps, &state_rows[i]);
    for (size_t i = 0; i < COUNT(zero_rows); i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(is_what_the_paper_has, &zero_rows[i]);
    for (size_t i = 0; i < COUNT(time_rows); i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(adds_what_it_costs, &time_rows[i]);
    for (size_t i = 0; i < COUNT(reduce_rows); i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(adds_up, &reduce_rows[i]);
    for (size_t i = 0; i < COUNT(bad_rows); i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(is_refused, &bad_rows[i]);
    for (size_t i = 0; i < COUNT(unrunnable_rows); i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(is_not_run, &unrunnable_rows[i]);
    return cmocka_run_group_tests_name("storage", tests, NULL, NULL);
}
