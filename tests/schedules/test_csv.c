#include "schedules/csv.h"

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/document.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/schedule_csv.h"

static struct schedule *read_text(const char *text)
{
    struct error error = { 0 };
    size_t passed_over;
    struct schedule *schedule = csv_read(text, strlen(text), "a/file.csv", &passed_over, &error);
    assert_good(schedule, error);
    return schedule;
}

static char *written(const struct schedule *schedule, const struct csv_style *style)
{
    struct error error = { 0 };
    struct text text = { 0 };
    struct csv_left_out left_out;
    assert_good(csv_write(schedule, style, &text, &left_out, &error), error);
    return text_take(&text, &error);
}

static void assert_list(const struct schedule *schedule, uint32_t rank, const char *want)
{
    struct text text = { 0 };
    const struct action *at = schedule->lists[rank].at, *end = list_end(&schedule->lists[rank]);
    for (size_t size; at < end; at += size) {
        size = group_size(at, end);
        text_add(&text, "%s", text.length ? " " : "");
        group_write(at, size, &text);
    }
    assert_string_equal(text.data, want);
    text_clear(&text);
}

// --- reading -------------------------------------------------------------------

static void the_page_shows_what_is_read_and_written(void **state)
{
    (void)state;
    char *example = test_block("docs/formats/csv.md", "csv");
    struct schedule *schedule = read_text(example);
    assert_string_equal(schedule->name, "file");
    assert_int_equal(schedule->ranks, 2);
    assert_int_equal(schedule->stages, 2);
    assert_int_equal(schedule->micro_batches, 2);
    assert_false(schedule->lowered);
    assert_list(schedule, 0, "0F0 0F1 0B0 0B1");
    assert_list(schedule, 1, "1F0 1B0 1F1 1B1");
    char *again = written(schedule, &(struct csv_style){ CSV_TORCH_2_6, true });
    assert_string_equal(again, example);
    free(again);
    free(example);
    schedule_free(schedule);
}

