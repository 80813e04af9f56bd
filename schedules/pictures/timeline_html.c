#include "schedules/pictures/timeline_html.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "schedules/pictures/causes.h"
#include "schedules/pictures/lanes.h"
#include "schedules/pictures/page_parts.h"
#include "schedules/pictures/palette.h"
#include "schedules/pictures/span_index.h"

// The data that page.js reads, one run after the other. Times are in ns since the run's beginning. Lists of numbers
// are flat. Boxes are numbered from 0, lane after lane.
//
//     spans      per lane, 13 numbers a box: start (since the box before), length, kind, stage,
//                micro-batch (-1: none), split, shade, row, rows, recompute, 1 + the box it waited
//                for (0: none), 1 + the message that brought it (0: none), whether critical
//     exchanges  the ranks of lanes behind those of all ranks; absent if there are none
//     messages   4 numbers each: from, to, start, length
//     levels     per rank, 2 numbers each: time (since the one before), bytes; [] if not counted
//     limits     per rank, the bytes of its device; [] if unknown
//     unit       how many ns the number 1 is, if costs have no units; otherwise 0
struct sheet {
    const struct timeline *timeline;
    struct lanes lanes;
    struct causes causes;
    struct span_index index;
    size_t *box_of;  // per span
};

static void add_number(struct text *text, bool first, uint64_t number)
{
    text_add(text, first ? "%llu" : ",%llu", (unsigned long long)number);
}

// The page's data must not contain anything that looks like the end of its element.
static void add_string(struct text *text, const char *string)
{
    struct text quoted = { 0 };
    json_quote(&quoted, string);
    for (size_t i = 0; i < quoted.length; i++) {
        if (quoted.data[i] == '<')
            text_add(text, "\\u003c");
        else
            text_add_bytes(text, &quoted.data[i], 1);
    }
    text->failed |= quoted.failed;
    text_clear(&quoted);
}

// --- a run ----------------------------------------------------------------------------

struct waiting {
    uint64_t box, message;  // as the page counts them
    bool critical;
};

static struct waiting waiting_of_span(const struct sheet *sheet, const struct span *span)
{
    const size_t number = (size_t)(span - sheet->timeline->spans);
    const struct cause *cause = &sheet->causes.of[number];
    return (struct waiting){ cause->span == NO_SPAN ? 0 : sheet->box_of[cause->span] + 1,
                             (uint64_t)(cause->message + 1), sheet->causes.critical[number] };
}

// It waited for its maker, or for the exchange before it.
static struct waiting waiting_of_exchange(const struct sheet *sheet, uint32_t lane, size_t place)
{
    const struct span *span = sheet->lanes.boxes[place].span;
    const size_t number = (size_t)(span - sheet->lanes.exchanges);
    const ptrdiff_t maker = span_index_maker(&sheet->index, &sheet->timeline->messages[number]);
    const uint64_t made_ns = maker == NO_SPAN ? 0 : sheet->timeline->spans[maker].end_ns;
    const bool in_turn = place > sheet->lanes.first[lane] && sheet->lanes.boxes[place - 1].span->end_ns > made_ns;
    return (struct waiting){ in_turn ? place : maker == NO_SPAN ? 0 : sheet->box_of[maker] + 1, 0,
                             sheet->causes.critical_message[number] };
}

static void add_box(const struct sheet *sheet, uint32_t lane, size_t place, uint64_t *before_ns, struct text *text)
{
    const struct lane_box *box = &sheet->lanes.boxes[place];
    const struct span *span = box->span;
    const struct action action = span->action;
    const struct waiting waiting = lane < sheet->timeline->ranks ? waiting_of_span(sheet, span)
                                                                 : waiting_of_exchange(sheet, lane, place);
    add_number(text, place == sheet->lanes.first[lane], span->start_ns - *before_ns);
    add_number(text, false, span->end_ns - span->start_ns);
    text_add(text, ",%u,%u,%lld,%u,%u,%u,%u", action.kind, action.stage,
             action.micro_batch == NO_MICRO_BATCH ? -1LL : (long long)action.micro_batch, action.split,
             lanes_shade(&sheet->lanes, box), box->row, box->rows);
    add_number(text, false, span->recompute_ns);
    add_number(text, false, waiting.box);
    add_number(text, false, waiting.message);
    add_number(text, false, waiting.critical);
    *before_ns = span->start_ns;
}

static void add_boxes(const struct sheet *sheet, struct text *text)
{
    text_add(text, ",\n\"spans\":[");
    for (uint32_t lane = 0; lane < sheet->lanes.count; lane++) {
        uint64_t before_ns = sheet->lanes.extent.first_ns;
        text_add(text, lane ? ",\n[" : "[");
        for (size_t i = sheet->lanes.first[lane]; i < sheet->lanes.first[lane + 1]; i++)
            add_box(sheet, lane, i, &before_ns, text);
        text_add(text, "]");
    }
    text_add(text, "]");
}

