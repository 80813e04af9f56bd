// Ratings of films become clicks. The files are of RecBole's shape, and made here.
#include "trainer/data/movielens.h"

#include "tests/trainer/clicks.h"

static const char items[] = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
                            "10\tTen\t1995\tDrama Comedy\n"
                            "2\tTwo\tunknown\t\n"
                            "33\tThree\t1931\tWar Drama Action\n";
static const char users[] = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
                            "7\t24\tM\twriter\t85711\n"
                            "5\t\tF\tartist\tV3N4P\n";

// Words in the order of their bytes.
static const char *const item_words[] = { "10", "2", "33" };
static const char *const user_words[] = { "5", "7" };

enum { RATINGS = 200 };

struct rating {
    uint32_t user, item;  // as places among the words
    unsigned stars;       // in halves
    uint64_t time;
};

static struct rating rating_of(uint64_t row)
{
    uint64_t state = row + 5;
    struct rating rating = { .user = (uint32_t)random_below(&state, 2), .item = (uint32_t)random_below(&state, 3) };
    rating.stars = 2 + (unsigned)random_below(&state, 9);
    rating.time = 1000 + random_below(&state, 60);
    return rating;
}

static void save_files(const char *from, const char *to)
{
    struct text all = { 0 };
    text_add(&all, "user_id:token\titem_id:token\trating:float\ttimestamp:float\n");
    for (uint64_t i = 0; i < RATINGS; i++) {
        const struct rating rating = rating_of(i);
        text_add(&all, "%s\t%s\t%u%s\t%llu\n", user_words[rating.user], item_words[rating.item], rating.stars / 2,
                 rating.stars % 2 == 0 ? "" : ".5", (unsigned long long)rating.time);
    }
    const char *const texts[] = { all.data, items, users };
    const char *const names[] = { "x.inter", "x.item", "x.user" };
    bool is_replaced = from == NULL;
    for (int f = 0; f < 3; f++) {
        struct text changed = { 0 };
        const char *at = from ? strstr(texts[f], from) : NULL;
        if (at && !is_replaced)
            text_add(&changed, "%.*s%s%s", (int)(at - texts[f]), texts[f], to, at + strlen(from));
        else
            text_add_bytes(&changed, texts[f], strlen(texts[f]));
        is_replaced = is_replaced || at;
        clicks_save(names[f], changed.data, changed.length);
        text_clear(&changed);
    }
    assert_true(is_replaced);
    text_clear(&all);
}

static bool read_files(bool by_time, struct click_writer *writer, uint64_t *train, struct error *error)
{
    char paths[3][80];
    snprintf(paths[0], sizeof paths[0], "%s/x.inter", clicks_folder);
    snprintf(paths[1], sizeof paths[1], "%s/x.item", clicks_folder);
    snprintf(paths[2], sizeof paths[2], "%s/x.user", clicks_folder);
    char *const files[] = { paths[0], paths[1], paths[2] };
    return movielens_read(files, by_time, writer, train, error);
}

// Whether fewer than a tenth of all ratings come behind one, in the order of time and row.
static bool is_late(uint64_t row)
{
    uint64_t behind = 0;
    for (uint64_t i = 0; i < RATINGS; i++)
        behind += rating_of(i).time > rating_of(row).time || (rating_of(i).time == rating_of(row).time && i > row);
    return behind < RATINGS / 10;
}

static bool is_drawn(uint64_t row)
{
    uint64_t state = row;
    return random_below(&state, 10) == 0;
}

static void check(const struct rating *rating, const struct click_sample *sample)
{
    // Genres are Action, Comedy, Drama, War; occupations artist, writer; years 1931, 1995, unknown.
    static const struct {
        uint32_t genres[3], count, year;
        float number;
    } films[] = { { { 2, 1 }, 2, 1, 95 }, { { 0 }, 0, 2, 0 }, { { 3, 2, 0 }, 3, 0, 31 } };
    uint32_t expected[16], ends[8], end = 0;
    expected[end++] = rating->user;
    ends[0] = end;
    expected[end++] = rating->item;
    ends[1] = end;
    for (uint32_t g = 0; g < films[rating->item].count; g++)
        expected[end++] = films[rating->item].genres[g];
    ends[2] = end;
    if (rating->user == 1)
        expected[end++] = 1;  // 18 to 24
    ends[3] = end;
    expected[end++] = rating->user == 1;
    ends[4] = end;
    expected[end++] = rating->user == 1;
    ends[5] = end;
    expected[end++] = rating->user == 1 ? '8' : 'V';
    ends[6] = end;
    expected[end++] = films[rating->item].year;
    ends[7] = end;
    assert_memory_equal(sample->ends, ends, sizeof ends);
    assert_memory_equal(sample->ids, expected, end * sizeof expected[0]);
    assert_true(sample->numbers[0] == (rating->user == 1 ? 24 : 0));
    assert_true(sample->numbers[1] == films[rating->item].number);
    assert_int_equal(sample->label, rating->stars >= 8);
}

