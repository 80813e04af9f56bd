// What bindings see of profiles and plans: documents as texts, and what is asked of a plan.
#include "tests/api/written_profile.h"

#include <stdio.h>
#include <unistd.h>

// --- documents ------------------------------------------------------------------------

static void documents_come_back_as_they_were(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8), *again;
    char *document = weir_profile_document(profile, &error), *other;
    assert_good(document, error);
    assert_good(again = weir_profile_read(document, strlen(document), NULL, &error), error);
    assert_good(other = weir_profile_document(again, &error), error);
    assert_string_equal(document, other);
    weir_text_free(document), weir_text_free(other);

    struct weir_plan *plan = made_plan(profile, "zb-v"), *back;
    assert_good(document = weir_plan_document(plan, &error), error);
    assert_good(back = weir_plan_read(document, strlen(document), "plan.json", &error), error);
    assert_good(other = weir_plan_document(back, &error), error);
    assert_string_equal(document, other);
    weir_text_free(document), weir_text_free(other);
    weir_plan_free(plan), weir_plan_free(back);
    weir_profile_free(profile), weir_profile_free(again);
    weir_text_free(NULL), weir_plan_free(NULL), weir_profile_free(NULL);
}

static void wrong_documents_are_refused_by_name(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    assert_null(weir_profile_read("{}", 2, "mine.json", &error));
    assert_error(error, "mine.json: format: is missing");
    assert_int_equal(error.code, 2);
    error = (struct weir_error){ 0 };
    assert_null(weir_plan_read("{}", 2, NULL, &error));
    assert_error(error, "the text: format: is missing");
    error = (struct weir_error){ 0 };
    assert_null(weir_plan_read("", 0, NULL, &error));
    assert_int_equal(error.code, 2);
    assert_null(weir_plan_read("{}", 2, NULL, NULL));  // nobody asks why
}

static void quantities_have_units(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    uint64_t value = 0;
    assert_true(weir_parse_bytes("1.5KiB", &value, &error) && value == 1536);
    assert_true(weir_parse_time("2.5ms", &value, &error) && value == 2500000);
    assert_false(weir_parse_bytes("12 apples", &value, &error));
    assert_int_equal(error.code, 2);
    error = (struct weir_error){ 0 };
    assert_false(weir_parse_time("", &value, &error));
    assert_int_equal(error.code, 2);
}

static void a_profile_is_shown_and_judged(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(3);
    char *table = weir_profile_text(profile, &error), *found = weir_profile_lint(profile, &error);
    assert_good(table && found, error);
    assert_non_null(strstr(table, "layer2"));
    assert_null(strstr(found, "untrusted"));
    weir_text_free(table), weir_text_free(found);
    weir_profile_free(profile);
}

// --- partition ------------------------------------------------------------------------

struct refusal_row {
    const char *name;
    const struct weir_partition_options *planning;
    int code;
    const char *sentence;
};

static struct refusal_row refusal_rows[] = {
    { "a_cluster_is_needed", WEIR_OPTIONS(partition, .schedule = "1f1b", .micro_batches = 4), 2,
      "weir_partition_options.cluster is needed: a line (\"2 devices, 1GiB, 10GB/s 1us\"), a file or a document's text"
    },
    { "a_clusters_document_is_read_strictly",
      WEIR_OPTIONS(partition, .cluster = " {}", .schedule = "1f1b", .micro_batches = 4), 2,
      "cluster: format: is missing" },
    { "shards_have_names",
      WEIR_OPTIONS(partition, .cluster = "2 devices, 1MiB, 10GB/s 1us", .schedule = "1f1b", .micro_batches = 4,
                   .shard = "all"), 2, "shard: \"all\" is none of none, optimizer, gradients, weights" },
    { "memory_takes_the_clusters_place",
      WEIR_OPTIONS(partition, .cluster = "2 devices, 16MiB, 10GB/s 1us", .schedule = "1f1b", .micro_batches = 4,
                   .memory_bytes = 100000), 1, NULL },
};

