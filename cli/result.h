// A result in both its forms: a document, and a table for people. Commands with OPTION_RESULT show one of them.
#ifndef CLI_RESULT_H
#define CLI_RESULT_H

#include "cli/options.h"
#include "common/text.h"

struct result {
    struct text document, table;
};

// Prints the table, or with --json the document, on standard output or into the file of -o. Frees both. Returns `code`,
// or the exit code of a failure to write.
int result_print(struct result *result, const struct shared_options *shared, int code);

// The same for a document that is made to be kept: the file of -o gets it, and standard output the table. With --json
// or "-" as the file, standard output gets the document.
int result_keep(struct result *result, const struct shared_options *shared, int code);

#endif
