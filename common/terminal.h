// Properties of the user's terminal.
#ifndef COMMON_TERMINAL_H
#define COMMON_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

// Whether this open file is the terminal of the user who started the program. The pseudo-terminal of a launcher,
// such as the one that mpirun has for each process, does not count: its output goes wherever the launcher's output
// goes.
bool terminal_is_read(int file);

// The number of columns of that terminal: from COLUMNS, or from the terminal itself, or 80 if neither is known. 0:
// the file is not such a terminal.
size_t terminal_columns(int file);

// Whether the user's locale has all characters, or only ASCII. The program itself stays in the C locale, so that
// numbers and sentences are the same everywhere.
bool terminal_speaks_utf8(void);

#endif
