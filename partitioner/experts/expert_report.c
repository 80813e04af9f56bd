#include "partitioner/experts/expert_report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/expert_rules.h"
#include "common/json.h"
#include "common/shown.h"

// Capacities whose dropped pairs are told, in thousandths of the even share of an expert.
static const uint32_t capacities_milli[] = { 1000, 1250, 1500, 2000 };
enum { CAPACITIES = sizeof capacities_milli / sizeof capacities_milli[0] };

static const struct layer_routing *layer_of(const struct expert_plans *plans, size_t l)
{
    return &plans->pricing.profile->routing->layers[l];
}

// The mean of a sum over all micro-batches, in thousandths of a pair.
static uint64_t milli(const struct expert_plans *plans, uint64_t sum)
{
    const uint64_t batches = plans->pricing.profile->routing->batches;
    return (1000 * sum + batches / 2) / batches;
}

static double over_share(const struct expert_plans *plans, size_t l, uint64_t sum)
{
    const double share = (double)layer_of(plans, l)->pairs / plans->pricing.members;
    return (double)milli(plans, sum) / 1000 / share;
}

bool expert_plans_make(const struct copy_pricing *pricing, struct expert_plans *plans, struct error *error)
{
    const struct profile_routing *routing = pricing->profile->routing;
    const uint32_t members = pricing->members;
    *plans = (struct expert_plans){ *pricing, calloc(routing->layer_count + 1, sizeof *plans->layers) };
    bool good = plans->layers || error_no_memory(error, "a placement of experts");
    for (size_t l = 0; good && l < routing->layer_count; l++) {
        const uint32_t experts = routing->layers[l].experts;
        const struct expert_request request = { routing, &routing->layers[l], members,
                                                (experts + members - 1) / members, members > 1,
                                                copy_price(pricing, &routing->layers[l]) };
        good = expert_plan_make(&request, &plans->layers[l], error);
    }
    if (!good)
        expert_plans_clear(plans);
    return good;
}

void expert_plans_clear(struct expert_plans *plans)
{
    for (size_t l = 0; plans->layers && l < plans->pricing.profile->routing->layer_count; l++)
        expert_plan_clear(&plans->layers[l]);
    free(plans->layers);
    *plans = (struct expert_plans){ 0 };
}

// --- for people -----------------------------------------------------------------------------------------

static void print_layers(const struct expert_plans *plans, struct text *text)
{
    text_add(text, "%-28s %8s %11s %9s %8s %7s %8s %8s %8s %17s %10s\n", "layer", "experts", "even share", "slowest",
             "over it", "copies", "priced", "bound", "without", expert_rule_names[RULE_MODULO],
             expert_rule_names[RULE_BLOCKS]);
    for (size_t l = 0; l < plans->pricing.profile->routing->layer_count; l++) {
        const struct layer_routing *layer = layer_of(plans, l);
        const struct expert_plan *plan = &plans->layers[l];
        const uint64_t price = plan->copies * copy_price(&plans->pricing, layer);
        shown_add_cell(text, layer->layer, 28, 60);
        text_add(text, " %8" PRIu32 " %11.1f %9.1f %8.3f %7" PRIu32, layer->experts,
                 (double)layer->pairs / plans->pricing.members, (double)milli(plans, plan->cost) / 1000,
                 over_share(plans, l, plan->cost), plan->copies);
        text_add(text, " %8.3f %8.3f %8.3f %17.3f %10.3f\n", over_share(plans, l, plan->cost + price),
                 over_share(plans, l, plan->bound), over_share(plans, l, plan->alone),
                 over_share(plans, l, plan->rules[RULE_MODULO]), over_share(plans, l, plan->rules[RULE_BLOCKS]));
    }
}

static void print_experts_on(const struct expert_plans *plans, size_t l, uint32_t member, struct text *text)
{
    const struct layer_routing *layer = layer_of(plans, l);
    for (uint32_t e = 0; e < layer->experts; e++)
        if (plans->layers[l].member[e] == member)
            text_add(text, " %" PRIu32, e);
    text_add(text, "\n");
}

static void print_copies(const struct expert_plans *plans, size_t l, struct text *text)
{
    const struct expert_plan *plan = &plans->layers[l];
    const double price = over_share(plans, l, copy_price(&plans->pricing, layer_of(plans, l)));
    const double busiest = over_share(plans, l, plan->binding_pairs);
    const bool is_copied = plan->member[plan->binding] == ROUTING_COPIED;
    if (plan->copies > 0) {
        text_add(text, "  all members:");
        print_experts_on(plans, l, ROUTING_COPIED, text);
        text_add(text, "  With these copies the slowest member takes %.3f times the even share, and %.3f without. A"
                 " copy costs as much as %.3f.\n", over_share(plans, l, plan->cost), over_share(plans, l, plan->alone),
                 price);
    }
    if (busiest > 1 && !is_copied)
        text_add(text, "  Expert %" PRIu32 " alone has %.3f times the even share of a member. Without a copy of it no"
                 " placement takes less than that, and a copy would cost %.3f.\n", plan->binding, busiest, price);
    else if (busiest > 1)
        text_add(text, "  Expert %" PRIu32 " alone has %.3f times the even share of a member, and is copied.\n",
                 plan->binding, busiest);
}

