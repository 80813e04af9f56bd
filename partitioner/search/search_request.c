#include "partitioner/search/search_request.h"

#include "partitioner/search/units.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/cost/variant.h"

// --- what a request must be ---------------------------------------------------------

static bool variants_are_given_well(const struct search_request *request, struct error *error)
{
    const char *const *variants = request->layout.variants;
    for (uint32_t s = 1; variants && s < request->layout.stages; s++)
        if (!variants_meet(request->profile, variants[s - 1], variants[s]))
            return error_set(error, "stage %u takes the variant \"%.60s\" and stage %u \"%.60s\", and of one of them"
                             " each device has a share of what is handed on: give all stages the same", s - 1,
                             variants[s - 1] ? variants[s - 1] : "-", s, variants[s] ? variants[s] : "-");
    const uint32_t last = request->layout.stages - 1;
    if (variants && last > 0 && !variants_tie(request->profile, variants[0], variants[last]))
        return error_set(error,
                         "stage 0 takes the variant \"%.60s\" and stage %u \"%.60s\", and their layers are tied: give"
                         " both groups of the same size",
                         variants[0] ? variants[0] : "-", last, variants[last] ? variants[last] : "-");
    return true;
}

static bool may_split_layers(const struct search_request *request)
{
    const struct profile *profile = request->profile;
    for (uint32_t s = 0; request->layout.variants && s < request->layout.stages; s++)
        if (variant_devices(profile, request->layout.variants[s]) > 1)
            return true;
    for (size_t l = 0; request->free.variants && l < profile->layer_count; l++)
        for (size_t v = 0; v < profile->layers[l].variant_count; v++)
            if (profile->layers[l].variants[v].devices > 1)
                return true;
    return false;
}

static bool may_take(const struct search_request *request, const char *name)
{
    bool may = request->free.variants;
    for (uint32_t s = 0; request->layout.variants && s < request->layout.stages; s++)
        may |= request->layout.variants[s] && strcmp(request->layout.variants[s], name) == 0;
    return may;
}

// What the members of groups have of tables, by any variant that a stage may take.
static struct split_tables split_tables_of(const struct search_request *request)
{
    struct split_tables tables = { 0 };
    bool whole = false;
    for (size_t l = 0; l < request->profile->layer_count; l++) {
        const struct profile_layer *layer = &request->profile->layers[l];
        for (size_t v = 0; layer->touched_rows > 0 && v < layer->variant_count; v++) {
            const struct profile_variant *variant = &layer->variants[v];
            if (variant->devices < 2 || !may_take(request, variant->layer.name))
                continue;
            tables.in_parts |= variant->layer.touched_rows > 0;
            whole |= variant->layer.touched_rows == 0;
            tables.copied |= variant->layer.summed_rows > 0;
            tables.by_columns |= variant->layer.row_bytes != layer->row_bytes;
        }
    }
    tables.in_parts &= !whole;
    return tables;
}

static bool has_variant(const struct profile_layer *layer, const char *name)
{
    bool has = false;
    for (size_t v = 0; v < layer->variant_count; v++)
        has |= strcmp(layer->variants[v].layer.name, name) == 0;
    return has;
}

// The name of a variant of other layers that a stage may take, on several devices with rows of their own each, and that
// this one does not have.
static const char *lacks(const struct search_request *request, const struct profile_layer *layer)
{
    for (size_t l = 0; l < request->profile->layer_count; l++) {
        const struct profile_layer *other = &request->profile->layers[l];
        for (size_t v = 0; v < other->variant_count; v++) {
            const char *name = other->variants[v].layer.name;
            const bool shares = other->variants[v].devices > 1 && other->variants[v].shares_output;
            if (shares && may_take(request, name) && !has_variant(layer, name))
                return name;
        }
    }
    return NULL;
}

