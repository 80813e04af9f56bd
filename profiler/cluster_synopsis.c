#include "profiler/cluster_synopsis.h"

#include <ctype.h>
#include <string.h>

#include "common/number.h"

enum { MOST_LENGTH = 500, NOUN_SIZE = 32, MOST_PARTS = CLUSTER_MOST_LEVELS + 3 };

static const char example[] = "\"2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us\"";

// A synopsis split into its parts. Groups and links are innermost first.
struct synopsis {
    char copy[MOST_LENGTH + 1];
    char *parts[MOST_PARTS]; // between the commas
    size_t part_count;
    uint64_t sizes[CLUSTER_MOST_LEVELS];
    char nouns[CLUSTER_MOST_LEVELS][NOUN_SIZE];
    size_t group_count;
    uint64_t memory_bytes;
    struct cluster_level links[CLUSTER_MOST_LEVELS];
    size_t link_count;
    bool has_host;
    uint64_t host_memory_bytes, host_bytes_per_second;
};

bool cluster_is_synopsis(const char *text)
{
    while (*text == ' ')
        text++;
    return strstr(text, " device") || (isdigit((unsigned char)*text) && strchr(text, ','));
}

static bool split_at_commas(struct synopsis *synopsis, const char *text, struct error *error)
{
    if (strlen(text) > MOST_LENGTH)
        return error_set(error, "is longer than %d characters", MOST_LENGTH);
    strcpy(synopsis->copy, text);
    for (char *rest = synopsis->copy; rest;) {
        if (synopsis->part_count == MOST_PARTS)
            return error_set(error, "has more than %d parts between commas", MOST_PARTS);
        synopsis->parts[synopsis->part_count++] = rest;
        rest = strchr(rest, ',');
        if (rest)
            *rest++ = '\0';
    }
    return true;
}

// --- "2 nodes x 8 devices" ------------------------------------------------------

static const char *skip_spaces(const char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    return text;
}

// The number before a group's noun.
static const char *read_count(const char *text, uint64_t *count, struct error *error)
{
    char digits[NUMBER_SIZE];
    size_t length = 0;
    while (isdigit((unsigned char)text[length]) && length + 1 < sizeof digits)
        length++;
    if (length == 0)
        return error_null(error_set(error, "a group begins with its number at \"%s\"; write it as %s", text, example));
    memcpy(digits, text, length);
    digits[length] = '\0';
    return count_parse(digits, "a group", 1, CLUSTER_MOST_DEVICES, count, error) ? skip_spaces(text + length) : NULL;
}

// Skips "x", "*" or a multiplication sign. NULL if there is none here.
static const char *skip_times(const char *text)
{
    if ((*text == 'x' || *text == 'X') && !isalpha((unsigned char)text[1]))
        return skip_spaces(text + 1);
    if (*text == '*')
        return skip_spaces(text + 1);
    return strncmp(text, "\u00d7", strlen("\u00d7")) == 0 ? skip_spaces(text + strlen("\u00d7")) : NULL;
}

// Reads "nodes" as "node", since devices are called "node0.device3".
static const char *read_noun(const char *text, char noun[NOUN_SIZE], struct error *error)
{
    size_t length = 0;
    while (isalpha((unsigned char)text[length]) && !skip_times(text))
        length++;
    if (length >= NOUN_SIZE)
        return error_null(error_set(error, "the word \"%s\" is longer than %d letters", text, NOUN_SIZE - 1));
    memcpy(noun, text, length);
    noun[length - (length > 1 && text[length - 1] == 's')] = '\0';
    return skip_spaces(text + length);
}

static void reverse_groups(struct synopsis *synopsis)
{
    for (size_t i = 0, j = synopsis->group_count; i + 1 < j--; i++) {
        char noun[NOUN_SIZE];
        memcpy(noun, synopsis->nouns[i], NOUN_SIZE);
        memcpy(synopsis->nouns[i], synopsis->nouns[j], NOUN_SIZE);
        memcpy(synopsis->nouns[j], noun, NOUN_SIZE);
        const uint64_t size = synopsis->sizes[i];
        synopsis->sizes[i] = synopsis->sizes[j];
        synopsis->sizes[j] = size;
    }
}

static bool read_groups(struct synopsis *synopsis, struct error *error)
{
    uint64_t devices = 1;
    const char *rest = skip_spaces(synopsis->parts[0]);
    for (;;) {
        if (synopsis->group_count == CLUSTER_MOST_LEVELS)
            return error_set(error, "has more than %d groups", CLUSTER_MOST_LEVELS);
        const size_t group = synopsis->group_count++;
        rest = read_count(rest, &synopsis->sizes[group], error);
        rest = rest ? read_noun(rest, synopsis->nouns[group], error) : NULL;
        if (!rest)
            return false;
        devices *= synopsis->sizes[group];
        if (devices > CLUSTER_MOST_DEVICES)
            return error_set(error, "has more than %d devices", CLUSTER_MOST_DEVICES);
        if (*rest == '\0')
            break;
        const char *next = skip_times(rest);
        if (!next)
            return error_set(error, "expected \" x \" between groups at \"%s\"; write it as %s", rest, example);
        rest = next;
    }
    reverse_groups(synopsis);
    for (size_t i = 0; i < synopsis->group_count; i++)
        if (synopsis->nouns[i][0] == '\0')
            strcpy(synopsis->nouns[i], i == 0 ? "device" : "group");
    return true;
}

// --- "80GiB", "300GB/s 3us", "host 512GiB 25GB/s" --------------------------------

enum { MOST_WORDS = 3, WORD_SIZE = 48 };

struct words {
    char word[MOST_WORDS][WORD_SIZE];
    size_t count;
};

