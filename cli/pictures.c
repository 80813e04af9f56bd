#include "cli/pictures.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/terminal.h"

enum { USUAL_COLUMNS = 110, LEAST_COLUMNS = 20 };

static enum color find_color(const char *name, struct argp_state *state)
{
    static const char *const names[] = { "auto", "always", "never" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0)
            return (enum color)i;
    }
    argp_error(state, "--color: \"%s\" is none of auto, always, never", name);
    return COLOR_AUTO;
}

error_t picture_option(int key, char *argument, struct picture_options *options, struct argp_state *state)
{
    static const struct argp_option named[] = { CHART_OPTIONS(""), SVG_OPTIONS, { 0 } };
    static const struct option_field fields[] = {
        { KEY_ASCII, OPTION_FIELD(struct picture_options, ascii) },
        { KEY_WIDTH, OPTION_FIELD(struct picture_options, width), .least = LEAST_COLUMNS, .most = SVG_MOST_WIDTH },
        { KEY_MESSAGES, OPTION_FIELD(struct picture_options, messages) },
        { KEY_TITLE, OPTION_FIELD(struct picture_options, title) },
        { KEY_FONT, OPTION_FIELD(struct picture_options, font) },
        { 0 },
    };
    if (key != KEY_COLOR)
        return option_take(named, fields, key, argument, options, state);
    options->color = find_color(argument, state);
    return 0;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static bool is_dumb(void)
{
    const char *terminal = getenv("TERM");
    return terminal && strcmp(terminal, "dumb") == 0;
}

// The usual number if there is no terminal, or one too narrow for a chart.
static uint64_t columns_of_output(void)
{
    const size_t columns = terminal_columns(STDOUT_FILENO);
    return columns >= LEAST_COLUMNS ? columns : USUAL_COLUMNS;
}

struct text_chart picture_chart(const struct picture_options *options, const char *output)
{
    const bool standard = !output || strcmp(output, "-") == 0, terminal = standard && terminal_is_read(STDOUT_FILENO);
    return (struct text_chart){
        .width = options->width ? options->width : standard ? columns_of_output() : USUAL_COLUMNS,
        .ascii = options->ascii || (standard && !terminal_speaks_utf8()),
        .colours = options->color == COLOR_ALWAYS
                || (options->color == COLOR_AUTO && terminal && !is_set("NO_COLOR") && !is_dumb()),
    };
}

struct svg_chart picture_svg(const struct picture_options *options, const char *title, const uint64_t *peak_bytes)
{
    return (struct svg_chart){ .title = options->title ? options->title : title, .messages = options->messages,
                               .peak_bytes = peak_bytes, .font = options->font, .width = (uint32_t)options->width };
}
