#include "trainer/data/movielens.h"

#include <stdlib.h>
#include <string.h>

#include "common/arrays.h"
#include "common/number.h"
#include "common/random.h"
#include "trainer/data/atomic_file.h"
#include "trainer/data/lines.h"

enum { HELD_EVERY = 10, LEAST_RATING = 4, MOST_GENRES = 64, FIRST_YEAR = 1900, MOST_AGE = 150 };

enum { RATING_USER, RATING_ITEM, RATING_STARS, RATING_TIME };
enum { ITEM_NAME, ITEM_YEAR, ITEM_GENRES };
enum { USER_NAME, USER_AGE, USER_GENDER, USER_OCCUPATION, USER_ZIP };
static const char *const columns[MOVIELENS_FILES][6] = {
    [MOVIELENS_RATINGS] = { "user_id", "item_id", "rating", "timestamp", NULL },
    [MOVIELENS_ITEMS] = { "item_id", "release_year", "class", NULL },
    [MOVIELENS_USERS] = { "user_id", "age", "gender", "occupation", "zip_code", NULL },
};

enum { SLOT_USER, SLOT_ITEM, SLOT_GENRES, SLOT_AGE, SLOT_GENDER, SLOT_OCCUPATION, SLOT_ZIP, SLOT_YEAR, SLOTS };
enum { NUMBER_AGE, NUMBER_YEAR, NUMBERS };

// The ages below which MovieLens's ranges end; the last has no end.
static const uint64_t age_ends[] = { 18, 25, 35, 45, 50, 56 };
enum { AGE_RANGES = sizeof age_ends / sizeof age_ends[0] + 1 };

struct movielens {
    struct atomic_file files[MOVIELENS_FILES];
    struct vocabulary users, items, genres, genders, occupations, years;
    struct arrays arrays;
    size_t *user_rows, *item_rows;  // of each user and film, by its id
    bool *is_held;                  // of each rating
};

// --- users and films ---------------------------------------------------------------------------

static bool refuse_row(const struct atomic_file *file, size_t row, const char *what, const char *cell,
                       struct error *error)
{
    return error_named(error, "%s: line %zu %s \"%.40s\"", file->path, atomic_file_line(row), what, cell);
}

// The row of each word of the first column, which no two rows have.
static size_t *index_rows(struct movielens *all, const struct atomic_file *file, const struct vocabulary *names,
                          struct error *error)
{
    size_t *rows = arrays_add(&all->arrays, names->count, sizeof *rows);
    bool *is_met = arrays_add(&all->arrays, names->count, sizeof *is_met);
    if (all->arrays.failed)
        return error_null(error_no_memory(error, "the rows of a file"));
    for (size_t r = 0; r < file->rows; r++) {
        const uint32_t name = vocabulary_find(names, atomic_file_cell(file, r, 0));
        if (name == VOCABULARY_NONE || is_met[name]) {
            refuse_row(file, r, name == VOCABULARY_NONE ? "has no name:" : "has a name that an earlier line has:",
                       atomic_file_cell(file, r, 0), error);
            return NULL;
        }
        rows[name] = r;
        is_met[name] = true;
    }
    return rows;
}

static bool find_words(struct movielens *all, struct error *error)
{
    const struct atomic_file *users = &all->files[MOVIELENS_USERS], *items = &all->files[MOVIELENS_ITEMS];
    return vocabulary_of(users, USER_NAME, '\0', &all->users, error)
        && vocabulary_of(users, USER_GENDER, '\0', &all->genders, error)
        && vocabulary_of(users, USER_OCCUPATION, '\0', &all->occupations, error)
        && vocabulary_of(items, ITEM_NAME, '\0', &all->items, error)
        && vocabulary_of(items, ITEM_GENRES, ' ', &all->genres, error)
        && vocabulary_of(items, ITEM_YEAR, '\0', &all->years, error)
        && (all->user_rows = index_rows(all, users, &all->users, error))
        && (all->item_rows = index_rows(all, items, &all->items, error));
}

// --- which ratings are held out ------------------------------------------------------------------

struct moment {
    uint64_t time;
    size_t row;
};

static int compare_moments(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time) : (x->row > y->row) - (x->row < y->row);
}