static void the_name_is_the_files_in_whole_characters(void **state)
{
    (void)state;
    static const struct {
        const char *path, *name;
    } rows[] = {
        { "runs/zb1p.csv", "zb1p" },
        { "no-ending", "no-ending" },
        { "x/\xc3\xa4.csv", "\xc3\xa4" },
        { "x/\xff.csv", "?" },
        { "123456789012345678901234567890123456789012345678901234567890123\xc3\xa4",
          "123456789012345678901234567890123456789012345678901234567890123" },
        { "12345678901234567890123456789012345678901234567890123456789012\xc3\xa4",
          "12345678901234567890123456789012345678901234567890123456789012" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        size_t passed_over;
        struct schedule *schedule = csv_read("0F0,0B0", 7, rows[i].path, &passed_over, &error);
        assert_good(schedule, error);
        assert_string_equal(schedule->name, rows[i].name);
        schedule_free(schedule);
    }
}

static void a_stage_is_where_it_stands(void **state)
{
    (void)state;
    struct schedule *schedule = read_text("0F0,3F0,3B0,0B0\r\n1F0,2F0,2B0,1B0");
    const uint32_t want[] = { 0, 1, 1, 0 };
    assert_int_equal(schedule->stages, 4);
    assert_memory_equal(schedule->routes, want, sizeof want);
    schedule_free(schedule);
}

static void blanks_and_either_line_end_are_nothing(void **state)
{
    (void)state;
    struct schedule *schedule = read_text(" 0F0,\t0F1 , ,0B0\r\n1F0,,1B0 \n");
    assert_list(schedule, 0, "0F0 0F1 0B0");
    assert_list(schedule, 1, "1F0 1B0");
    schedule_free(schedule);
}

static void groups_and_messages_are_read(void **state)
{
    (void)state;
    struct schedule *schedule = read_text("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,(0F2;0B0)OVERLAP_F_B\n"
                                          "1RECV_F0,1F0,1B0,1SEND_B0\n");
    assert_list(schedule, 0, "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 (0F2;0B0)OVERLAP_F_B");
    assert_list(schedule, 1, "1RECV_F0 1F0 1B0 1SEND_B0");
    assert_true(schedule->lowered);
    schedule_free(schedule);
}

static void sharding_and_waiting_are_passed_over_and_counted(void **state)
{
    (void)state;
    struct error error = { 0 };
    size_t passed_over;
    const char text[] = "0UNSHARD,0F0,0WAIT_SEND_F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n";
    struct schedule *schedule = csv_read(text, strlen(text), "f", &passed_over, &error);
    assert_good(schedule, error);
    assert_int_equal(passed_over, 4);
    assert_list(schedule, 0, "0F0 0B0 0REDUCE");
    schedule_free(schedule);
}

static struct refusal_row {
    const char *name, *text, *sentence;
} refusal_rows[] = {
    { "csv: letters behind a cell", "0F0,0F1\n1F0,1F1junk\n",
      "x.csv:2:5: \"1F1junk\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B" },
    { "csv: two cells in one", "0F0,0BW3",
      "x.csv:1:5: \"0BW3\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B" },
    { "csv: a kind at the front of another", "12FRECV_F3",
      "x.csv:1:1: \"12FRECV_F3\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B" },
    { "csv: a backward of nothing", "0F0,0B\r\n",
      "x.csv:1:5: \"0B\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B" },
    { "csv: an open group", "0F0,  (0F1;0B0)",
      "x.csv:1:7: \"(0F1;0B0)\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B" },
    { "csv: a message in a group", "0F0,(0F1;0SEND_F0)OVERLAP_F_B",
      "x.csv:1:5: \"(0F1;0SEND_F0)OVERLAP_F_B\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or "
      "(0F7;7B3)OVERLAP_F_B" },
    { "csv: a step", "0F0,0B0,0STEP",
      "x.csv:1:9: \"0STEP\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B" },
    { "csv: a split", "0F0,0F0.1",
      "x.csv:1:5: \"0F0.1\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B" },
    { "csv: quotes", "\"0F0\"",
      "x.csv:1:1: \"\"0F0\"\" is not a cell of PyTorch's, such as 2F0, 1SEND_B3 or (0F7;7B3)OVERLAP_F_B" },
    { "csv: a stage in two rows", "0F0,1F0\r\n1F1,0F1\r\n",
      "x.csv:2:1: \"1F1\" is on rank 1, but stage 1 is on rank 0, where it stands first: PyTorch's CSV has one copy of "
      "each stage" },
    { "csv: a stage that is nowhere", "0F0\n2F0\n", "x.csv: stage 1 stands nowhere, but stage 2 does" },
    { "csv: a number that would take memory", "0F0,0F4000000000\n",
      "x.csv:1:5: \"0F4000000000\" is of micro-batch 4000000000, in a file of 2 actions" },
    { "csv: an empty line", "0F0\n\n", "x.csv:2: has no action: rank 1 would do nothing" },
    { "csv: nothing", "", "x.csv: has no action of a micro-batch" },
    { "csv: nothing to reduce", "0F0,0F1,1REDUCE_GRAD\n",
      "x.csv:1:9: \"1REDUCE_GRAD\" is of a stage that does nothing else on rank 0" },
    { "csv: reduces what is elsewhere", "0F0,1REDUCE_GRAD\n1F0",
      "x.csv:1:5: \"1REDUCE_GRAD\" is of a stage that does nothing else on rank 0" },
    { "csv: only a reduction", "0REDUCE_GRAD", "x.csv:1: has no action: rank 0 would do nothing" },
};

static void what_is_not_pytorchs_is_refused_where_it_stands(void **state)
{
    const struct refusal_row *row = *state;
    struct error error = { 0 };
    size_t passed_over;
    assert_null(csv_read(row->text, strlen(row->text), "x.csv", &passed_over, &error));
    assert_error(error, row->sentence);
}

static void a_csv_is_known_by_its_first_letter(void **state)
{
    (void)state;
    assert_true(csv_is_likely("0F0", 3));
    assert_true(csv_is_likely("\n ,1F0", 6));
    assert_true(csv_is_likely("(0F0;1B0)OVERLAP_F_B", 20));
    assert_false(csv_is_likely("{\"format\"", 9));
    assert_false(csv_is_likely("", 0));
}

// --- writing -------------------------------------------------------------------

static struct schedule *generated(const char *name, uint32_t ranks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(name, ranks, 0, micro_batches, &error);
    assert_good(schedule, error);
    return schedule;
}

static void an_order_is_written_in_columns_and_a_lowered_one_as_it_is(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = generated("gpipe", 3, 2), *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    char *text = written(order, &(struct csv_style){ CSV_TORCH_2_6, true });
    assert_string_equal(text, "0F0,0F1,,,,,0B0,0B1\n"
                              ",1F0,1F1,,,1B0,1B1,\n"
                              ",,2F0,2F1,2B0,2B1,,\n");
    free(text);
    text = written(lowered, &(struct csv_style){ CSV_TORCH_2_9, false });
    assert_string_equal(text, "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
                              "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,"
                              "1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1\r\n"
                              "2RECV_F0,2F0,2RECV_F1,2F1,2B0,2SEND_B0,2B1,2SEND_B1\r\n");
    free(text);
    schedule_free(lowered);
    schedule_free(order);
}

static void what_has_no_cell_is_left_out_and_counted(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 };
    struct csv_left_out left_out;
    struct schedule *schedule = generated("1f1b", 2, 2);
    const struct action reduce = { .kind = ACTION_REDUCE, .micro_batch = NO_MICRO_BATCH };
    assert_good(schedule_add(schedule, 0, reduce, &error), error);
    schedule->lists[0].at[4] = (struct action){ .kind = ACTION_EVICT };  // was 0STEP
    assert_good(csv_write(schedule, &(struct csv_style){ CSV_TORCH_2_6, true }, &text, &left_out, &error), error);
    assert_string_equal(text.data, "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n");
    assert_int_equal(left_out.steps, 1);
    assert_int_equal(left_out.moves, 1);
    assert_int_equal(left_out.reductions, 1);
    assert_int_equal(left_out.validations, 0);
    text_clear(&text);
    schedule_free(schedule);
}

