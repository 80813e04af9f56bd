// A self-contained SVG: a lane per rank, a box per action, a thin line per
// message, the time axis below, the legend above.
#include <string.h>

#include "common/number.h"
#include "schedules/drawing.h"

// In pixels.
enum {
    LEFT = 74,
    RIGHT = 24,
    TOP = 74,
    PLOT = 1240,
    LANE = 30,
    GAP = 8,
    AXIS = 40,
    LETTER = 7,           // about the width of one
    MOST_LINES = 4000,    // of messages; more would be a grey cloud
};

// Boxes in a colour per kind, and a text colour that can be read on it.
static const struct paint {
    unsigned kind;
    const char *box, *ink;
} paints[] = {
    { ACTION_F, "#3f7fbf", "#ffffff" },      { ACTION_B, "#2f9c6b", "#ffffff" }, { ACTION_I, "#1c8a96", "#ffffff" },
    { ACTION_W, "#a4c95a", "#20301a" },      { ACTION_R, "#e8a33d", "#3a2600" }, { ACTION_REDUCE, "#8d6cc0", "#ffffff" },
    { ACTION_STEP, "#c8505c", "#ffffff" },
};
enum { PAINTS = sizeof paints / sizeof paints[0] };

struct page {
    const struct timeline *timeline;
    struct extent extent;
    bool has_chunks;
    double height;
};

static double x_of(const struct page *page, uint64_t time_ns)
{
    const double length = (double)(page->extent.last_ns - page->extent.first_ns);
    return length > 0 ? LEFT + PLOT * (double)(time_ns - page->extent.first_ns) / length : LEFT;
}

static double y_of(uint32_t rank)
{
    return TOP + (double)rank * (LANE + GAP);
}

static void add_escaped(struct text *text, const char *plain)
{
    for (const char *at = plain; *at; at++) {
        if (*at == '&')
            text_add(text, "&amp;");
        else if (*at == '<')
            text_add(text, "&lt;");
        else if (*at == '>')
            text_add(text, "&gt;");
        else
            text_add_bytes(text, (unsigned char)*at < ' ' ? " " : at, 1);
    }
}

static void draw_head(const struct page *page, const char *title, struct text *text)
{
    const unsigned width = LEFT + PLOT + RIGHT;
    text_add(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %.0f\" width=\"%u\" height=\"%.0f\" "
                   "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"11\">\n", width, page->height,
             width, page->height);
    text_add(text, "<style>\n.label{fill:#333;font-size:12px}.mark{fill:#666}.lane{fill:#f0f1f3}"
                   ".grid{stroke:#d5d8dc;stroke-width:1}.message{stroke:#555;stroke-width:.7;opacity:.45}\n"
                   "rect{stroke:#fff;stroke-width:.6}rect.lane{stroke:none}text.in{text-anchor:middle;pointer-events:none}\n");
    for (size_t i = 0; i < PAINTS; i++) {
        char name[ACTION_SIZE];
        drawing_letter(paints[i].kind, name);
        text_add(text, ".%s{fill:%s}.on%s{fill:%s}\n", name, paints[i].box, name, paints[i].ink);
    }
    text_add(text, ".odd{fill-opacity:.55}.ink{fill:#1b2430}</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"26\" "
                   "font-size=\"16\" fill=\"#111\">", LEFT);
    add_escaped(text, title);
    char time[NUMBER_SIZE];
    text_add(text, "; %s, makespan bubble %.1f %%</text>\n", time_format(page->extent.last_ns - page->extent.first_ns, time),
             100 * drawing_bubble(page->timeline));
}

static void draw_legend(const struct page *page, struct text *text)
{
    const unsigned kinds = drawing_kinds(page->timeline);
    unsigned x = LEFT;
    for (size_t i = 0; i < PAINTS; i++) {
        char name[ACTION_SIZE];
        if (!(kinds >> paints[i].kind & 1))
            continue;
        drawing_letter(paints[i].kind, name);
        const char *meaning = drawing_kind(paints[i].kind);
        text_add(text, "<rect class=\"%s\" x=\"%u\" y=\"42\" width=\"14\" height=\"14\"/><text class=\"label\" x=\"%u\" "
                       "y=\"53\">%s: %s</text>\n", name, x, x + 20, name, meaning);
        x += 56 + LETTER * (unsigned)(strlen(name) + strlen(meaning));
    }
    if (page->has_chunks)
        text_add(text, "<text class=\"label\" x=\"%u\" y=\"53\">lighter: every other chunk of a rank</text>\n", x);
}