static void add_exchanges(const struct sheet *sheet, struct text *text)
{
    const struct lanes *lanes = &sheet->lanes;
    for (uint32_t lane = sheet->timeline->ranks; lane < lanes->count; lane++)
        text_add(text, "%s%u", lane == sheet->timeline->ranks ? ",\n\"exchanges\":[" : ",",
                 lanes->boxes[lanes->first[lane]].span->rank);
    text_add(text, lanes->count > sheet->timeline->ranks ? "]" : "");
}

static void add_messages(const struct sheet *sheet, struct text *text)
{
    text_add(text, ",\n\"messages\":[");
    for (size_t i = 0; i < sheet->timeline->message_count; i++) {
        const struct message *message = &sheet->timeline->messages[i];
        add_number(text, i == 0, message->from);
        add_number(text, false, message->to);
        add_number(text, false, message->start_ns - sheet->lanes.extent.first_ns);
        add_number(text, false, message->end_ns - message->start_ns);
    }
    text_add(text, "]");
}

static void add_levels(const struct sheet *sheet, struct text *text)
{
    const struct timeline *timeline = sheet->timeline;
    size_t index = 0;
    text_add(text, ",\n\"levels\":[");
    for (uint32_t rank = 0; rank < timeline->ranks && timeline->level_count > 0; rank++) {
        uint64_t before_ns = sheet->lanes.extent.first_ns;
        text_add(text, rank ? ",\n[" : "[");
        for (bool first = true; index < timeline->level_count && timeline->levels[index].rank == rank;
             index++, first = false) {
            const struct level *level = &timeline->levels[index];
            const uint64_t time_ns = level->time_ns > before_ns ? level->time_ns : before_ns;
            add_number(text, first, time_ns - before_ns);
            add_number(text, false, level->bytes);
            before_ns = time_ns;
        }
        text_add(text, "]");
    }
    text_add(text, "]");
}

static void add_results(const struct simulation *simulation, struct text *text)
{
    const struct bubble *bubble = &simulation->bubble;
    const struct critical_path *path = &simulation->critical_path;
    text_add(text, ",\"iteration\":%llu,\"bubble\":[%.6f,%.6f,%.6f,%.6f],\"path\":[",
             (unsigned long long)simulation->iteration_ns, bubble->makespan, bubble->overhead, bubble->span,
             bubble->zb_rate);
    add_number(text, true, path->compute_ns);
    add_number(text, false, path->recompute_ns);
    add_number(text, false, path->latency_ns);
    add_number(text, false, path->transfer_ns);
    add_number(text, false, path->order_ns);
    text_add(text, "],\"busy\":[");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++)
        add_number(text, rank == 0, simulation->per_rank[rank].busy_ns);
    text_add(text, "],\"peaks\":[");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++)
        add_number(text, rank == 0, simulation->per_rank[rank].live_peak_bytes);
    text_add(text, "]");
}

static bool sheet_create(struct sheet *sheet, const struct timeline *timeline)
{
    *sheet = (struct sheet){ .timeline = timeline };
    sheet->box_of = malloc((timeline->span_count + 1) * sizeof *sheet->box_of);
    if (!sheet->box_of || !lanes_create(&sheet->lanes, timeline) || !causes_create(&sheet->causes, timeline)
        || !span_index_create(&sheet->index, timeline))
        return false;
    for (size_t i = 0; i < timeline->span_count; i++)
        sheet->box_of[sheet->lanes.boxes[i].span - timeline->spans] = i;
    return true;
}

static void sheet_clear(struct sheet *sheet)
{
    free(sheet->box_of);
    lanes_clear(&sheet->lanes);
    causes_clear(&sheet->causes);
    span_index_clear(&sheet->index);
}

static void add_run(const struct page_run *run, const struct sheet *sheet, struct text *text)
{
    text_add(text, "{\"name\":");
    add_string(text, run->name);
    text_add(text, ",\"ranks\":%u,\"chunks\":%u,\"unit\":%llu,\"limits\":[", run->timeline->ranks, sheet->lanes.chunks,
             (unsigned long long)run->timeline->unit_ns);
    for (uint32_t rank = 0; rank < run->timeline->ranks && run->capacity_bytes; rank++)
        add_number(text, rank == 0, run->capacity_bytes[rank]);
    text_add(text, "]");
    add_results(run->simulation, text);
    add_boxes(sheet, text);
    add_exchanges(sheet, text);
    add_messages(sheet, text);
    add_levels(sheet, text);
    text_add(text, "}");
}

// --- all of the data --------------------------------------------------------------------