static bool hold_latest(struct movielens *all, struct error *error)
{
    const struct atomic_file *ratings = &all->files[MOVIELENS_RATINGS];
    struct moment *moments = arrays_add(&all->arrays, ratings->rows, sizeof *moments);
    if (!moments)
        return error_no_memory(error, "the times of ratings");
    for (size_t r = 0; r < ratings->rows; r++) {
        const char *cell = atomic_file_cell(ratings, r, RATING_TIME);
        unsigned decimals;
        if (!decimal_parse(cell, &moments[r].time, &decimals) || decimals > 0)
            return refuse_row(ratings, r, "has a timestamp that is no whole number of seconds:", cell, error);
        moments[r].row = r;
    }
    qsort(moments, ratings->rows, sizeof *moments, compare_moments);
    for (size_t i = ratings->rows - ratings->rows / HELD_EVERY; i < ratings->rows; i++)
        all->is_held[moments[i].row] = true;
    return true;
}

static bool hold_out(struct movielens *all, bool by_time, struct error *error)
{
    const struct atomic_file *ratings = &all->files[MOVIELENS_RATINGS];
    size_t held = 0;
    all->is_held = arrays_add(&all->arrays, ratings->rows, sizeof *all->is_held);
    if (!all->is_held)
        return error_no_memory(error, "the ratings");
    if (by_time && !hold_latest(all, error))
        return false;
    for (size_t r = 0; r < ratings->rows; r++) {
        uint64_t state = r;
        all->is_held[r] = by_time ? all->is_held[r] : random_below(&state, HELD_EVERY) == 0;
        held += all->is_held[r];
    }
    return (held > 0 && held < ratings->rows)
        || error_named(error, "%s: %zu ratings are too few to hold a tenth of them out", ratings->path, ratings->rows);
}

// --- samples -------------------------------------------------------------------------------------

struct made_sample {
    float numbers[NUMBERS];
    uint32_t ids[SLOTS + MOST_GENRES], ends[SLOTS], end;
};

static void add_id(struct made_sample *made, int slot, uint32_t id)
{
    if (id != VOCABULARY_NONE)
        made->ids[made->end++] = id;
    made->ends[slot] = made->end;
}

static bool add_genres(struct movielens *all, size_t row, struct made_sample *made, struct error *error)
{
    const struct atomic_file *items = &all->files[MOVIELENS_ITEMS];
    char *words[MOST_GENRES + 1], copy[4096];
    const char *cell = atomic_file_cell(items, row, ITEM_GENRES);
    const size_t count = strlen(cell) < sizeof copy ? line_cut(strcpy(copy, cell), ' ', words, MOST_GENRES) : SIZE_MAX;
    if (count > MOST_GENRES)
        return refuse_row(items, row, "has more than 64 genres:", cell, error);
    for (size_t i = 0; i < count; i++)
        add_id(made, SLOT_GENRES, vocabulary_find(&all->genres, words[i]));
    return true;
}

// 0 of a word that is no year: RecBole's file has one.
static float years_since(const char *word)
{
    uint64_t year;
    unsigned decimals;
    const bool is_year = decimal_parse(word, &year, &decimals) && decimals == 0 && year >= FIRST_YEAR - 100
                      && year < FIRST_YEAR + 200;
    return is_year ? (float)year - FIRST_YEAR : 0;
}

static uint32_t age_range(uint64_t age)
{
    uint32_t range = 0;
    while (range < AGE_RANGES - 1 && age >= age_ends[range])
        range++;
    return range;
}

static bool add_item(struct movielens *all, uint32_t item, struct made_sample *made, struct error *error)
{
    const struct atomic_file *items = &all->files[MOVIELENS_ITEMS];
    const size_t row = all->item_rows[item];
    add_id(made, SLOT_ITEM, item);
    made->ends[SLOT_GENRES] = made->end;
    made->numbers[NUMBER_YEAR] = years_since(atomic_file_cell(items, row, ITEM_YEAR));
    return add_genres(all, row, made, error);
}

static bool add_user(struct movielens *all, uint32_t user, struct made_sample *made, struct error *error)
{
    const struct atomic_file *users = &all->files[MOVIELENS_USERS];
    const size_t row = all->user_rows[user];
    const unsigned char *zip = (const unsigned char *)atomic_file_cell(users, row, USER_ZIP);
    const char *years = atomic_file_cell(users, row, USER_AGE);
    uint64_t age = 0;
    unsigned decimals = 0;
    if (*years && (!decimal_parse(years, &age, &decimals) || decimals > 0 || age < 1 || age > MOST_AGE))
        return refuse_row(users, row, "has an age that is none:", years, error);
    made->numbers[NUMBER_AGE] = (float)age;
    add_id(made, SLOT_AGE, age > 0 ? age_range(age) : VOCABULARY_NONE);
    add_id(made, SLOT_GENDER, vocabulary_find(&all->genders, atomic_file_cell(users, row, USER_GENDER)));
    add_id(made, SLOT_OCCUPATION, vocabulary_find(&all->occupations, atomic_file_cell(users, row, USER_OCCUPATION)));
    add_id(made, SLOT_ZIP, *zip ? *zip : VOCABULARY_NONE);
    return true;
}

