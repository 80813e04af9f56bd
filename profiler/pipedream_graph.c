#include "profiler/pipedream_graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "common/utf8.h"
#include "profiler/profile.h"

static const char separator[] = " -- ";
enum { SEPARATOR = sizeof separator - 1 };

void pipedream_graph_clear(struct pipedream_graph *graph)
{
    free(graph->text);
    free(graph->nodes);
    free(graph->links);
    *graph = (struct pipedream_graph){ .text = NULL };
}

bool pipedream_graph_at(const struct pipedream_graph *graph, size_t line, struct error *error)
{
    return error_at(error, "%s:%zu", graph->name, line);
}

// --- bytes and lines -----------------------------------------------------------

// The file must be text.
static bool check_text(const struct pipedream_graph *graph, const char *text, size_t length, struct error *error)
{
    size_t line = 1;
    for (size_t i = 0; i < length;) {
        const unsigned char byte = (unsigned char)text[i];
        const size_t size = utf8_length(text + i, length - i);
        const bool control = byte < ' ' && byte != '\n' && byte != '\t' && byte != '\r';
        if (size == 0 || control || byte == 0x7f) {
            error_set(error, "byte 0x%02x is not text; a PipeDream graph is a text file", byte);
            return pipedream_graph_at(graph, line, error);
        }
        line += byte == '\n';
        i += size;
    }
    if (length > 0)
        return true;
    error_set(error, "the file is empty; a PipeDream graph has a line per node");
    return pipedream_graph_at(graph, 1, error);
}

static bool make_room(struct pipedream_graph *graph, const char *text, size_t length)
{
    size_t lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    graph->text = malloc(length + 1);
    graph->nodes = calloc(lines, sizeof graph->nodes[0]);
    graph->links = calloc(lines, sizeof graph->links[0]);
    if (!graph->text || !graph->nodes || !graph->links)
        return false;
    memcpy(graph->text, text, length);
    graph->text[length] = '\0';
    return true;
}

// Ends the text before the first `mark`, and returns what is after it. NULL if there is none.
static char *cut(char *text, const char *mark)
{
    char *found = strstr(text, mark);
    if (!found)
        return NULL;
    *found = '\0';
    return found + strlen(mark);
}

// --- numbers --------------------------------------------------------------------

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Digits, perhaps with a point and more digits. Returns the part before the point, and the first nine decimals as
// billionths. PipeDream's own profiler writes all numbers with a point; DAPPLE's writes integers without one.
static bool split_decimal(const char *text, uint64_t *whole, uint64_t *billionths)
{
    size_t digits = 0, decimals = 0;
    *whole = *billionths = 0;
    for (; is_digit(*text); text++, digits++)
        *whole = *whole > JSON_MAX ? *whole : *whole * 10 + (uint64_t)(*text - '0');
    if (digits == 0 || *text == '\0')
        return digits > 0;
    if (*text++ != '.')
        return false;
    for (; is_digit(*text); text++, decimals++)
        if (decimals < 9)
            *billionths = *billionths * 10 + (uint64_t)(*text - '0');
    for (size_t d = decimals; d < 9; d++)
        *billionths *= 10;
    return *text == '\0' && decimals > 0;
}

// Reads a time, rounded to the nearest ns.
static bool read_time(const char *text, uint64_t *ns, struct error *error)
{
    uint64_t ms, billionths;
    if (*text == '-')
        return error_set(error, "\"%.40s\" is negative; a layer takes 0 ms or more", text);
    if (!split_decimal(text, &ms, &billionths))
        return error_set(error, "\"%.40s\" is not a time in ms such as 10.814", text);
    if (ms >= JSON_MAX / 1000000)
        return error_set(error, "\"%.40s\" ms is more than a profile can hold", text);
    *ns = ms * 1000000 + (billionths + 500) / 1000;
    return true;
}

static bool read_size(const char *text, uint64_t *bytes, struct error *error)
{
    uint64_t whole, fraction;
    if (*text == '-')
        return error_set(error, "\"%.40s\" is negative; a tensor has 0 bytes or more", text);
    if (!split_decimal(text, &whole, &fraction) || fraction != 0)
        return error_set(error, "\"%.40s\" is not a whole size in bytes such as 64", text);
    if (whole > JSON_MAX)
        return error_set(error, "\"%.40s\" bytes is more than a profile can hold", text);
    *bytes = whole;
    return true;
}

// Reads one size, or "[a; b; c]", the sum of several.
static bool read_sizes(char *text, uint64_t *bytes, struct error *error)
{
    const size_t length = strlen(text);
    if (*text != '[')
        return read_size(text, bytes, error);
    if (text[length - 1] != ']')
        return error_set(error, "\"%.40s\" is a list without its end; write it as [64.0; 32.0]", text);
    text[length - 1] = '\0';
    *bytes = 0;
    for (char *item = text + 1; item;) {
        char *next = cut(item, "; ");
        uint64_t size;
        if (!read_size(item, &size, error))
            return false;
        *bytes = add_clamped(*bytes, size);
        item = next;
    }
    return *bytes <= JSON_MAX || error_set(error, "the list's sizes add up to more than a profile can hold");
}