static void add_kinds(struct text *text)
{
    text_add(text, "{\"kinds\":[");
    for (unsigned kind = 0; kind < ACTION_KINDS; kind++) {
        char letter[ACTION_SIZE];
        text_add(text, "%s{\"letter\":\"%s\",\"name\":\"%s\",\"box\":[", kind ? ",\n" : "\n",
                 drawing_letter(kind, letter), drawing_kind(kind));
        for (unsigned shade = 0; shade < SHADES; shade++) {
            const struct rgb box = palette_box(kind, shade);
            text_add(text, "%s\"#%02x%02x%02x\"", shade ? "," : "", box.red, box.green, box.blue);
        }
        text_add(text, "],\"ink\":[");
        for (unsigned shade = 0; shade < SHADES; shade++) {
            const struct rgb ink = palette_ink(kind, shade);
            text_add(text, "%s\"#%02x%02x%02x\"", shade ? "," : "", ink.red, ink.green, ink.blue);
        }
        text_add(text, "]}");
    }
    text_add(text, "]");
}

static long long box_number(const struct sheet *sheet, ptrdiff_t span)
{
    return span == NO_SPAN ? -1 : (long long)sheet->box_of[span];
}

static void add_difference(const struct page_run *runs, const struct sheet *sheets, const struct difference *difference,
                           struct text *text)
{
    struct text sentence = { 0 };
    difference_write(difference, runs[0].timeline, runs[1].timeline, &sentence);
    text_add(text, ",\n\"difference\":");
    add_string(text, sentence.data ? sentence.data : "");
    text->failed |= sentence.failed;
    text_clear(&sentence);
    text_add(text, ",\n\"base\":%d,\"work\":", runs[1].measured && !runs[0].measured ? 0 : 1);
    timeline_is_same_work(runs[0].timeline, runs[1].timeline, &sentence);
    add_string(text, sentence.data ? sentence.data : "");
    text->failed |= sentence.failed;
    text_clear(&sentence);
    if (difference->what == DIFFERENCE_ACTION || difference->what == DIFFERENCE_TIME)
        text_add(text, ",\"first\":{\"rank\":%u,\"boxes\":[%lld,%lld]}", difference->rank,
                 box_number(&sheets[0], difference->spans[0]), box_number(&sheets[1], difference->spans[1]));
}

static bool add_data(const struct page_run *runs, size_t count, const struct difference *difference, struct text *text)
{
    struct sheet sheets[2] = { { 0 } };
    bool good = true;
    add_kinds(text);
    text_add(text, ",\n\"runs\":[");
    for (size_t i = 0; good && i < count; i++) {
        good = sheet_create(&sheets[i], runs[i].timeline);
        text_add(text, i ? ",\n" : "");
        if (good)
            add_run(&runs[i], &sheets[i], text);
    }
    text_add(text, "]");
    if (good && count == 2)
        add_difference(runs, sheets, difference, text);
    text_add(text, "}");
    for (size_t i = 0; i < count; i++)
        sheet_clear(&sheets[i]);
    return good;
}

// --- the page -----------------------------------------------------------------------------

struct page {
    const struct page_run *runs;
    size_t count;
    const struct difference *difference;
    const char *title;
    const struct curve_chart *curves;
};

static void draw_curves(const struct curve_chart *curves, struct text *text)
{
    if (curves)
        curves_draw(curves, text);
}

static bool add_part(const struct page *page, const char *name, size_t length, struct text *text)
{
    if (length == 5 && memcmp(name, "TITLE", 5) == 0)
        drawing_escape(page->title, text);
    else if (length == 5 && memcmp(name, "STYLE", 5) == 0)
        text_add(text, "%s", page_css);
    else if (length == 6 && memcmp(name, "SCRIPT", 6) == 0)
        text_add(text, "%s\n%s", panel_js, page_js);
    else if (length == 6 && memcmp(name, "CURVES", 6) == 0)
        draw_curves(page->curves, text);
    else
        return add_data(page->runs, page->count, page->difference, text);
    return true;
}

// Writes page.html with the parts in place of their names: @TITLE@, @STYLE@, @CURVES@, @DATA@, @SCRIPT@.
bool timeline_draw_html_with(const struct page_run *runs, size_t count, const struct difference *difference,
                             const char *title, const struct curve_chart *curves, struct text *text)
{
    const struct page page = { runs, count, difference, title, curves };
    const char *rest = page_html;
    bool good = true;
    for (const char *name, *end; (name = strchr(rest, '@')) && (end = strchr(name + 1, '@')); rest = end + 1) {
        text_add_bytes(text, rest, (size_t)(name - rest));
        good &= add_part(&page, name + 1, (size_t)(end - name - 1), text);
    }
    text_add(text, "%s", rest);
    return good && !text->failed;
}

bool timeline_draw_html(const struct page_run *runs, size_t count, const struct difference *difference,
                        const char *title, struct text *text)
{
    return timeline_draw_html_with(runs, count, difference, title, NULL, text);
}