static void a_planning_is_refused(void **state)
{
    const struct refusal_row *row = *state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(4);
    assert_null(weir_partition(profile, row->planning, &error));
    assert_int_equal(error.code, row->code);
    if (row->sentence)
        assert_error(error, row->sentence);
    weir_profile_free(profile);
}

static void replicas_may_be_chosen(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(2);
    const struct weir_partition_options planning = { .size = sizeof planning,
                                                     .cluster = "4 devices, 16MiB, 10GB/s 10us", .schedule = "1f1b",
                                                     .micro_batches = 8, .choose_replicas = true, .optimizer = "adam",
                                                     .shard = "optimizer" };
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    assert_good(plan, error);
    assert_true(weir_plan_stage_count(plan) < 4);
    weir_plan_free(plan);
    weir_profile_free(profile);
}

static void replicas_devices_and_pins_may_be_given(void **state)
{
    (void)state;
    static const uint32_t replicas[] = { 2, 1 }, none[] = { 2, 0 }, devices[] = { 3, 0, 1 }, twice[] = { 1, 1, 2 };
    static const struct weir_pin pins[] = { { "layer1", 0 }, { "layer2", 1 } }, unknown[] = { { "head", 0 } };
    struct weir_partition_options planning = { .size = sizeof planning, .cluster = "4 devices, 16MiB, 10GB/s 10us",
                                               .schedule = "1f1b", .micro_batches = 8 };
    planning.replicas = (struct weir_numbers){ replicas, 2 };
    planning.devices = (struct weir_numbers){ devices, 3 };
    planning.pins = pins;
    planning.pin_count = 2;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8);
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    assert_good(plan, error);
    assert_int_equal(weir_plan_stage_count(plan), 2);
    assert_int_equal(weir_plan_stage(plan, 0).end, 2);
    char *document = weir_plan_document(plan, &error);
    assert_non_null(strstr(document, "\"devices\": [[3], [0]]"));
    assert_non_null(strstr(document, "\"devices\": [[1]]"));
    weir_text_free(document);
    weir_plan_free(plan);
    for (unsigned i = 0; i < 5; i++) {
        static const char *const sentences[] = {
            "replicas: stage 1 needs at least one", "devices: device 1 is there twice",
            "devices: names 2 devices, but 3 are needed", "pins: the profile has no layer named \"head\"",
            "replicas: are given, and so there is nothing to choose",
        };
        struct weir_partition_options wrong = planning;
        wrong.replicas.at = i == 0 ? none : replicas;
        wrong.devices = (struct weir_numbers){ i == 1 ? twice : devices, i == 2 ? 2 : 3 };
        wrong.pins = i == 3 ? unknown : pins;
        wrong.pin_count = i == 3 ? 1 : 2;
        wrong.choose_replicas = i == 4;
        error = (struct weir_error){ 0 };
        assert_null(weir_partition(profile, &wrong, &error));
        assert_error(error, sentences[i]);
        assert_int_equal(error.code, 2);
    }
    weir_profile_free(profile);
}

// The best order for what the stages of a plan cost, planned anew; and the same by name and as it is.
static void an_order_may_be_given(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8);
    struct weir_plan *named = made_plan(profile, "zb-h1");
    struct weir_schedule *own = weir_plan_schedule(named, &error);
    char *costs = weir_schedule_document(own, &error);
    const struct weir_search_options searching = { .size = sizeof searching, .ranks = 2, .micro_batches = 4,
                                                   .objective = "makespan",
                                                   .price = WEIR_OPTIONS(price, .costs = costs) };
    struct weir_schedule *found = weir_search(&searching, NULL, &error);
    assert_good(found, error);
    struct weir_partition_options planning = { .size = sizeof planning, .cluster = small_cluster, .order = found };
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    assert_good(plan && weir_plan_check(plan, profile, &error), error);
    planning.order = own;
    struct weir_plan *same = weir_partition(profile, &planning, &error);
    assert_good(same, error);
    for (size_t s = 0; s < 2; s++)
        assert_int_equal(weir_plan_stage(same, s).peak_bytes, weir_plan_stage(named, s).peak_bytes);
    struct weir_schedule *back = weir_plan_schedule(plan, &error);
    char *csv = weir_schedule_csv(back, NULL, &error), *wanted = weir_schedule_csv(found, NULL, &error);
    assert_string_equal(csv, wanted);
    weir_text_free(csv), weir_text_free(wanted), weir_text_free(costs);
    weir_schedule_free(back), weir_schedule_free(found), weir_schedule_free(own);
    weir_plan_free(same), weir_plan_free(plan), weir_plan_free(named);
    weir_profile_free(profile);
}