// What routers count is of the whole micro-batch. So experts are split over the devices of a group if these have rows
// of their own. Otherwise each device has all rows, and counts alike.
static bool experts_have_variants(const struct search_request *request, struct error *error)
{
    for (size_t l = 0; l < request->profile->layer_count; l++) {
        const struct profile_layer *layer = &request->profile->layers[l];
        const bool chooses = layer->kind && (strcmp(layer->kind, "experts") == 0 || strcmp(layer->kind, "router") == 0);
        const char *name = chooses ? lacks(request, layer) : NULL;
        if (name && layer->state_bytes > 0)
            return error_set(error, "layer %.60s has experts, which the variant \"%.60s\" does not split: measure the"
                             " profile with places of experts (rows2:blocks), or plan without variants",
                             layer->name, name);
    }
    return true;
}

bool search_check_size(const struct search_request *request, struct error *error)
{
    const struct generator *generator = search_generator(request);
    // A given order is in memory already.
    const uint64_t chunks = request->chunks ? request->chunks : generator->usual_chunks;
    const uint64_t stages = request->layout.replicas ? request->layout.stages : chunks * request->ranks;
    const uint64_t kinds = generator->is_inference ? 1 : 2;
    const uint64_t actions = multiply_clamped(kinds * stages, request->micro_batches);
    if (request->given || actions <= SEARCH_MOST_ACTIONS)
        return true;
    return error_set(error, "%u micro-batches through %llu stage%s are %llu actions in an iteration, and a search times"
                     " iterations of up to %u; plan for %llu micro-batches or fewer", request->micro_batches,
                     (unsigned long long)stages, stages == 1 ? "" : "s", (unsigned long long)actions,
                     SEARCH_MOST_ACTIONS, (unsigned long long)max_u64(SEARCH_MOST_ACTIONS / (kinds * stages), 1));
}

bool search_check(const struct search_request *request, struct error *error)
{
    const size_t devices = request->cluster->device_count;
    if (request->ranks > devices)
        return error_set(error, "%u ranks need as many devices, but the cluster has %zu", request->ranks, devices);
    const struct generator *generator = search_generator(request);
    if (!search_check_size(request, error))
        return false;
    if (generator->takes_splits && !profile_has_sequences(request->profile))
        return error_set(error, "%s passes each sequence through the stages in parts, and the profile does not say that"
                         " there are any (\"sequences\": true in it does)", generator->name);
    return variants_are_given_well(request, error)
        && experts_have_variants(request, error)
        && (!may_split_layers(request)
            || optimizer_check_split(request->storage.optimizer, split_tables_of(request), error))
        && storage_check(&request->storage, request->profile, request->cluster, generator->weights == WEIGHTS_FLUSH,
                         error);
}

bool search_offers(const struct generator *generator, const struct profile *profile)
{
    return !generator->is_inference && (!generator->takes_splits || profile_has_sequences(profile));
}

bool search_resolve(struct search_request *request, struct error *error)
{
    if (!generator_for(request->schedule, request->given, &request->generator, error))
        return false;
    storage_meet_schedule(&request->storage, request->generator.weights, request->given, request->micro_batches);
    return true;
}

const struct generator *search_generator(const struct search_request *request)
{
    const struct generator *generator = &request->generator;
    assert(generator->name && generator->given == request->given
           && (request->given || strcmp(generator->name, request->schedule) == 0));
    return generator;
}

// However the model is cut and sharded, each layer's states are there once.
static uint64_t least_on_hosts(const struct search_request *request)
{
    uint64_t bytes = 0;
    for (uint32_t l = 0; request->storage.optimizer_on_host && l < request->profile->layer_count; l++) {
        const uint64_t weights = round_to_256(request->profile->layers[l].parameter_bytes);
        bytes = add_clamped(bytes, add_clamped(storage_state_bytes(&request->storage, request->profile, l),
                                               storage_gradient_bytes(&request->storage, weights)));
        bytes = add_clamped(bytes, weights);
    }
    return bytes;
}

bool search_check_host(const struct search_request *request, struct error *error)
{
    const size_t machines = 1 + storage_machine(request->cluster, request->cluster->device_count - 1);
    const uint64_t bytes = least_on_hosts(request);
    const uint64_t room = multiply_clamped(machines, request->cluster->host_memory_bytes);
    char all[NUMBER_SIZE], has[NUMBER_SIZE];
    if (bytes <= room)
        return true;
    return error_set_kind(error, ERROR_ANSWER, "no plan fits: the optimizer's state, with room for gradients and"
                          " weights on their way, takes %s with the hosts, and all of them have %s; what would help:"
                          " more memory there, the optimizer on the devices, another optimizer",
                          bytes_format(bytes, all), bytes_format(room, has));
}

