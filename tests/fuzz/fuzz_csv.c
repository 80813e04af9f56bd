// Any bytes as PyTorch's CSV. What is read and can be written again reads back byte
// for byte; what check accepts can be written, lowered or not.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/check.h"
#include "schedules/csv.h"
#include "schedules/lower.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_UNITS = 20000 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool write_and_read_again(const struct schedule *schedule, const struct csv_style *style)
{
    struct error error = { 0 };
    struct csv_left_out left_out;
    struct text first = { 0 }, second = { 0 };
    size_t passed_over;
    const bool good = csv_write(schedule, style, &first, &left_out, &error);
    if (good) {
        struct schedule *again = csv_read(first.data, first.length, "written", &passed_over, &error);
        require(again != NULL && passed_over == 0);
        require(csv_write(again, style, &second, &left_out, &error));
        require(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
        schedule_free(again);
    }
    require(good || error.text[0]);
    text_clear(&first);
    text_clear(&second);
    return good;
}

static void check_and_lower(const struct schedule *schedule, bool written)
{
    struct error error = { 0 };
    struct check_result result;
    require(schedule_check(schedule, 0, &result, &error));
    require(written || !result.ok);
    struct schedule *lowered = result.ok && !schedule->lowered ? schedule_lower(schedule, &error) : NULL;
    if (lowered)
        require(write_and_read_again(lowered, &(struct csv_style){ CSV_TORCH_2_9, true }));
    schedule_free(lowered);
    check_result_clear(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    size_t passed_over;
    struct schedule *schedule = csv_read((const char *)data, size, "fuzz", &passed_over, &error);
    if (!schedule) {
        require(error.kind != ERROR_NONE && error.text[0]);
        return 0;
    }
    write_and_read_again(schedule, &(struct csv_style){ CSV_TORCH_2_6, true });
    const bool written = write_and_read_again(schedule, &(struct csv_style){ CSV_TORCH_2_9, false });
    if ((uint64_t)schedule->stages * schedule->micro_batches <= MOST_UNITS)
        check_and_lower(schedule, written);
    schedule_free(schedule);
    return 0;
}
