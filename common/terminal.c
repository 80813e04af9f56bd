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

// A process has at most one controlling terminal, and this call succeeds only for that one.
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
        return columns;  // a value that is not a number is ignored, as in other programs
    struct winsize size;
    return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL_COLUMNS;
}

bool terminal_speaks_utf8(void)
{
    const locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!locale)
        return true;  // this machine does not have that locale, which is common after logging in from another machine
    const bool utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return utf8;
}