static void an_order_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8);
    const char *text = "0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n";
    struct weir_schedule *lacks = weir_schedule_read(text, strlen(text), "lacks.csv", &error);
    assert_good(lacks, error);
    const struct {
        const struct weir_partition_options *planning;
        const char *sentence;
    } rows[] = {
        { WEIR_OPTIONS(partition, .cluster = small_cluster, .order = lacks), "order: rank 0, 0B1: it is missing" },
        { WEIR_OPTIONS(partition, .cluster = small_cluster, .order = lacks, .schedule = "1f1b"),
          "weir_partition_options.schedule and weir_partition_options.order: one of them" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error = (struct weir_error){ 0 };
        assert_null(weir_partition(profile, rows[i].planning, &error));
        assert_error(error, rows[i].sentence);
        assert_int_equal(error.code, 2);
    }
    weir_schedule_free(lacks);
    weir_profile_free(profile);
}

// The last layer reads the first one's weights.
static struct weir_profile *tied_profile(unsigned layers)
{
    struct weir_error error = { 0 };
    char *written = written_profile(layers);
    struct text text = { 0 };
    text_add(&text, "%.*s, \"tied\": [[0, %u]], \"one_owner\": [[0, %u]]}", (int)strlen(written) - 1, written,
             layers - 1, layers - 1);
    struct weir_profile *profile = weir_profile_read(text.data, text.length, "tied.json", &error);
    assert_good(profile, error);
    text_clear(&text);
    free(written);
    return profile;
}