static void assert_unsayable(struct schedule *schedule, enum csv_dialect dialect, const char *sentence)
{
    struct error error = { 0 };
    struct text text = { 0 };
    struct csv_left_out left_out;
    assert_false(csv_write(schedule, &(struct csv_style){ dialect, true }, &text, &left_out, &error));
    assert_error(error, sentence);
    text_clear(&text);
    schedule_free(schedule);
}

static void what_cannot_be_said_is_refused(void **state)
{
    (void)state;
    assert_unsayable(generated("pipedream", 2, 2), CSV_TORCH_2_9,
                     "pipedream updates its weights between micro-batches (weights stash), which PyTorch's CSV cannot "
                     "say: Weir's JSON can");
    assert_unsayable(read_text("0F0,0F1,(0B0;0F2)OVERLAP_F_B,0B1,0B2"), CSV_TORCH_2_6,
                     "rank 0, position 2, (0B0;0F2)OVERLAP_F_B: groups came with torch 2.9: the dialect torch2.9 can "
                     "have them");
    assert_unsayable(read_text("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0"), CSV_TORCH_2_9,
                     "file cannot run, so that its actions have no columns (weir check says why)");
    struct schedule *schedule = generated("1f1b", 2, 2);
    schedule->splits = 2;
    assert_unsayable(schedule, CSV_TORCH_2_9,
                     "1f1b splits its sequences, which PyTorch's CSV cannot say: Weir's JSON can");
    schedule = generated("1f1b", 2, 1);
    schedule->lists[1].at[0].kind = ACTION_R;
    assert_unsayable(schedule, CSV_TORCH_2_9,
                     "rank 1, position 0, 1R0: PyTorch's CSV has no cell for recomputing apart from its backward");
    schedule = generated("1f1b", 2, 1);
    schedule->lists[1].at[0].stage = 0;
    assert_unsayable(schedule, CSV_TORCH_2_9,
                     "rank 1, position 0, 0F0: stage 0 is not on this rank, which PyTorch's CSV would say: Weir's JSON "
                     "can have such an action");
    schedule = generated("1f1b", 2, 1);
    schedule->lists[1].count = 0;
    assert_unsayable(schedule, CSV_TORCH_2_9, "rank 1 of 1f1b does nothing; PyTorch's CSV has actions for each rank");
    schedule = generated("1f1b", 2, 2);
    free(schedule->routes);
    schedule->routes = calloc(4, sizeof *schedule->routes);
    schedule->routes[1] = schedule->routes[2] = 1;
    schedule->route_count = 2;
    assert_unsayable(schedule, CSV_TORCH_2_9,
                     "1f1b has stage 0 on rank 0 and on rank 1; PyTorch's CSV has one copy of each stage: Weir's "
                     "JSON can have more");
}