static void draw_axis(const struct page *page, struct text *text)
{
    const uint64_t length = page->extent.last_ns - page->extent.first_ns;
    const uint64_t mark = drawing_mark_ns(page->extent, 12);
    const double bottom = page->height - AXIS;
    for (uint64_t time = 0; time <= length; time += mark) {
        char label[40];
        const double x = x_of(page, page->extent.first_ns + time);
        text_add(text, "<line class=\"grid\" x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%.0f\"/><text class=\"mark\" "
                       "text-anchor=\"middle\" x=\"%.2f\" y=\"%.0f\">%s</text>\n", x, TOP - 6, x, bottom + 4, x,
                 bottom + 20, drawing_mark(time, mark, label, sizeof label));
    }
}

static void draw_lanes(const struct page *page, struct text *text)
{
    for (uint32_t rank = 0; rank < page->timeline->ranks; rank++) {
        text_add(text, "<rect class=\"lane\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\"/><text class=\"label\" "
                       "text-anchor=\"end\" x=\"%d\" y=\"%.0f\">rank %u</text>\n", LEFT, y_of(rank), PLOT, LANE,
                 LEFT - 10, y_of(rank) + LANE / 2 + 4, rank);
    }
}

static bool has_room(double width, const char *label)
{
    return width >= (double)(LETTER * strlen(label) + 2);
}

static void draw_span(const struct page *page, const struct span *span, struct text *text)
{
    char kind[ACTION_SIZE], whole[ACTION_SIZE], label[ACTION_SIZE];
    char start[NUMBER_SIZE], end[NUMBER_SIZE], length[NUMBER_SIZE];
    const double x = x_of(page, span->start_ns), width = x_of(page, span->end_ns) - x, y = y_of(span->rank);
    if (span->end_ns == span->start_ns)
        return;
    drawing_letter(span->action.kind, kind);
    const bool odd = page->has_chunks && span->action.stage / page->timeline->ranks % 2;
    text_add(text, "<g><title>%s: %s, from %s to %s</title><rect class=\"%s%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" "
                   "height=\"%d\"/>", action_format(span->action, whole), time_format(span->end_ns - span->start_ns, length),
             time_format(span->start_ns - page->extent.first_ns, start),
             time_format(span->end_ns - page->extent.first_ns, end), kind, odd ? " odd" : "", x, y, width, LANE);
    if (span->recompute_ns > 0 && span->action.kind != ACTION_R)
        text_add(text, "<rect class=\"R\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>", x, y + LANE - 6,
                 x_of(page, span->start_ns + span->recompute_ns) - x, 6);
    drawing_label(span->action, label);
    if (has_room(width, label))
        text_add(text, "<text class=\"in %s%s\" x=\"%.2f\" y=\"%.0f\">%s</text>", odd ? "ink" : "on",
                 odd ? "" : kind, x + width / 2, y + LANE / 2 + 4, label);
    text_add(text, "</g>\n");
}

static void draw_messages(const struct page *page, struct text *text)
{
    const struct timeline *timeline = page->timeline;
    for (size_t i = 0; i < timeline->message_count && timeline->message_count <= MOST_LINES; i++) {
        const struct message *message = &timeline->messages[i];
        const bool down = message->to > message->from;
        text_add(text, "<line class=\"message\" x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\"/>\n",
                 x_of(page, message->start_ns), y_of(message->from) + (down ? LANE : 0), x_of(page, message->end_ns),
                 y_of(message->to) + (down ? 0 : LANE));
    }
}

void timeline_draw_svg(const struct timeline *timeline, const char *title, struct text *text)
{
    const struct page page = { timeline, drawing_extent(timeline), drawing_has_chunks(timeline),
                               y_of(timeline->ranks) + AXIS };
    draw_head(&page, title, text);
    draw_legend(&page, text);
    draw_lanes(&page, text);
    draw_axis(&page, text);
    for (size_t i = 0; i < timeline->span_count; i++)
        draw_span(&page, &timeline->spans[i], text);
    draw_messages(&page, text);
    text_add(text, "</svg>\n");
}
