#include "partitioner/plan/plan.h"

#include "tests/document.h"

static struct plan *read_text(const char *text)
{
    struct error error = { 0 };
    struct plan *plan = plan_read(text, strlen(text), "plan.json", &error);
    assert_good(plan, error);
    return plan;
}

static void the_example_of_the_page_is_read_and_written_byte_for_byte(void **state)
{
    (void)state;
    char *text = test_document("docs/formats/plan.md");
    struct plan *plan = read_text(text);
    assert_int_equal(plan->stage_count, 2);
    assert_string_equal(plan->stages[0].layers[0], "embedding");
    assert_int_equal(plan->stages[0].recompute_count, 1);
    assert_int_equal(plan->stages[0].recompute[0].first, 1);
    assert_int_equal(plan->stages[0].recompute[0].end, 2);
    assert_true(plan->certificate.proved);
    struct text again = { 0 };
    plan_write(plan, &again);
    assert_string_equal(again.data, text);
    text_clear(&again);
    plan_free(plan);
    free(text);
}

// One change to the example, and the sentence it leads to.
static struct bad_row {
    const char *name, *from, *to, *sentence;
} bad_rows[] = {
    { "a device that is not in the cluster", "\"devices\": [[1]]", "\"devices\": [[7]]",
      "plan.json: stages[1].devices[0][0]: device 7 is not in the cluster (0 to 1)" },
    { "two ranks on one device", "\"devices\": [[1]]", "\"devices\": [[0]]",
      "plan.json: stages: are on 1 devices, but there are 2 ranks" },
    { "a gap between stages", "\"first\": 2", "\"first\": 3",
      "plan.json: stages[1].first: is 3, but the stage before ends at layer 2" },
    { "stages out of order", "\"stage\": 1", "\"stage\": 0",
      "plan.json: stages[1].stage: is 0, but stages stand in order, and this is number 1" },
    { "fewer names than layers", "[\"embedding\", \"block0.mlp\"]", "[\"embedding\"]",
      "plan.json: stages[0].layers: holds 1 names, but the stage is layers 0 to 2" },
    { "a segment of a layer from elsewhere", "\n        [\"block0.mlp\"]", "\n        [\"head\"]",
      "plan.json: stages[0].recompute[0][0]: layer \"head\" does not follow what is named before it in this stage" },
    { "an empty segment", "\n        [\"block0.mlp\"]", "\n        []", "plan.json: stages[0].recompute[0]: is empty" },
    { "an unknown schedule", "\"name\": \"1f1b\"", "\"name\": \"2f2b\"", NULL },
    { "weights of another schedule", "\"weights\": \"flush\"", "\"weights\": \"stash\"",
      "plan.json: schedule.weights: is \"stash\", but 1f1b is a schedule of \"flush\"" },
    { "a rank without a stage", "\"ranks\": 2", "\"ranks\": 3",
      "plan.json: stages: are on 2 devices, but there are 3 ranks" },
    { "an unknown optimizer", "\"optimizer\": \"adamw\"", "\"optimizer\": \"lion\"",
      "plan.json: optimizer: is \"lion\", not one of sgd, momentum, adamw, adam, lamb, lars, adafactor, adam8bit,"
      " adam1bit, adagrad, adagrad-rows, adam-rows, sgd-master, momentum-master, adamw-master" },
    { "a storage that says nothing", "\"optimizer\": \"adamw\",",
      "\"optimizer\": \"adamw\", \"storage\": {\"shard\": \"none\", \"optimizer_on_host\": false,"
      " \"activations_on_host\": false, \"window\": 0, \"step_bytes_per_second\": 0, \"tied_apart\": false},",
      "plan.json: storage: says nothing but what goes without saying; leave it out" },
    { "a variant without a name", "\"variant\": null", "\"variant\": 1",
      "plan.json: stages[0].variant: is a number, not a string" },
    { "a negative size", "\"weights_bytes\": 196608", "\"weights_bytes\": -1", NULL },
    { "a missing certificate", "\"certificate\"", "\"certificat\"", "plan.json: certificate: is missing" },
    { "a peak that is not its parts' sum", "\"peak_bytes\": 1064960", "\"peak_bytes\": 1064704",
      "plan.json: stages[0].memory: peak_bytes is 1064704, but its parts add up to 1064960" },
    { "a part too small", "\"kept_bytes\": 32768", "\"kept_bytes\": 1",
      "plan.json: stages[0].memory: peak_bytes is 1064960, but its parts add up to 1032193" },
    { "fixed bytes that are not its weights'", "\"fixed_bytes\": 786432", "\"fixed_bytes\": 0",
      "plan.json: stages[0].costs: fixed_bytes is 0, but weights, gradients and optimizer take 786432" },
    { "another device's memory", "\"memory_bytes\": 1100000", "\"memory_bytes\": 1000000",
      "plan.json: stages[0].memory: capacity_bytes is 1100000, but device 0 has 1000000" },
    { "a bound above the value", "\"lower_bound_ns\": 80942768", "\"lower_bound_ns\": 80942769",
      "plan.json: certificate.lower_bound_ns: is 80942769, above the value, 80942768" },
    { "a proof with a gap", "\"lower_bound_ns\": 80942768", "\"lower_bound_ns\": 80942760",
      "plan.json: certificate.proved: is true, but 8 ns lie between bound and value" },
    { "a proof of a search that ended early", "\"stopped\": \"\"", "\"stopped\": \"interrupted\"",
      "plan.json: certificate.proved: is true, but the search ended early: interrupted" },
    { "a gap that is not there", "\"gap\": 0.000000", "\"gap\": 0.100000",
      "plan.json: certificate.gap: is 0.100000, but value and bound are 0.000000 of the value apart" },
    { "a bottleneck that is no stage", "\"bottleneck_stage\": 1", "\"bottleneck_stage\": 2", NULL },
    { "a newer version", "\"version\": 1,\n  \"profile\"", "\"version\": 11,\n  \"profile\"",
      "plan.json: version: is 11; this Weir reads version 1" },
    { "bytes of a parameter by another optimizer", "\"optimizer\": \"adamw\"",
      "\"optimizer\": \"adamw\",\n  \"bytes_per_parameter\": 16",
      "plan.json: bytes_per_parameter: is for adamw-master, and the optimizer is adamw" },
};