static void tied_layers_are_apart_where_that_is_possible(void **state)
{
    (void)state;
    struct weir_profile *tied = tied_profile(8), *plain = made_profile(8);
    struct {
        const struct weir_profile *profile;
        const char *schedule, *sentence;
        const char *tied, *optimizer;
    } const rows[] = {
        { tied, "1f1b", NULL, NULL, NULL },
        { tied, "1f1b", NULL, "apart", NULL },
        { tied, "1f1b", "the model can be cut into 1 stage at most, too few for 2 ranks", "together", NULL },
        { tied, "1f1b", "the model can be cut into 1 stage at most, too few for 2 ranks", NULL, "adam1bit" },
        { tied, "pipedream", "the model can be cut into 1 stage at most", NULL, NULL },
        { tied, "pipedream", "tied layers apart: their gradients are added up at a flush", "apart", NULL },
        { tied, "zigzag", "there is no schedule named \"zigzag\"", NULL, NULL },
        { plain, "1f1b", NULL, NULL, NULL },
        { plain, "1f1b", "tied: \"somewhere\" is none of together, apart", "somewhere", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        const struct weir_partition_options planning = { .size = sizeof planning, .cluster = small_cluster,
                                                         .schedule = rows[i].schedule, .micro_batches = 4,
                                                         .tied = rows[i].tied, .optimizer = rows[i].optimizer };
        struct weir_plan *plan = weir_partition(rows[i].profile, &planning, &error);
        assert_true(rows[i].sentence ? !plan && strstr(error.text, rows[i].sentence) : plan != NULL);
        if (!plan)
            continue;
        char *document = weir_plan_document(plan, &error);
        assert_true((strstr(document, "\"tied_apart\": true") != NULL) == (rows[i].profile == tied));
        weir_text_free(document);
        weir_plan_free(plan);
    }
    weir_profile_free(tied), weir_profile_free(plain);
}

// --- what is told, and stopped -----------------------------------------------------------

struct told {
    volatile sig_atomic_t stop;
    const char *stops_at;  // words
    unsigned count;
    char last[200];
};

static void listen(void *self, const char *words)
{
    struct told *told = self;
    told->count++;
    snprintf(told->last, sizeof told->last, "%s", words);
    if (told->stops_at && strstr(words, told->stops_at))
        told->stop = 1;
}

// A search of minutes, that its first plan ends.
static void a_search_that_is_stopped_has_the_best_so_far(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct told told = { .stops_at = "best so far" };
    const struct weir_watch watch = { listen, &told, &told.stop };
    struct weir_profile *profile = made_profile(64);
    const struct weir_partition_options planning = { .size = sizeof planning, .cluster = "8 devices, 4MiB, 10GB/s 10us",
                                                     .schedule = "interleaved", .micro_batches = 32, .optimizer = "sgd",
                                                     .budget = 3000000000, .watch = &watch };
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    assert_good(plan, error);
    assert_true(told.count > 0 && told.stop);
    char *document = weir_plan_document(plan, &error);
    assert_non_null(strstr(document, "\"stopped\": \"interrupted\""));
    weir_text_free(document);
    weir_plan_free(plan);
    weir_profile_free(profile);
}

static void a_search_without_a_plan_yet_says_so(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct told told = { .stops_at = "units of work" };
    const struct weir_watch watch = { listen, &told, &told.stop };
    struct weir_profile *profile = made_profile(64);
    const struct weir_partition_options planning = { .size = sizeof planning,
                                                     .cluster = "8 devices, 2200KiB, 10GB/s 10us",
                                                     .schedule = "interleaved", .micro_batches = 32, .optimizer = "sgd",
                                                     .budget = 3000000000, .watch = &watch };
    assert_null(weir_partition(profile, &planning, &error));
    assert_true(error.code == 1 || error.code == 3);
    assert_non_null(strstr(error.text, "interrupted"));
    weir_profile_free(profile);
}

static void without_words_a_flag_is_enough(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    volatile sig_atomic_t stop = 1;
    const struct weir_watch watch = { .stop = &stop };
    struct weir_profile *profile = made_profile(8);
    const struct weir_sweep_options sweeping = { .size = sizeof sweeping, .cluster = small_cluster, .watch = &watch };
    struct weir_answer answer;
    struct weir_plan *best;
    assert_good(weir_sweep(profile, &sweeping, &answer, &best, &error), error);
    assert_non_null(strstr(answer.document, "\"stopped\": \"interrupted\""));
    assert_null(best);
    weir_answer_clear(&answer);
    weir_profile_free(profile);
}

// --- what is asked of a plan -----------------------------------------------------------------

static void a_plan_is_held_against_its_profile(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8), *other = made_profile(9);
    struct weir_plan *plan = made_plan(profile, "1f1b");
    assert_good(weir_plan_check(plan, profile, &error), error);
    assert_false(weir_plan_check(plan, other, &error));
    assert_int_equal(error.code, 1);
    weir_plan_free(plan);
    weir_profile_free(profile), weir_profile_free(other);
}

static void a_plan_is_explained(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8), *other = made_profile(9);
    struct weir_plan *plan = made_plan(profile, "1f1b");
    struct told told = { .count = 0 };
    const struct weir_watch watch = { listen, &told, NULL };
    const struct weir_explain_options explaining = { .size = sizeof explaining, .budget = 2000, .watch = &watch };
    struct weir_answer answer, usual;
    assert_good(weir_explain(plan, profile, &explaining, &answer, &error), error);
    assert_non_null(strstr(answer.document, "\"format\": \"weir.explanation\""));
    assert_non_null(strstr(answer.text, "What a change would gain"));
    assert_non_null(strstr(told.last, "changes planned anew"));
    weir_answer_clear(&answer);
    assert_null(answer.text);
    assert_good(weir_explain(plan, profile, NULL, &usual, &error), error);
    weir_answer_clear(&usual);
    assert_false(weir_explain(plan, other, NULL, &usual, &error));
    assert_int_equal(error.code, 1);
    assert_null(usual.document);
    weir_plan_free(plan);
    weir_profile_free(profile), weir_profile_free(other);
}