// --- node lines -----------------------------------------------------------------

enum field { FORWARD, BACKWARD, ACTIVATION, PARAMETERS, FIELDS };

static const char *const field_names[FIELDS] = { "forward_compute_time", "backward_compute_time", "activation_size",
                                                 "parameter_size" };

static bool read_value(struct pipedream_node *node, enum field field, char *value, struct error *error)
{
    switch (field) {
    case FORWARD:
        return read_time(value, &node->forward_ns, error);
    case BACKWARD:
        return read_time(value, &node->backward_ns, error);
    case ACTIVATION:
        return read_sizes(value, &node->output_bytes, error);
    default:
        return read_size(value, &node->parameter_bytes, error);
    }
}

// Reads "name=value". `seen` has a bit for each known field.
static bool read_field(struct pipedream_graph *graph, struct pipedream_node *node, char *text, unsigned *seen,
                       struct error *error)
{
    char *value = cut(text, "=");
    if (!value)
        return error_set(error, "%.60s: \"%.60s\" is not a field such as parameter_size=80.000", node->id, text);
    unsigned field = 0;
    while (field < FIELDS && strcmp(text, field_names[field]) != 0)
        field++;
    if (field == FIELDS) {
        graph->unknown++;
        return true;
    }
    if (*seen & 1u << field)
        return error_set(error, "%.60s: %s stands twice", node->id, text);
    *seen |= 1u << field;
    return read_value(node, (enum field)field, value, error) || error_at(error, "%.60s: %s", node->id, text);
}

static bool read_fields(struct pipedream_graph *graph, struct pipedream_node *node, char *text, struct error *error)
{
    unsigned seen = 0;
    while (text) {
        char *next = cut(text, ", ");
        if (!read_field(graph, node, text, &seen, error))
            return false;
        text = next;
    }
    for (unsigned field = 0; field < FIELDS; field++)
        if (!(seen & 1u << field))
            return error_set(error, "%.60s: %s is missing", node->id, field_names[field]);
    return true;
}

// Reads what may follow the fields. PipeDream's optimizer adds stage_id=3, which is its plan, and not a cost of the
// layer.
static bool read_rest(struct pipedream_graph *graph, const struct pipedream_node *node, char *rest, struct error *error)
{
    while (rest) {
        char *next = cut(rest, separator);
        char *value = cut(rest, "=");
        if (!value)
            return error_set(error, "%.60s: \"%.60s\" is not a field such as stage_id=0", node->id, rest);
        if (strcmp(rest, "stage_id") == 0) {
            if (*value == '\0' || value[strspn(value, "0123456789")] != '\0')
                return error_set(error, "%.60s: stage_id: \"%.40s\" is not a stage's number", node->id, value);
            graph->stage_ids++;
        } else {
            graph->unknown++;
        }
        rest = next;
    }
    return true;
}

// The number of the digits at the end of an id: node12 is 12, and comes after node9.
static uint64_t number_of(const char *id)
{
    const char *digits = id + strlen(id);
    while (digits > id && is_digit(digits[-1]))
        digits--;
    uint64_t number = 0;
    for (; *digits; digits++)
        number = add_clamped(multiply_clamped(number, 10), (uint64_t)(*digits - '0'));
    return number;
}

static bool check_id(const char *id, struct error *error)
{
    if (*id == '\0' || id[strcspn(id, " \t")] != '\0')
        return error_set(error, "\"%.60s\" is not the name of a node such as node12", id);
    return true;
}

static bool read_node(struct pipedream_graph *graph, char *line, size_t number, struct error *error)
{
    if (graph->node_count == PROFILE_MOST_LAYERS)
        return error_set(error, "there are more than %d nodes", PROFILE_MOST_LAYERS);
    char *description = cut(line, separator);
    char *fields = description ? cut(description, separator) : NULL;
    if (!fields && description && strncmp(description, "node", 4) == 0)
        return error_set(error, "an edge begins with a tab or a space, and \"%.40s%s%.40s\" does not", line, separator,
                         description);
    if (!fields)
        return error_set(error, "expected \"name -- description -- forward_compute_time=..., ...\", not \"%.60s\"",
                         line);
    char *rest = cut(fields, separator);

    struct pipedream_node *node = &graph->nodes[graph->node_count++];
    *node = (struct pipedream_node){ .id = line, .number = number_of(line), .kind = description, .line = number };
    node->is_input = strncmp(description, "Input", 5) == 0;
    if (!check_id(line, error) || !read_fields(graph, node, fields, error) || !read_rest(graph, node, rest, error))
        return false;
    cut(description, "(");
    return true;
}

// --- edge lines -----------------------------------------------------------------

static bool read_link(struct pipedream_graph *graph, char *line, size_t number, struct error *error)
{
    char *to = cut(line, separator);
    if (!to)
        return error_set(error, "an edge is \"node1 -- node2\", not \"%.60s\"", line);
    if (strstr(to, separator))
        return error_set(error, "a line with a space in front is an edge, but this one describes node \"%.60s\"", line);
    if (!check_id(line, error) || !check_id(to, error))
        return false;
    graph->links[graph->link_count++] = (struct pipedream_link){ { .place = number }, line, to };
    return true;
}