static void is_refused(void **state)
{
    const struct bad_row *row = *state;
    char *text = test_document_with("docs/formats/plan.md", row->from, row->to);
    struct error error = { 0 };
    assert_null(plan_read(text, strlen(text), "plan.json", &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    if (row->sentence)
        assert_error(error, row->sentence);
    assert_memory_equal(error.text, "plan.json: ", 11);
    free(text);
}

// The page's plan with the page's order, of which `from` is `to`.
static char *with_an_order(const char *from, const char *to)
{
    struct error error = { 0 };
    struct text text = { 0 };
    char *plan = test_document("docs/formats/plan.md");
    char *order = test_block("docs/formats/plan.md", "text");
    char *line = strstr(plan, "  \"schedule\""), *changed = strstr(order, from);
    assert_true(line && changed);
    text_add_bytes(&text, plan, (size_t)(line - plan));
    text_add_bytes(&text, order, (size_t)(changed - order));
    text_add(&text, "%s%s%s", to, changed + strlen(from), strchr(line, '\n') + 1);
    free(plan);
    free(order);
    char *taken = text_take(&text, &error);
    assert_good(taken, error);
    return taken;
}

static void an_order_of_its_own_is_read_and_written_byte_for_byte(void **state)
{
    (void)state;
    char *text = with_an_order("mine", "mine"), name[HASH_SIZE], other[HASH_SIZE];
    struct error error = { 0 };
    struct plan *plan = read_text(text);
    struct text again = { 0 };
    plan_write(plan, &again);
    assert_string_equal(again.data, text);
    text_clear(&again);
    struct schedule *order = plan_schedule(plan, 4, false, &error);
    assert_good(order, error);
    assert_int_equal(order->lists[1].count, 11);
    assert_int_equal(order->costs[1].forward_ns, plan->stages[1].costs.forward_ns);
    schedule_free(order);
    assert_null(plan_schedule(plan, 3, false, &error));
    struct action *list = plan->given->lists[0].at;
    const struct action first = list[0];
    assert_good(plan_hash(plan, name, &(struct error){ 0 }), error);
    list[0] = list[1];
    list[1] = first;
    assert_good(plan_hash(plan, other, &(struct error){ 0 }), error);
    assert_string_not_equal(name, other);
    plan_free(plan);
    free(text);
}

static struct bad_row bad_orders[] = {
    { "an order without STEPs", " 0STEP", "", NULL },
    { "an order without any STEP", "0B3 0B2 0STEP\",\n      \"1F1 1F0 1I1 1I0 1W0 1W1 1F2 1F3 1B3 1B2 1STEP\"",
      "0B3 0B2\",\n      \"1F1 1F0 1I1 1I0 1W0 1W1 1F2 1F3 1B3 1B2\"", "plan.json: schedule.actions: has no STEP" },
    { "an order that cannot run", "0F0 0F1 0F2 0B1", "0B1 0F0 0F1 0F2",
      "plan.json: schedule.actions: rank 0, position 0, 0B1: it comes before 0F1" },
    { "an order with messages", "0F0 0F1", "0F0 0SEND_F0 0F1", "plan.json: schedule.actions: has messages among its"
      " actions" },
    { "an order with moves", "0F0 0F1", "0F0 0EVICT0 0PREFETCH0 0F1",
      "plan.json: schedule.actions: has EVICTs or PREFETCHes among its actions: what goes to the host follows from how"
      " the plan holds its states" },
    { "a generator's name", "\"mine\"", "\"zb-v\"",
      "plan.json: schedule.actions: is named \"zb-v\", as a generator's orders are" },
    { "an order without a flush", "\"flush\"", "\"2bw\"", NULL },
    { "chunks that are not the order's", "\"chunks\": 1", "\"chunks\": 2",
      "plan.json: schedule.chunks: is 2, but 2 stages on 2 ranks are 1 each" },
    { "an order with costs", "\"chunks\": 1", "\"chunks\": 1,\n    \"notes\": \"\"", NULL },
    { "routes of other stages", "[0, 1]", "[0]", NULL },
    { "a word that is no action", "0F0 0F1", "0F0 0G1", NULL },
    { "a name without an order", "\"actions\"", "\"action\"", NULL },
};

static void its_order_is_refused(void **state)
{
    const struct bad_row *row = *state;
    char *text = with_an_order(row->from, row->to);
    struct error error = { 0 };
    assert_null(plan_read(text, strlen(text), "plan.json", &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    if (row->sentence)
        assert_error(error, row->sentence);
    assert_memory_equal(error.text, "plan.json: schedule", 19);
    free(text);
}

static void a_plan_has_its_schedule_with_its_costs(void **state)
{
    (void)state;
    char *text = test_document("docs/formats/plan.md");
    struct plan *plan = read_text(text);
    struct error error = { 0 };
    struct schedule *order = plan_schedule(plan, 3, false, &error), *lowered = plan_schedule(plan, 3, true, &error);
    assert_good(order && lowered, error);
    assert_false(order->lowered);
    assert_true(lowered->lowered);
    assert_int_equal(order->micro_batches, 3);
    assert_int_equal(order->lists[0].count, 7);  // F0 F1 B0 F2 B1 B2 STEP
    assert_int_equal(lowered->costs[1].forward_ns, plan->stages[1].costs.forward_ns);
    schedule_free(order);
    schedule_free(lowered);
    plan_free(plan);
    free(text);
}

int main(void)
{
    enum { ROWS = sizeof bad_rows / sizeof bad_rows[0], ORDERS = sizeof bad_orders / sizeof bad_orders[0] };
    struct CMUnitTest tests[3 + ROWS + ORDERS] = {
        cmocka_unit_test(the_example_of_the_page_is_read_and_written_byte_for_byte),
        cmocka_unit_test(a_plan_has_its_schedule_with_its_costs),
        cmocka_unit_test(an_order_of_its_own_is_read_and_written_byte_for_byte),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[3 + i] = (struct CMUnitTest)TEST_ROW(is_refused, &bad_rows[i]);
    for (size_t i = 0; i < ORDERS; i++)
        tests[3 + ROWS + i] = (struct CMUnitTest)TEST_ROW(its_order_is_refused, &bad_orders[i]);
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