// Removes spaces, and cuts before every digit that follows a unit. Both "300GB/s 3us" and "300 GB/s 3 us" become
// "300GB/s" and "3us".
static bool split_words(const char *part, struct words *words, struct error *error)
{
    *words = (struct words){ .count = 0 };
    size_t length = 0;
    char before = '\0';
    for (const char *letter = part; *letter; letter++) {
        if (*letter == ' ' || *letter == '\t')
            continue;
        if (before == '\0' || (isdigit((unsigned char)*letter) && isalpha((unsigned char)before))) {
            words->count++;
            length = 0;
        }
        if (words->count > MOST_WORDS || length + 1 == WORD_SIZE)
            return error_set(error, "\"%s\" is too long; write it as %s", part, example);
        words->word[words->count - 1][length++] = *letter;
        before = *letter;
    }
    return true;
}

static bool read_memory(struct synopsis *synopsis, struct error *error)
{
    struct words words;
    if (synopsis->part_count < 2)
        return error_set(error, "does not say a device's memory; write it as %s", example);
    if (!split_words(synopsis->parts[1], &words, error))
        return false;
    if (words.count != 1)
        return error_set(error, "\"%s\" is not a device's memory; write it as 80GiB", synopsis->parts[1]);
    if (!bytes_parse(words.word[0], &synopsis->memory_bytes, error))
        return false;
    return synopsis->memory_bytes > 0 || error_set(error, "a device has no memory");
}

// Reads a rate and a latency, in either order.
static bool read_link(const char *part, const struct words *words, struct cluster_level *link, struct error *error)
{
    const bool rate_first = strstr(words->word[0], "/s") != NULL;
    const char *rate = words->word[!rate_first], *latency = words->word[rate_first];
    if (words->count != 2 || !strstr(rate, "/s"))
        return error_set(error, "\"%s\" is not a link's rate and latency; write it as \"300GB/s 3us\"", part);
    if (!rate_parse(rate, &link->bytes_per_second, error) || !time_parse(latency, &link->latency_ns, error))
        return false;
    return link->bytes_per_second > 0 || error_set(error, "\"%s\": a link needs a rate above 0", part);
}

static bool read_host(struct synopsis *synopsis, const char *part, const struct words *words, struct error *error)
{
    if (words->count != 3)
        return error_set(error, "\"%s\" is not a host's memory and rate; write it as \"host 512GiB 25GB/s\"", part);
    synopsis->has_host = true;
    if (!bytes_parse(words->word[1], &synopsis->host_memory_bytes, error)
        || !rate_parse(words->word[2], &synopsis->host_bytes_per_second, error))
        return false;
    return (synopsis->host_memory_bytes > 0 && synopsis->host_bytes_per_second > 0)
           || error_set(error, "\"%s\": a host needs memory and a rate above 0", part);
}

static bool read_links(struct synopsis *synopsis, struct error *error)
{
    for (size_t i = 2; i < synopsis->part_count; i++) {
        struct words words;
        const char *part = skip_spaces(synopsis->parts[i]);
        if (!split_words(part, &words, error))
            return false;
        if (synopsis->has_host)
            return error_set(error, "\"%s\" stands behind the host, which comes last", part);
        if (strcmp(words.word[0], "host") == 0) {
            if (!read_host(synopsis, part, &words, error))
                return false;
            continue;
        }
        if (synopsis->link_count == synopsis->group_count)
            return error_set(error, "\"%s\" is a link too many: there is one per group", part);
        if (!read_link(part, &words, &synopsis->links[synopsis->link_count++], error))
            return false;
    }
    return true;
}

// A single device has no other device to communicate with, so it needs no link.
static bool check_links(const struct synopsis *synopsis, struct error *error)
{
    const bool alone = synopsis->group_count == 1 && synopsis->sizes[0] == 1;
    if (synopsis->link_count == synopsis->group_count || (alone && synopsis->link_count == 0))
        return true;
    return error_set(error, "does not say how fast the links between %ss are; write it as %s",
                     synopsis->nouns[synopsis->link_count], example);
}

// --- together -----------------------------------------------------------------

static struct cluster *build(const struct synopsis *synopsis, struct error *error)
{
    uint64_t count = 1;
    const char *nouns[CLUSTER_MOST_LEVELS];
    for (size_t i = 0; i < synopsis->group_count; i++) {
        count *= synopsis->sizes[i];
        nouns[i] = synopsis->nouns[i];
    }
    struct cluster *cluster = cluster_create(count, synopsis->link_count);
    if (!cluster)
        return error_null(error_no_memory(error, "a cluster"));
    for (size_t i = 0; i < count; i++)
        cluster->devices[i] = (struct cluster_device){ NULL, synopsis->memory_bytes, 1000 };
    for (size_t i = 0; i < synopsis->link_count; i++) {
        cluster->levels[i] = synopsis->links[i];
        cluster->levels[i].size = synopsis->sizes[i];
    }
    cluster->has_host = synopsis->has_host;
    cluster->host_memory_bytes = synopsis->host_memory_bytes;
    cluster->host_bytes_per_second = synopsis->host_bytes_per_second;
    if (cluster_name_devices(cluster, nouns, error))
        return cluster;
    cluster_free(cluster);
    return NULL;
}

struct cluster *cluster_from_synopsis(const char *text, struct error *error)
{
    struct synopsis synopsis = { .part_count = 0 };
    struct cluster *cluster = NULL;
    if (split_at_commas(&synopsis, text, error) && read_groups(&synopsis, error) && read_memory(&synopsis, error)
        && read_links(&synopsis, error) && check_links(&synopsis, error))
        cluster = build(&synopsis, error);
    if (!cluster)
        error_name(error, "cluster \"%.100s\"", text);
    return cluster;
}