static void a_plan_is_exported(void **state)
{
    (void)state;
    static const uint32_t halves[] = { 0, 4, 4, 0 };
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8);
    struct weir_plan *plan = made_plan(profile, "1f1b");
    struct weir_answer plain, priced, by_hand;
    assert_good(weir_plan_export(plan, "torchtitan", NULL, &plain, &error), error);
    assert_non_null(strstr(plain.document, "\"layers.0\", \"layers.1\""));
    assert_non_null(strstr(plain.text, "Memory is planned for adamw; the optimizer is not set here.\n"));
    assert_null(strstr(plain.document, "microbatch_size = 4"));
    struct weir_export_options exporting = { .size = sizeof exporting, .profile = profile };
    assert_good(weir_plan_export(plan, "torchtitan", &exporting, &priced, &error), error);
    assert_non_null(strstr(priced.document, "microbatch_size = 4"));
    exporting.units = (struct weir_numbers){ halves, 4 };
    assert_good(weir_plan_export(plan, "torchtitan", &exporting, &by_hand, &error), error);
    assert_null(strstr(by_hand.document, "layers.2"));
    assert_null(strstr(by_hand.document, "def planned()"));
    weir_answer_clear(&by_hand);
    exporting.base = "mine.small_llama";
    assert_good(weir_plan_export(plan, "torchtitan", &exporting, &by_hand, &error), error);
    assert_non_null(strstr(by_hand.document, "from mine import small_llama\n"));
    assert_non_null(strstr(by_hand.document, "def planned():\n    return plan_pipeline(small_llama())\n"));
    weir_answer_clear(&plain), weir_answer_clear(&priced), weir_answer_clear(&by_hand);
    weir_plan_free(plan);
    weir_profile_free(profile);
}

static struct export_row {
    const char *name, *schedule, *format;
    unsigned layers;  // of the profile that comes with it; the plan is of 8
    struct weir_numbers units;
    int code;
    const char *sentence;  // or how it begins
} export_rows[] = {
    { "a_format_that_is_none_is_not_exported", "1f1b", "torchtitn", 0, { 0 }, 2,
      "there is no format \"torchtitn\" to export: did you mean torchtitan? (weir export --help lists them)" },
    { "an_export_needs_a_format", "1f1b", NULL, 0, { 0 }, 2, "format is needed, and is NULL" },
    { "an_export_is_of_its_plans_profile", "1f1b", "megatron", 9, { 0 }, 2, "the plan was made of the profile " },
    { "an_export_has_units_of_its_layers", "1f1b", "megatron", 8, { (const uint32_t[]){ 1, 1, 1 }, 3 }, 2,
      "--units: names 3 layers, but the plan has 8" },
    { "what_a_framework_cannot_run_is_not_exported", "zb-h1", "torchgpipe", 8, { 0 }, 1,
      "torchgpipe has no schedule zb-h1 (of Weir's it has gpipe): plan for one of these" },
};

static void an_export_is_refused(void **state)
{
    const struct export_row *row = *state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8), *other = row->layers ? made_profile(row->layers) : NULL;
    struct weir_plan *plan = made_plan(profile, row->schedule);
    struct weir_answer answer;
    const struct weir_export_options exporting = { .size = sizeof exporting, .profile = other, .units = row->units };
    assert_false(weir_plan_export(plan, row->format, &exporting, &answer, &error));
    assert_int_equal(error.code, row->code);
    assert_int_equal(strncmp(error.text, row->sentence, strlen(row->sentence)), 0);
    assert_true(!answer.document && !answer.text);
    weir_plan_free(plan);
    weir_profile_free(profile), weir_profile_free(other);
}

