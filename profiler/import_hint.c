// Says which command reads a file that was given as one of Weir's own.
#include <ctype.h>
#include <string.h>

#include "profiler/import.h"

static bool has(const char *text, size_t length, const char *wanted)
{
    return length > 0 && memmem(text, length, wanted, strlen(wanted)) != NULL;
}

// "node1 -- Input0 -- forward_compute_time=0.000, ..."
static bool is_pipedream(const char *text, size_t length)
{
    static const char word[] = "node";
    size_t i = 0;
    while (i < length && isspace((unsigned char)text[i]))
        i++;
    if (length - i < sizeof word || memcmp(text + i, word, sizeof word - 1) != 0)
        return false;
    for (i += sizeof word - 1; i < length && isdigit((unsigned char)text[i]); i++)
        continue;
    return length - i >= 4 && memcmp(text + i, " -- ", 4) == 0;
}

bool import_hint(const char *text, size_t length, const char *name, struct error *error)
{
    const char *whose = NULL, *command = NULL;
    if (is_pipedream(text, length)) {
        whose = "a graph of PipeDream's";
        command = "weir import pipedream";
    } else if (has(text, length, "\"TMPCs\"")) {
        whose = "an input of Piper's";
        command = "weir import piper";
    } else if (has(text, length, "\"fpgaLatency\"")) {
        whose = "an input of dnn-partitioning's";
        command = "weir import dnn-partitioning";
    } else if (has(text, length, "\"model_type\"")) {
        whose = "a model's configuration";
        command = "weir estimate";
    }
    if (!command || error->kind == ERROR_MACHINE)
        return false;
    *error = (struct error){ .kind = ERROR_NONE };
    return !error_named(error, "%s: is %s: %s makes a profile of it", name, whose, command);
}