// --- where a model can be cut ---------------------------------------------------------

static void find_cuts(const struct profile *profile, bool tied_apart, bool *can_cut)
{
    const uint32_t layers = (uint32_t)profile->layer_count;
    for (uint32_t l = 1; l < layers; l++)
        can_cut[l] = profile_can_cut_after(profile, l - 1);
    for (size_t i = 0; i < profile->tied_count && !tied_apart; i++)
        for (uint32_t l = profile->tied[i].from + 1; l <= profile->tied[i].to; l++)
            can_cut[l] = false;
    can_cut[0] = can_cut[layers] = true;
}

static bool check_cuts(const struct search_request *request, const bool *can_cut, uint32_t stages, struct error *error)
{
    const struct profile *profile = request->profile;
    const uint32_t layers = (uint32_t)profile->layer_count;
    uint32_t possible = 0;
    for (uint32_t l = 1; l <= layers; l++)
        possible += can_cut[l];
    if (possible >= stages)
        return true;
    if (stages != request->ranks)
        return error_set_kind(error, ERROR_ANSWER,
                              "the model can be cut into %u stage%s at most, too few for the %u that %s has on %u"
                              " rank%s; use fewer chunks or ranks", possible, possible == 1 ? "" : "s", stages,
                              request->schedule, request->ranks, request->ranks == 1 ? "" : "s");
    if (layers < stages)
        return error_set_kind(error, ERROR_ANSWER,
                              "the model has %u layers, too few for a stage on each of %u ranks; use %u",
                              layers, stages, possible);
    const char *tied = profile->tied_count > 0 && !request->storage.tied_apart
        ? "; tied layers must be on one stage unless tied apart" : "";
    return error_set_kind(error, ERROR_ANSWER,
                          "the model can be cut into %u stage%s at most, too few for %u ranks (no_cut_after forbids %zu"
                          " cuts%s); use %u",
                          possible, possible == 1 ? "" : "s", stages, profile->no_cut_count, tied, possible);
}

uint32_t search_exchange_cut(const struct search_request *request)
{
    uint32_t cut = search_generator(request)->exchanges ? 0 : (uint32_t)request->profile->layer_count;
    while (cut < request->profile->layer_count && strcmp(request->profile->layers[cut].kind, "exchange") != 0)
        cut++;
    return cut < request->profile->layer_count ? cut : 0;
}

static bool keep_to_exchange(const struct search_request *request, bool *can_cut, uint32_t stages, struct error *error)
{
    const uint32_t cut = search_exchange_cut(request);
    for (uint32_t l = 1; cut > 0 && l < request->profile->layer_count; l++)
        can_cut[l] &= l == cut;
    if (cut == 0 || (can_cut[cut] && stages <= 2 && request->ranks <= 1))
        return true;
    return error_set_kind(error, ERROR_ANSWER, "%s exchanges, so that the model is cut in front of its layer %.80s and"
                          " nowhere else, which %s; take another schedule", request->schedule,
                          request->profile->layers[cut].name,
                          can_cut[cut] ? "leaves two stages, of one rank" : "no_cut_after or a tied layer forbids");
}

// --- segments -----------------------------------------------------------------------------

uint32_t search_rows_read(const struct profile *profile)
{
    uint32_t count = 0;
    for (size_t l = 0; l < profile->layer_count; l++)
        count += profile_layer_reads_rows(&profile->layers[l]);
    return count;
}

bool search_has_segments(const struct search_request *request)
{
    return search_generator(request)->exchanges && search_rows_read(request->profile) > 0;
}

