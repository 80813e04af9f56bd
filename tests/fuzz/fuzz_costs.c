// Any bytes as a document of costs, and as quantities on the command line.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "schedules/costs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void ask(bool good, struct costs *costs, const struct error *error)
{
    char buffer[NUMBER_SIZE];
    struct error spread = { 0 };
    require(good ? costs->count > 0 && costs->rows != NULL : error->text[0] != '\0');
    if (good && costs_spread(costs, 5, &spread))
        require(costs_format(costs->unit_ns, costs->rows[4].forward_ns, buffer)[0] != '\0');
    costs_clear(costs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct costs costs;
    const bool is_document = costs_read((const char *)data, size, "fuzz", &costs, &error);
    ask(is_document, &costs, &error);
    char *text = calloc(size + 1, 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    char *semicolon = strchr(text, ';');
    if (semicolon)
        *semicolon++ = '\0';
    error = (struct error){ 0 };
    const bool is_parsed = costs_parse(text, semicolon, &costs, &error);
    ask(is_parsed, &costs, &error);
    free(text);
    return 0;
}
