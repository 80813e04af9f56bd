// Documents of random clicks, for tests.
#ifndef TESTS_TRAINER_CLICKS_H
#define TESTS_TRAINER_CLICKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"
#include "trainer/data/click_writer.h"

static char clicks_folder[32];

static inline int clicks_make_folder(void **state)
{
    (void)state;
    strcpy(clicks_folder, "/tmp/weir-test-XXXXXX");
    return mkdtemp(clicks_folder) == NULL;
}

static inline int clicks_remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", clicks_folder);
    return system(command);
}

// A path in the folder. The last four stay.
static inline char *clicks_path(const char *name)
{
    static char paths[4][80];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", clicks_folder, name);
    return path;
}

static inline void clicks_save(const char *name, const char *bytes, size_t length)
{
    FILE *file = fopen(clicks_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

enum { CLICKS_MOST = 4, CLICKS_MOST_SLOTS = 6, CLICKS_MOST_NUMBERS = 3 };

// One random sample, from a state of its own.
struct random_click {
    int32_t label;
    float numbers[CLICKS_MOST_NUMBERS];
    uint32_t ids[CLICKS_MOST_SLOTS * CLICKS_MOST], ends[CLICKS_MOST_SLOTS];
};

struct random_clicks {
    uint64_t seed, train, held;
    size_t slots, numbers;
    uint32_t ids, most;
};

static inline struct random_click random_click(const struct random_clicks *clicks, uint64_t number)
{
    struct random_click click = { 0 };
    uint64_t state = clicks->seed * 1000003 + number;
    uint32_t end = 0;
    double score = 0;
    for (size_t n = 0; n < clicks->numbers; n++) {
        click.numbers[n] = (float)random_below(&state, 50) - 3;
        score += click.numbers[n] > 10;
    }
    for (size_t s = 0; s < clicks->slots; s++) {
        const uint64_t count = random_below(&state, clicks->most + 1);
        for (uint64_t i = 0; i < count; i++) {
            click.ids[end++] = (uint32_t)random_below(&state, clicks->ids);
            score += click.ids[end - 1] % 3 == 0 ? 0.7 : -0.7;
        }
        click.ends[s] = end;
    }
    click.label = score + 4 * (random_unit(&state) - 0.5) > 0;
    return click;
}

// Writes the clicks, and loads them.
static inline void random_clicks_load(const struct random_clicks *clicks, struct sample_data *data)
{
    struct click_writer writer = { .samples = 0 };
    struct error error = { 0 };
    char name[8];
    for (size_t n = 0; n < clicks->numbers; n++) {
        snprintf(name, sizeof name, "n%zu", n);
        click_writer_add_number(&writer, name);
    }
    for (size_t s = 0; s < clicks->slots; s++) {
        snprintf(name, sizeof name, "s%zu", s);
        click_writer_add_slot(&writer, name, clicks->ids);
    }
    for (uint64_t i = 0; i < clicks->train + clicks->held; i++) {
        const struct random_click click = random_click(clicks, i);
        click_writer_add(&writer, &(struct click_sample){ click.label, click.numbers, click.ids, NULL, click.ends });
    }
    const char *path = clicks_path("clicks.json");
    assert_good(click_writer_save(&writer, "random", "free", clicks->train, path, &error), error);
    assert_good(sample_data_load(path, data, &error), error);
    click_writer_clear(&writer);
}

#endif
