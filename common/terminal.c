#include "common/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/number.h"

enum { USUAL_COLUMNS = 80, MOST_COLUMNS = 10000 };

// A process has one terminal at most, of which alone it may ask this.
bool terminal_is_read(int file)
{
    return isatty(file) && tcgetpgrp(file) >= 0;
}

size_t terminal_columns(int file)
{
    if (!terminal_is_read(file))
        return 0;
    const char *said = getenv("COLUMNS");
    struct error error = { 0 };
    uint64_t columns;
    if (said && count_parse(said, "COLUMNS", 1, MOST_COLUMNS, &columns, &error))
        return columns;  // what is no number is as if it were not there, as it is for other programs
    struct winsize size;
    return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL_COLUMNS;
}

bool terminal_speaks_utf8(void)
{
    const locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!locale)
        return true;  // one that this machine does not have, as often where one has logged in from another
    const bool utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return utf8;
}
