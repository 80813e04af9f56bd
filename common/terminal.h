// What the terminal is like that somebody sits at.
#ifndef COMMON_TERMINAL_H
#define COMMON_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

// Whether this open file is the terminal of who has started the program. A launcher's own pseudo-terminal, as mpirun has
// one for each process, is none: what is written there goes wherever the launcher's output goes.
bool terminal_is_read(int file);

// How many columns that terminal has: what COLUMNS says, or the terminal itself, or 80 where neither does. 0: the file
// is no such terminal.
size_t terminal_columns(int file);

// Whether the user's locale has all characters, or no more than ASCII. The program itself stays in the C locale, so
// that numbers and sentences are the same everywhere.
bool terminal_speaks_utf8(void);

#endif