// The layer that is number `number` of those that read rows; the number of layers behind the last.
static uint32_t reader_of_rows(const struct search_request *request, uint32_t number)
{
    const uint32_t layers = (uint32_t)request->profile->layer_count;
    uint32_t l = 0;
    for (; l < layers; l++)
        if (profile_layer_reads_rows(&request->profile->layers[l]) && number-- == 0)
            break;
    return l;
}

static uint32_t stages_of(const struct search_request *request)
{
    return request->given ? request->given->stages : search_generator(request)->usual_chunks * request->ranks;
}

// The segments of each stage of the uncut order: one more than its layers that read rows. A layer of experts has two of
// these. 0: there is no such number.
static uint32_t segments_of(const struct search_request *request)
{
    const uint32_t readers = search_rows_read(request->profile), stages = stages_of(request);
    const uint32_t uncut = stages > readers ? stages - readers : 0;
    return uncut > 0 && readers % (2 * uncut) == 0 ? readers / uncut + 1 : 0;
}

static bool segments_may_begin(const struct search_request *request, uint32_t stage, uint32_t first)
{
    const uint32_t segments = segments_of(request), before = stage / segments * (segments - 1);
    if (stage == 0 || stage >= stages_of(request))
        return true;
    if (stage % segments > 0)
        return first == reader_of_rows(request, before + stage % segments - 1);
    return first > reader_of_rows(request, before - 1) && first < reader_of_rows(request, before);
}

// Rows come by messages from a rank to itself.
static bool keep_to_segments(const struct search_request *request, const bool *can_cut, struct error *error)
{
    const uint32_t readers = search_rows_read(request->profile);
    const uint32_t stages = stages_of(request), segments = segments_of(request);
    if (segments == 0 || !request->given)
        return error_set(error, "%s has %u stages, and %u layers of the model read rows of experts, in front of which"
                         " it is cut: take an order whose stages have the same number N of layers of experts each, and"
                         " are cut into 2 N + 1 segments",
                         request->schedule, stages, readers);
    for (uint32_t i = 0; i < readers; i++) {
        const uint32_t layer = reader_of_rows(request, i);
        const uint32_t stage = i / (segments - 1) * segments + i % (segments - 1) + 1;
        if (schedule_rank(request->given, stage, 0) != schedule_rank(request->given, stage - 1, 0))
            return error_set(error, "layer %.80s begins stage %u of %s, and its rows come from another rank: cut its"
                             " stages into %u segments each", request->profile->layers[layer].name, stage,
                             request->schedule, segments);
        if (!can_cut[layer])
            return error_set_kind(error, ERROR_ANSWER, "%s exchanges, so that the model is cut in front of its layer"
                                  " %.80s, which no_cut_after or a tied layer forbids; take another schedule",
                                  request->schedule, request->profile->layers[layer].name);
    }
    return true;
}

bool *search_cuts(const struct search_request *request, uint32_t stages, struct error *error)
{
    bool *can_cut = calloc(request->profile->layer_count + 1, sizeof can_cut[0]);
    if (!can_cut)
        return error_null(error_no_memory(error, "a search"));
    find_cuts(request->profile, request->storage.tied_apart, can_cut);
    for (size_t l = 1; request->units && l < request->profile->layer_count; l++)
        can_cut[l] &= request->units->of[l] != request->units->of[l - 1];
    if (keep_to_exchange(request, can_cut, stages, error)
        && (!search_has_segments(request) || keep_to_segments(request, can_cut, error))
        && check_cuts(request, can_cut, stages, error))
        return can_cut;
    free(can_cut);
    return NULL;
}

// --- pinned layers ----------------------------------------------------------------------

bool search_may_begin(const struct search_request *request, uint32_t stage, uint32_t first)
{
    if (search_has_segments(request) && !segments_may_begin(request, stage, first))
        return false;
    for (size_t i = 0; i < request->pinned.count; i++) {
        const struct search_pin *pin = &request->pinned.at[i];
        if (stage <= pin->stage ? first > pin->layer : first <= pin->layer)
            return false;
    }
    return true;
}

