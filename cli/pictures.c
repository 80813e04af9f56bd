#include "cli/pictures.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL_COLUMNS = 110, LEAST_COLUMNS = 20, MOST_COLUMNS = 10000 };

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
    switch (key) {
    case KEY_COLOR:
        options->color = find_color(argument, state);
        break;
    case KEY_ASCII:
        options->ascii = true;
        break;
    case KEY_WIDTH:
        options->width = option_count(argument, "--width", LEAST_COLUMNS, MOST_COLUMNS, state);
        break;
    case KEY_MESSAGES:
        options->messages = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
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

// What the terminal's user has chosen; the program itself stays in the C locale.
static bool speaks_utf8(void)
{
    const locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!locale)
        return true;
    const bool utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return utf8;
}

static uint64_t columns_of_terminal(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= LEAST_COLUMNS ? size.ws_col : USUAL_COLUMNS;
}

struct text_chart picture_chart(const struct picture_options *options, const char *output)
{
    const bool terminal = (!output || strcmp(output, "-") == 0) && isatty(STDOUT_FILENO);
    return (struct text_chart){
        .width = options->width ? options->width : terminal ? columns_of_terminal() : USUAL_COLUMNS,
        .ascii = options->ascii || (terminal && !speaks_utf8()),
        .colours = options->color == COLOR_ALWAYS
                || (options->color == COLOR_AUTO && terminal && !is_set("NO_COLOR") && !is_dumb()),
    };
}
