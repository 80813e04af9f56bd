#include "cli/result.h"

#include <string.h>

#include "cli/command.h"

static int print(struct result *result, bool is_document, const char *path, int code)
{
    struct text *wanted = is_document ? &result->document : &result->table;
    const int written = (is_document ? command_write : command_print)(wanted, path, code);
    text_clear(&result->document);
    text_clear(&result->table);
    return written;
}

int result_print(struct result *result, const struct shared_options *shared, int code)
{
    return print(result, shared->json, shared->output, code);
}

int result_keep(struct result *result, const struct shared_options *shared, int code)
{
    const bool is_standard = shared->output && strcmp(shared->output, "-") == 0;
    struct error error = { 0 };
    if (!shared->output || is_standard || text_save(&result->document, shared->output, &error))
        return print(result, shared->json || is_standard, NULL, code);
    text_clear(&result->document);
    text_clear(&result->table);
    return command_fail(&error);
}
