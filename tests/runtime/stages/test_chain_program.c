// Items of a workspace that has room for what lives at a time and no more: each keeps what was written into it.
#include "runtime/stages/chain_program.h"

#include <string.h>

#include "common/random.h"
#include "tests/test.h"

enum { ITEMS = 12, UNIT = 256, MOST = 6 };

// Items that come and go at random, each filled from the input and emptied into the output, at a place of its own.
// Returns the most bytes that live at a time.
static uint64_t write_random(uint64_t *seed, struct program *program)
{
    struct spot items[ITEMS];
    uint64_t sizes[ITEMS], now = 0, most = 0;
    size_t living[ITEMS], count = 0, begun = 0;
    while (begun < ITEMS || count > 0) {
        if (begun < ITEMS && (count == 0 || random_below(seed, 2))) {
            sizes[begun] = UNIT * (1 + random_below(seed, MOST));
            items[begun] = program_item(program, sizes[begun], false);
            program_copy(program, items[begun], (struct spot){ AT_INPUT, begun * UNIT * MOST }, sizes[begun]);
            now += sizes[begun];
            most = now > most ? now : most;
            living[count++] = begun++;
        } else {
            const size_t k = random_below(seed, count), item = living[k];
            program_copy(program, (struct spot){ AT_OUTPUT, item * UNIT * MOST }, items[item], sizes[item]);
            now -= sizes[item];
            living[k] = living[--count];
        }
    }
    return most;
}

static void items_keep_what_they_hold_in_the_least_room(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    assert_good(queue, error);
    size_t moved = 0;
    for (uint64_t trial = 0; trial < test_trials(1000, 100000); trial++) {
        uint64_t seed = trial;
        struct program program = { 0 };
        const uint64_t room = write_random(&seed, &program);
        assert_good(program_place(&program, room, &error), error);
        unsigned char input[ITEMS * UNIT * MOST], output[sizeof input], *workspace = malloc(room + UNIT);
        assert_non_null(workspace);
        memset(output, 0, sizeof output);
        memset(workspace, 0x5a, room + UNIT);
        for (size_t i = 0; i < sizeof input; i++)
            input[i] = (unsigned char)random_next(&seed);
        const struct stage_pass pass = {
            .base = { .queue = queue, .input = input, .output = output, .workspace = workspace },
        };
        assert_good(program_run(&program, &pass, &error), error);
        for (size_t s = 0; s < program.step_count; s++) {
            const struct step *step = &program.steps[s];
            const uint64_t at = step->spots[SPOT_TO].at;
            if (step->spots[SPOT_TO].base == AT_OUTPUT && memcmp(output + at, input + at, step->bytes) != 0)
                fail_msg("trial %llu: an item has changed", (unsigned long long)trial);
        }
        for (size_t i = 0; i < UNIT; i++)
            assert_int_equal(workspace[room + i], 0x5a);
        moved += program.moved_bytes > 0;
        free(workspace);
        program_free(&program);
    }
    assert_true(moved > 0);  // some had no offsets that stay
    queue_free(queue);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_keep_what_they_hold_in_the_least_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