static void glpk_has_an_opinion_or_is_missing(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(4);
    struct weir_plan *plan = made_plan(profile, "1f1b");
    char *said = weir_second_opinion(plan, profile, NULL, &error);
    const char *folder = getenv("WEIR_LIBEXEC");
    char path[4096];
    snprintf(path, sizeof path, "%s/weir-glpk", folder ? folder : "");
    if (access(path, X_OK) == 0)
        assert_non_null(strstr(said, "as we say"));
    else
        assert_true(said || error.code == 3);
    weir_text_free(said);
    weir_plan_free(plan);
    weir_profile_free(profile);
}

static void a_sweep_has_its_best_plan(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8);
    const char *const schedules[] = { "1f1b", "zb-h1" };
    const uint32_t micro_batches[] = { 2, 8 };
    struct told told = { .count = 0 };
    const struct weir_watch watch = { listen, &told, NULL };
    struct weir_sweep_options sweeping = { .size = sizeof sweeping, .cluster = small_cluster, .schedules = schedules,
                                           .schedule_count = 2, .micro_batches = { micro_batches, 2 }, .threads = 1,
                                           .watch = &watch };
    struct weir_answer answer;
    struct weir_plan *best;
    assert_good(weir_sweep(profile, &sweeping, &answer, &best, &error), error);
    assert_good(best && weir_plan_check(best, profile, &error), error);
    char *document = weir_plan_document(best, &error);
    assert_non_null(strstr(document, "\"name\": \"zb-h1\""));
    assert_non_null(strstr(answer.text, "zb-h1"));
    assert_non_null(strstr(told.last, "of 4 plans"));
    weir_text_free(document);
    weir_plan_free(best);
    weir_answer_clear(&answer);
    assert_good(weir_sweep(profile, &sweeping, &answer, NULL, &error), error);
    weir_answer_clear(&answer);
    sweeping.optimizer = "lion";
    assert_false(weir_sweep(profile, NULL, &answer, &best, &error));
    assert_error(error, "weir_sweep_options.cluster is needed: a line (\"2 devices, 1GiB, 10GB/s 1us\"), a file or a"
                 " document's text");
    error = (struct weir_error){ 0 };
    assert_false(weir_sweep(profile, &sweeping, &answer, &best, &error));
    assert_int_equal(error.code, 2);
    assert_null(answer.document);
    weir_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_come_back_as_they_were),
        cmocka_unit_test(wrong_documents_are_refused_by_name),
        cmocka_unit_test(quantities_have_units),
        cmocka_unit_test(a_profile_is_shown_and_judged),
        TEST_ROW(a_planning_is_refused, &refusal_rows[0]),
        TEST_ROW(a_planning_is_refused, &refusal_rows[1]),
        TEST_ROW(a_planning_is_refused, &refusal_rows[2]),
        TEST_ROW(a_planning_is_refused, &refusal_rows[3]),
        cmocka_unit_test(replicas_may_be_chosen),
        cmocka_unit_test(replicas_devices_and_pins_may_be_given),
        cmocka_unit_test(an_order_may_be_given),
        cmocka_unit_test(an_order_that_cannot_be_is_refused),
        cmocka_unit_test(tied_layers_are_apart_where_that_is_possible),
        cmocka_unit_test(a_search_that_is_stopped_has_the_best_so_far),
        cmocka_unit_test(a_search_without_a_plan_yet_says_so),
        cmocka_unit_test(without_words_a_flag_is_enough),
        cmocka_unit_test(a_plan_is_held_against_its_profile),
        cmocka_unit_test(a_plan_is_explained),
        cmocka_unit_test(a_plan_is_exported),
        TEST_ROW(an_export_is_refused, &export_rows[0]),
        TEST_ROW(an_export_is_refused, &export_rows[1]),
        TEST_ROW(an_export_is_refused, &export_rows[2]),
        TEST_ROW(an_export_is_refused, &export_rows[3]),
        TEST_ROW(an_export_is_refused, &export_rows[4]),
        cmocka_unit_test(glpk_has_an_opinion_or_is_missing),
        cmocka_unit_test(a_sweep_has_its_best_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