// Removes what follows a line's last word, and returns how much space is before its first word. PipeDream puts a tab
// before edges; DAPPLE uses spaces as well.
static size_t strip(char *line)
{
    size_t length = strlen(line);
    while (length > 0 && strchr(" \t\r", line[length - 1]))
        line[--length] = '\0';
    return strspn(line, " \t");
}

// A last line without its end may have lost more than its end, such as the rest of a number.
static bool is_whole(const char *line, struct error *error)
{
    const size_t length = strlen(line);
    const char *digits = line + length;
    while (digits > line && is_digit(digits[-1]))
        digits--;
    return length == 0 || !is_digit(line[length - 1]) || (digits > line && digits[-1] == '.')
        || strstr(line, "-- stage_id=")
        || error_set(error, "the last line ends in \"%.40s\", without a line end; is the file cut short?", digits);
}

static bool read_lines(struct pipedream_graph *graph, struct error *error)
{
    size_t number = 1;
    for (char *line = graph->text; line; number++) {
        char *next = cut(line, "\n");
        const size_t space = strip(line);
        bool good = true;
        if (space > 0 && line[space])
            good = read_link(graph, line + space, number, error);
        else if (*line)
            good = (next || is_whole(line, error)) && read_node(graph, line, number, error);
        if (!good)
            return pipedream_graph_at(graph, number, error);
        line = next;
    }
    if (graph->node_count > 0)
        return true;
    error_set(error, "no line describes a node; a PipeDream graph has a line per node");
    return pipedream_graph_at(graph, 1, error);
}

// Edges come last, as PipeDream writes them, so a truncated file has none.
static bool check_whole(const struct pipedream_graph *graph, struct error *error)
{
    if (graph->node_count == 1 || graph->link_count > 0)
        return true;
    error_set(error, "%zu nodes and no edge between them; is the file cut short?", graph->node_count);
    return pipedream_graph_at(graph, 1, error);
}

// --- names to places ------------------------------------------------------------

static int compare_nodes(const void *a, const void *b)
{
    const struct pipedream_node *left = a, *right = b;
    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    const int order = strcmp(left->id, right->id);
    return order ? order : (left->line > right->line) - (left->line < right->line);
}

static int compare_ids(const void *a, const void *b)
{
    const struct pipedream_node *left = a, *right = b;
    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    return strcmp(left->id, right->id);
}

static bool sort_nodes(struct pipedream_graph *graph, struct error *error)
{
    qsort(graph->nodes, graph->node_count, sizeof graph->nodes[0], compare_nodes);
    for (size_t i = 1; i < graph->node_count; i++) {
        const struct pipedream_node *first = &graph->nodes[i - 1], *second = &graph->nodes[i];
        if (compare_ids(first, second) == 0) {
            error_set(error, "%.60s stands in line %zu already", second->id, first->line);
            return pipedream_graph_at(graph, second->line, error);
        }
    }
    return true;
}

static bool find_node(const struct pipedream_graph *graph, const char *id, uint32_t *place)
{
    const struct pipedream_node key = { .id = id, .number = number_of(id) };
    const struct pipedream_node *found =
        bsearch(&key, graph->nodes, graph->node_count, sizeof graph->nodes[0], compare_ids);
    if (found)
        *place = (uint32_t)(found - graph->nodes);
    return found != NULL;
}

static bool find_ends(struct pipedream_graph *graph, struct error *error)
{
    for (size_t i = 0; i < graph->link_count; i++) {
        struct pipedream_link *link = &graph->links[i];
        const char *missing = !find_node(graph, link->from_id, &link->link.from) ? link->from_id
                              : !find_node(graph, link->to_id, &link->link.to)   ? link->to_id
                                                                                 : NULL;
        if (missing) {
            error_set(error, "no line describes %.60s", missing);
            return pipedream_graph_at(graph, link->link.place, error);
        }
    }
    return true;
}

static bool sort_links(struct pipedream_graph *graph, struct error *error)
{
    qsort(graph->links, graph->link_count, sizeof graph->links[0], import_compare_links);
    for (size_t i = 1; i < graph->link_count; i++) {
        const struct pipedream_link *first = &graph->links[i - 1], *second = &graph->links[i];
        if (first->link.from == second->link.from && first->link.to == second->link.to) {
            error_set(error, "the edge from %.60s to %.60s stands in line %zu already", second->from_id, second->to_id,
                      first->link.place);
            return pipedream_graph_at(graph, second->link.place, error);
        }
    }
    return true;
}

bool pipedream_graph_read(struct pipedream_graph *graph, const char *text, size_t length, const char *name,
                          struct error *error)
{
    *graph = (struct pipedream_graph){ .name = name };
    // The byte order mark that some editors put before UTF-8
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        length -= 3;
    }
    if (!check_text(graph, text, length, error))
        return false;
    if (!make_room(graph, text, length))
        return error_no_memory(error, "a PipeDream graph");
    return read_lines(graph, error) && sort_nodes(graph, error) && find_ends(graph, error) && sort_links(graph, error)
        && check_whole(graph, error);
}