static void ratings_become_clicks(void **state)
{
    (void)state;
    for (int by_time = 0; by_time < 2; by_time++) {
        struct click_writer writer = { .samples = 0 };
        struct sample_data data;
        struct error error = { 0 };
        uint64_t train = 0, met[2] = { 0, 0 };
        save_files(NULL, NULL);
        assert_good(read_files(by_time, &writer, &train, &error), error);
        const char *path = clicks_path("films.json");
        assert_good(click_writer_save(&writer, "movielens", "-", train, path, &error), error);
        assert_good(sample_data_load(path, &data, &error), error);
        assert_int_equal(data.clicks.split, by_time ? CLICK_SPLIT_TIME : CLICK_SPLIT_RANDOM);
        assert_int_equal(click_data_most(&data, 2), 3);
        for (uint64_t row = 0; row < RATINGS; row++) {
            const struct rating rating = rating_of(row);
            const bool held = by_time ? is_late(row) : is_drawn(row);
            struct click_sample sample;
            assert_true(sample_data_click(&data, held, met[held]++, &sample));
            check(&rating, &sample);
        }
        assert_true(met[0] == data.train && met[1] == data.held);
        sample_data_clear(&data);
        click_writer_clear(&writer);
    }
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        { "rating:float\ttimestamp:float\n", "rating:float\ttimestamp:float\n6\t10\t4\t1\n",
          "x.inter: line 2 rates for a user that the file of users lacks: \"6\"" },
        { "rating:float\ttimestamp:float\n", "rating:float\ttimestamp:float\n7\t11\t4\t1\n",
          "x.inter: line 2 rates a film that the file of films lacks: \"11\"" },
        { "rating:float\ttimestamp:float\n", "rating:float\ttimestamp:float\n7\t10\tgood\t1\n",
          "x.inter: line 2 has a rating that is no number: \"good\"" },
        { "rating:float\ttimestamp:float\n", "rating:float\ttimestamp:float\n7\t10\t4\tnow\n",
          "x.inter: line 2 has a timestamp that is no whole number of seconds: \"now\"" },
        { "33\tThree", "10\tThree", "x.item: line 4 has a name that an earlier line has: \"10\"" },
        { "33\tThree", "\tThree", "x.item: line 4 has no name: \"\"" },
        { "7\t24\tM", "7\tx24\tM", "x.user: line 2 has an age that is none: \"x24\"" },
        { "7\t24\tM", "7\t0\tM", "x.user: line 2 has an age that is none: \"0\"" },
        { "zip_code", "zip", "x.user: line 1 names no column zip_code: an atomic file of RecBole begins with the names"
                             " and types of its columns, apart by tabs" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct click_writer writer = { .samples = 0 };
        struct error error = { 0 };
        char expected[300];
        uint64_t train;
        save_files(rows[i][0], rows[i][1]);
        if (read_files(true, &writer, &train, &error))
            fail_msg("%s is read", rows[i][1]);
        snprintf(expected, sizeof expected, "%s/%s", clicks_folder, rows[i][2]);
        assert_error(error, expected);
        click_writer_clear(&writer);
    }
}

static void few_ratings_are_refused(void **state)
{
    (void)state;
    static const char few[] = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\t10\t4\t1\n";
    struct click_writer writer = { .samples = 0 };
    struct error error = { 0 };
    char expected[300];
    uint64_t train;
    save_files(NULL, NULL);
    clicks_save("x.inter", few, strlen(few));
    assert_false(read_files(true, &writer, &train, &error));
    snprintf(expected, sizeof expected, "%s/x.inter: 1 ratings are too few to hold a tenth of them out", clicks_folder);
    assert_error(error, expected);
    click_writer_clear(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratings_become_clicks),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(few_ratings_are_refused),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}
