#include "schedules/pictures/drawing.h"

#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "schedules/board.h"

static struct extent with(struct extent extent, uint64_t start_ns, uint64_t end_ns)
{
    return (struct extent){ min_u64(extent.first_ns, start_ns), max_u64(extent.last_ns, end_ns) };
}

struct extent drawing_extent(const struct timeline *timeline)
{
    struct extent extent = { UINT64_MAX, 0 };
    for (size_t i = 0; i < timeline->span_count; i++)
        extent = with(extent, timeline->spans[i].start_ns, timeline->spans[i].end_ns);
    for (size_t i = 0; i < timeline->message_count; i++)
        if (is_exchange(&timeline->messages[i]))
            extent = with(extent, timeline->messages[i].start_ns, timeline->messages[i].end_ns);
    return extent.first_ns <= extent.last_ns ? extent : (struct extent){ 0, 0 };
}

uint64_t drawing_mark_ns(struct extent extent, uint64_t marks, uint64_t unit_ns)
{
    const uint64_t unit = unit_ns ? unit_ns : 1, length = (extent.last_ns - extent.first_ns) / unit;
    for (uint64_t power = 1;; power *= 10) {
        static const uint64_t steps[] = { 1, 2, 5 };
        for (size_t i = 0; i < 3; i++) {
            if (length / (steps[i] * power) <= marks)  // at 10^19 at the latest
                return steps[i] * power * unit;
        }
    }
}

const char *drawing_mark(uint64_t time_ns, uint64_t mark_ns, uint64_t unit_ns, char *buffer, size_t size)
{
    if (unit_ns) {
        snprintf(buffer, size, "%llu", (unsigned long long)(time_ns / unit_ns));
        return buffer;
    }
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = { { "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 } };
    size_t unit = 0;
    while (mark_ns % units[unit].ns != 0)
        unit++;
    snprintf(buffer, size, "%llu %s", (unsigned long long)(time_ns / units[unit].ns), units[unit].name);
    return buffer;
}

const char *drawing_kind(unsigned kind)
{
    static const char *const names[ACTION_KINDS] = {
        "forward", "backward", "backward for the input", "backward for the weights", "recompute",
        "exchange forward", "receive", "exchange backward", "receive", "to the host", "from the host", "reduce", "step",
        "validate",
    };
    return names[kind];
}

unsigned drawing_kinds(const struct timeline *timeline)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < timeline->span_count; i++) {
        if (timeline->spans[i].end_ns > timeline->spans[i].start_ns)
            kinds |= 1u << timeline->spans[i].action.kind;
        if (timeline->spans[i].recompute_ns > 0)
            kinds |= 1u << ACTION_R;
    }
    for (size_t i = 0; i < timeline->message_count; i++) {
        const struct message *message = &timeline->messages[i];
        if (is_exchange(message) && message->end_ns > message->start_ns)
            kinds |= 1u << message->action.kind;
    }
    return kinds;
}

static const char *without_stage(struct action action, char *buffer)
{
    action_format(action, buffer);
    const size_t stage = strspn(buffer, "0123456789");
    memmove(buffer, buffer + stage, strlen(buffer + stage) + 1);
    return buffer;
}

const char *drawing_label(struct action action, char *buffer)
{
    if (is_send(action))
        action.kind = action.kind == ACTION_SEND_F ? ACTION_F : ACTION_B;
    return without_stage(action, buffer);
}

const char *drawing_letter(unsigned kind, char *buffer)
{
    return without_stage((struct action){ .kind = (uint8_t)kind, .micro_batch = NO_MICRO_BATCH }, buffer);
}

void drawing_escape(const char *plain, struct text *text)
{
    for (const char *letter = plain; *letter; letter++) {
        if (*letter == '&')
            text_add(text, "&amp;");
        else if (*letter == '<')
            text_add(text, "&lt;");
        else if (*letter == '>')
            text_add(text, "&gt;");
        else
            text_add_bytes(text, (unsigned char)*letter < ' ' ? " " : letter, 1);
    }
}