// --- there and back --------------------------------------------------------------

static void is_written_and_read_the_same(const struct schedule *schedule, const struct csv_style *style)
{
    char *first = written(schedule, style);
    struct schedule *again = read_text(first);
    char *second = written(again, style);
    assert_string_equal(first, second);
    assert_int_equal(again->lowered, schedule->lowered && schedule->ranks > 1);
    free(second);
    free(first);
    schedule_free(again);
}

static bool is_sayable(const struct schedule *schedule)
{
    struct error ignored = { 0 };
    struct text text = { 0 };
    struct csv_left_out left_out;
    const bool good = csv_write(schedule, &(struct csv_style){ CSV_TORCH_2_9, false }, &text, &left_out, &ignored);
    text_clear(&text);
    return good;
}

static void what_is_written_reads_back_byte_for_byte(void **state)
{
    (void)state;
    size_t count = 0;
    for (const struct generator *generator = generators; generator->name; generator++) {
        for (uint32_t ranks = 1; ranks <= 6; ranks++) {
            for (uint32_t micro_batches = 1; micro_batches <= 12; micro_batches++) {
                struct error error = { 0 };
                struct schedule *order = schedule_generate(generator->name, ranks, 0, micro_batches, &error);
                struct schedule *lowered = order && is_sayable(order) ? schedule_lower(order, &error) : NULL;
                for (int lf = 0; lowered && lf < 2; lf++) {
                    is_written_and_read_the_same(order, &(struct csv_style){ CSV_TORCH_2_9, lf });
                    is_written_and_read_the_same(lowered, &(struct csv_style){ CSV_TORCH_2_9, lf });
                }
                count += lowered != NULL;
                schedule_free(lowered);
                schedule_free(order);
            }
        }
    }
    assert_true(count >= 100);
}

// What stands in column `column` of a row, or an empty cell.
static void cell_at(const char *text, uint32_t row, size_t column, char cell[64])
{
    for (; row > 0; row--)
        text = strchr(text, '\n') + 1;
    for (; column > 0; column--) {
        text += strcspn(text, ",\n");
        if (*text++ == '\n') {
            cell[0] = '\0';
            return;
        }
    }
    snprintf(cell, 64, "%.*s", (int)strcspn(text, ",\n"), text);
}

// Each action in the first column that is behind the one before it on its rank and
// behind what gives it its input, found by looking at every cell.
static size_t column_behind(const char *text, const struct schedule *schedule, size_t columns, const char *cell)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        for (size_t column = 0; column < columns; column++) {
            char other[64];
            struct action group[MOST_JOINED];
            struct error ignored = { 0 };
            cell_at(text, rank, column, other);
            const size_t size = group_parse(other, strlen(other), group, &ignored);
            for (size_t i = 0; i < size; i++) {
                if (strcmp(action_format(group[i], other), cell) == 0)
                    return column + 1;
            }
        }
    }
    return 0;
}

static size_t wanted_column(const char *text, const struct schedule *schedule, size_t columns, struct action action)
{
    char cell[ACTION_SIZE];
    struct action needed = action;
    if (action.kind == ACTION_W)
        return 0;
    if (action.kind == ACTION_F ? action.stage == 0 : action.stage + 1u == schedule->stages)
        return 0;
    needed.stage = (uint16_t)(action.kind == ACTION_F ? action.stage - 1 : action.stage + 1);
    const enum action_kind kinds[2] = { action.kind == ACTION_F ? ACTION_F : ACTION_B, ACTION_I };
    for (size_t i = 0; i < 2; i++) {
        needed.kind = (uint8_t)kinds[i];
        const size_t column = column_behind(text, schedule, columns, action_format(needed, cell));
        if (column)
            return column;
    }
    return SIZE_MAX;
}