// Each stage begins as early as it can. If that is not early enough, nothing is.
bool search_check_pins(const struct search_request *request, const bool *can_cut, uint32_t stages,
                       struct error *error)
{
    const uint32_t layers = (uint32_t)request->profile->layer_count;
    for (size_t i = 0; i < request->pinned.count; i++) {
        const struct search_pin *pin = &request->pinned.at[i];
        if (pin->stage >= stages)
            return error_set(error, "layer %s is pinned to stage %u, but %s on %u rank%s has stages 0 to %u",
                             request->profile->layers[pin->layer].name, pin->stage, request->schedule, request->ranks,
                             request->ranks == 1 ? "" : "s", stages - 1);
    }
    uint32_t first = 0;
    for (uint32_t s = 1; s <= stages; s++) {
        do
            first++;
        while (first <= layers
               && !(can_cut[first] && (first == layers) == (s == stages) && search_may_begin(request, s, first)));
        if (first > layers)
            return error_set_kind(error, ERROR_ANSWER,
                                  "with the layers that are pinned%s no cut is left between stages %u and %u; pin"
                                  " fewer, or in the order of the layers",
                                  search_has_segments(request) ? ", and those in front of which the model is cut," : "",
                                  s - 1, s);
    }
    return true;
}

// --- plans ------------------------------------------------------------------------------

static bool set_head(const struct search_request *request, struct plan *plan, struct error *error)
{
    const struct generator *generator = search_generator(request);
    plan->ranks = request->ranks;
    plan->chunks = request->chunks;
    plan->micro_batches = request->micro_batches;
    plan->storage = request->storage;
    plan->weights = generator->weights;
    storage_meet_schedule(&plan->storage, plan->weights, request->given, plan->micro_batches);
    snprintf(plan->schedule, sizeof plan->schedule, "%s", generator->name);
    snprintf(plan->profile_hash, sizeof plan->profile_hash, "%s", request->profile->hash);
    plan->model = strdup(request->profile->model);
    if (!plan->model)
        return error_no_memory(error, "a plan");
    if (request->given && !(plan->given = schedule_copy(request->given, error)))
        return false;
    plan->cluster = cluster_copy(request->cluster, error);
    return plan->cluster != NULL;
}

struct plan *search_begin_plan(const struct search_request *request, size_t stages, struct error *error)
{
    struct plan *plan = plan_create(stages, error);
    if (plan && set_head(request, plan, error))
        return plan;
    plan_free(plan);
    return NULL;
}

// --- orders -----------------------------------------------------------------------------

static struct generate_request order_request(const struct search_request *request, uint32_t micro_batches)
{
    return (struct generate_request){ .ranks = request->ranks, .chunks = request->chunks,
                                      .micro_batches = micro_batches, .replicas = request->layout.replicas,
                                      .stages = request->layout.stages };
}

struct schedule *search_order(const struct search_request *request, uint32_t micro_batches, struct error *error)
{
    const struct generate_request order = order_request(request, micro_batches);
    return storage_order(&request->storage, schedule_generate_by(search_generator(request), &order, error), error);
}

struct slots *search_slots(const struct search_request *request, struct error *error)
{
    const struct generate_request order = order_request(request, request->micro_batches);
    return predict_slots_by(search_generator(request), &order, &request->storage, error);
}

static bool was_ended(const struct search_request *request, const struct certificate *certificate)
{
    return (request->limits.interrupted && *request->limits.interrupted)
        || (request->limits.deadline_ns > 0 && certificate->stop == STOP_DEADLINE);
}

void search_say_unbounded(const struct search_request *request, struct certificate *certificate)
{
    const char *why = "nothing is known of how updates that take time hold up this schedule";
    if (certificate->proved || certificate->lower_bound_ns > 0
        || search_generator(request)->weights == WEIGHTS_FLUSH)
        return;
    if (request->cluster->level_count > 1)
        why = "waiting on links that several ranks share may outweigh what is certain";
    else if (was_ended(request, certificate))  // before the bounds that exist were known
        return;
    else if (request->layout.replicas || request->free.replicas)
        why = "with so few micro-batches for so many copies nothing is certain";
    certificate->stop = STOP_OTHER;
    snprintf(certificate->stopped, sizeof certificate->stopped, "%s", why);
}