static void print_placement(const struct expert_plans *plans, size_t l, struct text *text)
{
    const struct layer_routing *layer = layer_of(plans, l);
    text_add(text, "\n");
    shown_add(text, "%s", layer->layer);
    text_add(text, "\n");
    for (uint32_t m = 0; m < plans->pricing.members; m++) {
        text_add(text, "  member %" PRIu32 ":", m);
        print_experts_on(plans, l, m, text);
    }
    print_copies(plans, l, text);
    text_add(text, "  A capacity of");
    for (int c = 0; c < CAPACITIES; c++) {
        const uint64_t most = expert_capacity(layer->pairs, layer->experts, capacities_milli[c] / 1000.0);
        text_add(text, "%s %.2f drops %.1f %%", c > 0 ? "," : "", capacities_milli[c] / 1000.0,
                 (double)routing_dropped_ppm(plans->pricing.profile->routing, layer, most) / 1e4);
    }
    text_add(text, ".\n");
}

void expert_plans_print(const struct expert_plans *plans, struct text *text)
{
    text_add(text, "Pairs of a token and an expert, of the slowest of %" PRIu32 " members: the mean over %" PRIu64
                   " micro-batches. Memory is not looked at, and links for the price of copies only: as if an update"
                   " had %" PRIu64 " micro-batch%s.\n\n",
             plans->pricing.members, plans->pricing.profile->routing->batches, plans->pricing.micro_batches,
             plans->pricing.micro_batches == 1 ? "" : "es");
    print_layers(plans, text);
    for (size_t l = 0; l < plans->pricing.profile->routing->layer_count; l++)
        print_placement(plans, l, text);
}

// --- words ----------------------------------------------------------------------------------------------

void expert_plans_words(const struct expert_plans *plans, struct text *text)
{
    for (size_t l = 0; l < plans->pricing.profile->routing->layer_count; l++)
        for (uint32_t e = 0; e < layer_of(plans, l)->experts; e++) {
            const uint32_t member = plans->layers[l].member[e];
            text_add(text, "%s", e > 0 ? "+" : l > 0 ? "/" : "");
            if (member == ROUTING_COPIED)
                text_add(text, "*");
            else
                text_add(text, "%" PRIu32, member);
        }
}

// --- the document ---------------------------------------------------------------------------------------

static void write_rules(const struct expert_plans *plans, const struct expert_plan *plan, struct json_writer *writer)
{
    json_begin_array(writer, "rules", JSON_LINES);
    for (int rule = 0; rule < EXPERT_RULES; rule++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "rule", expert_rule_names[rule]);
        json_put_u64(writer, "slowest_milli", milli(plans, plan->rules[rule]));
        json_close(writer);
    }
    json_close(writer);
}

static void write_capacities(const struct expert_plans *plans, const struct layer_routing *layer,
                             struct json_writer *writer)
{
    json_begin_array(writer, "capacities", JSON_LINES);
    for (int c = 0; c < CAPACITIES; c++) {
        const uint64_t most = expert_capacity(layer->pairs, layer->experts, capacities_milli[c] / 1000.0);
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "factor_milli", capacities_milli[c]);
        json_put_u64(writer, "dropped_ppm", routing_dropped_ppm(plans->pricing.profile->routing, layer, most));
        json_close(writer);
    }
    json_close(writer);
}

static void write_layer(const struct expert_plans *plans, size_t l, struct json_writer *writer)
{
    const struct layer_routing *layer = layer_of(plans, l);
    const struct expert_plan *plan = &plans->layers[l];
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "layer", layer->layer);
    json_begin_array(writer, "members", JSON_INLINE);
    for (uint32_t e = 0; e < layer->experts; e++)
        if (plan->member[e] == ROUTING_COPIED)
            json_put_string(writer, NULL, "*");
        else
            json_put_u64(writer, NULL, plan->member[e]);
    json_close(writer);
    json_put_u64(writer, "pairs", layer->pairs);
    json_put_u64(writer, "slowest_milli", milli(plans, plan->cost));
    json_put_u64(writer, "without_copies_milli", milli(plans, plan->alone));
    json_put_u64(writer, "copy_milli", milli(plans, copy_price(&plans->pricing, layer)));
    json_put_u64(writer, "bound_milli", milli(plans, plan->bound));
    json_begin_object(writer, "busiest", JSON_INLINE);
    json_put_u64(writer, "expert", plan->binding);
    json_put_u64(writer, "pairs_milli", milli(plans, plan->binding_pairs));
    json_close(writer);
    write_rules(plans, plan, writer);
    write_capacities(plans, layer, writer);
    json_close(writer);
}

void expert_plans_write(const struct expert_plans *plans, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.experts");
    json_put_string(&writer, "model", plans->pricing.profile->model);
    json_put_u64(&writer, "members", plans->pricing.members);
    json_put_u64(&writer, "batches", plans->pricing.profile->routing->batches);
    json_begin_array(&writer, "layers", JSON_LINES);
    for (size_t l = 0; l < plans->pricing.profile->routing->layer_count; l++)
        write_layer(plans, l, &writer);
    json_close(&writer);
    json_close(&writer);
}