static void columns_are_steps(const char *text, const struct schedule *schedule, uint64_t trial)
{
    const size_t line = strcspn(text, "\n");
    size_t columns = 1;
    for (size_t i = 0; i < line; i++)
        columns += text[i] == ',';
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        size_t free_from = 0;
        for (size_t column = 0; column < columns; column++) {
            char cell[64];
            struct action group[MOST_JOINED];
            struct error error = { 0 };
            cell_at(text, rank, column, cell);
            if (!cell[0])
                continue;
            const size_t size = group_parse(cell, strlen(cell), group, &error);
            assert_good(size > 0, error);
            for (size_t i = 0; i < size; i++) {
                const size_t wanted = wanted_column(text, schedule, columns, group[i]);
                free_from = wanted > free_from ? wanted : free_from;
            }
            if (column != free_from)
                fail_msg("trial %llu: %s stands in column %zu of\n%s", (unsigned long long)trial, cell, column, text);
            free_from = column + 1;
        }
    }
}

static void columns_are_steps_on_random_orders(void **state)
{
    (void)state;
    uint64_t seed = 5, sayable = 0;
    for (uint64_t trial = 0; trial < test_all_trials(150, 2000); trial++) {
        struct schedule *schedule = random_schedule_as(&seed, true);
        if (is_sayable(schedule)) {
            char *text = written(schedule, &(struct csv_style){ CSV_TORCH_2_9, true });
            columns_are_steps(text, schedule, trial);
            is_written_and_read_the_same(schedule, &(struct csv_style){ CSV_TORCH_2_9, true });
            free(text);
            sayable++;
        }
        schedule_free(schedule);
    }
    assert_true(sayable > 30);
}

static void pytorchs_lowered_file_comes_back_as_it_was(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct error error = { 0 };
    size_t length;
    char *text = text_load(SCHEDULE_DATA "pytorch_zb1p_2rank_2stagep_comms.csv", &length, &error);
    assert_good(text, error);
    struct schedule *schedule = csv_load("pytorch_zb1p_2rank_2stagep_comms.csv");
    char *again = written(schedule, &(struct csv_style){ CSV_TORCH_2_9, true });
    assert_string_equal(again, text);
    free(again);
    free(text);
    schedule_free(schedule);
}

int main(void)
{
    enum { REFUSALS = sizeof refusal_rows / sizeof refusal_rows[0] };
    struct CMUnitTest tests[REFUSALS + 13] = {
        cmocka_unit_test(the_page_shows_what_is_read_and_written),
        cmocka_unit_test(the_name_is_the_files_in_whole_characters),
        cmocka_unit_test(a_stage_is_where_it_stands),
        cmocka_unit_test(blanks_and_either_line_end_are_nothing),
        cmocka_unit_test(groups_and_messages_are_read),
        cmocka_unit_test(sharding_and_waiting_are_passed_over_and_counted),
        cmocka_unit_test(a_csv_is_known_by_its_first_letter),
        cmocka_unit_test(an_order_is_written_in_columns_and_a_lowered_one_as_it_is),
        cmocka_unit_test(what_has_no_cell_is_left_out_and_counted),
        cmocka_unit_test(what_cannot_be_said_is_refused),
        cmocka_unit_test(what_is_written_reads_back_byte_for_byte),
        cmocka_unit_test(columns_are_steps_on_random_orders),
        cmocka_unit_test(pytorchs_lowered_file_comes_back_as_it_was),
    };
    for (size_t i = 0; i < REFUSALS; i++)
        tests[13 + i] = (struct CMUnitTest)TEST_ROW(what_is_not_pytorchs_is_refused_where_it_stands, &refusal_rows[i]);
    return cmocka_run_group_tests_name("csv", tests, NULL, NULL);
}