static bool is_liked(const char *stars, bool *liked)
{
    uint64_t digits, least = LEAST_RATING;
    unsigned decimals;
    if (!decimal_parse(stars, &digits, &decimals))
        return false;
    while (decimals-- > 0)
        least *= 10;
    *liked = digits >= least;
    return true;
}

static bool add_rating(struct movielens *all, size_t row, struct click_writer *writer, struct error *error)
{
    const struct atomic_file *ratings = &all->files[MOVIELENS_RATINGS];
    const char *user = atomic_file_cell(ratings, row, RATING_USER), *item = atomic_file_cell(ratings, row, RATING_ITEM);
    const char *stars = atomic_file_cell(ratings, row, RATING_STARS);
    const uint32_t user_id = vocabulary_find(&all->users, user), item_id = vocabulary_find(&all->items, item);
    struct made_sample made = { .end = 0 };
    bool liked;
    if (user_id == VOCABULARY_NONE)
        return refuse_row(ratings, row, "rates for a user that the file of users lacks:", user, error);
    if (item_id == VOCABULARY_NONE)
        return refuse_row(ratings, row, "rates a film that the file of films lacks:", item, error);
    if (!is_liked(stars, &liked))
        return refuse_row(ratings, row, "has a rating that is no number:", stars, error);
    add_id(&made, SLOT_USER, user_id);
    if (!add_item(all, item_id, &made, error) || !add_user(all, user_id, &made, error))
        return false;
    const char *year = atomic_file_cell(&all->files[MOVIELENS_ITEMS], all->item_rows[item_id], ITEM_YEAR);
    add_id(&made, SLOT_YEAR, vocabulary_find(&all->years, year));
    click_writer_add(writer, &(struct click_sample){ liked, made.numbers, made.ids, NULL, made.ends });
    return true;
}

static void name_fields(const struct movielens *all, struct click_writer *writer)
{
    enum { BYTES = 256 };
    click_writer_add_number(writer, "age");
    click_writer_add_number(writer, "year");
    click_writer_add_slot(writer, "user", all->users.count);
    click_writer_add_slot(writer, "item", all->items.count);
    click_writer_add_slot(writer, "genres", max_u64(1, all->genres.count));
    click_writer_add_slot(writer, "age", AGE_RANGES);
    click_writer_add_slot(writer, "gender", max_u64(1, all->genders.count));
    click_writer_add_slot(writer, "occupation", max_u64(1, all->occupations.count));
    click_writer_add_slot(writer, "zip", BYTES);
    click_writer_add_slot(writer, "year", max_u64(1, all->years.count));
}

static bool add_ratings(struct movielens *all, struct click_writer *writer, uint64_t *train, struct error *error)
{
    for (int held = 0; held < 2; held++) {
        for (size_t r = 0; r < all->files[MOVIELENS_RATINGS].rows; r++)
            if (all->is_held[r] == held && !add_rating(all, r, writer, error))
                return false;
        *train = held ? *train : writer->samples;
    }
    return true;
}

bool movielens_read(char *const files[MOVIELENS_FILES], bool by_time, struct click_writer *writer, uint64_t *train,
                    struct error *error)
{
    struct movielens all = { .user_rows = NULL };
    bool good = true;
    writer->fields.split = by_time ? CLICK_SPLIT_TIME : CLICK_SPLIT_RANDOM;
    for (int f = 0; good && f < MOVIELENS_FILES; f++)
        good = atomic_file_read(files[f], columns[f], &all.files[f], error);
    good = good && find_words(&all, error) && hold_out(&all, by_time, error);
    if (good) {
        name_fields(&all, writer);
        good = add_ratings(&all, writer, train, error);
    }
    struct vocabulary *const words[] = { &all.users, &all.items, &all.genres, &all.genders, &all.occupations,
                                         &all.years };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        vocabulary_clear(words[i]);
    for (int f = 0; f < MOVIELENS_FILES; f++)
        atomic_file_clear(&all.files[f]);
    arrays_clear(&all.arrays);
    return good;
}
