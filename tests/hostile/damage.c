#include "tests/hostile/damage.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "tests/test.h"

// --- what does harm ---------------------------------------------------------------------

// As they would stand in a document.
static const char *const hostile_values[] = {
    "0", "-1", "1", "-0", "-0.0", "0.5", "1e-300", "9007199254740991", "9007199254740992", "9007199254740993",
    "18446744073709551615", "18446744073709551616", "4294967295", "4294967296", "2147483648", "65535", "65536", "1e308",
    "1e309", "-1e308", "1e15", "NaN", "Infinity", "null", "true", "false", "\"\"", "\"NaN\"", "\"0\"", "[]", "{}",
    "[[]]", "[null]", "{\"\": 0}", "\"nothing\"", "\"../..\"", "\"%s%n\"", "\"a\\u001b[31mb\\u0007\\u007f\"",
    "\"a\\nb\\tc\\r\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\u0000\"", "\"\xff\xfe\"", "\"\xc0\xaf\"",
    "\"\xc2\x9b\x33\x31m\"", "\"\xe2\x80\xae\"", "[0]", "[1, 0]", "[[0, 0]]", "1048576", "1000000", "4096", "1e1000",
};

// As they would stand in a line.
static const char *const hostile_words[] = {
    "", "0", "-1", "1", "9007199254740991", "9007199254740993", "18446744073709551616", "4294967296", "65536", "1e308",
    "1e309", "-1e308", "nan", "inf", "-inf", "0x10", "%s%n", "../..", "\x1b[31m", "\x07", "\xff\xfe", "\xc0\xaf",
    "\xc2\x9b", "\"", "'", ",", ";", "=", "--", "[", "]", "(", ")", "\t", "\r", "{", "0F0", "0B0", "65535F0",
    "0F4294967295", "0SEND_F0", "1RECV_F0", "node1", "node9", "stage_id=9", "forward_compute_time=-1",
};

#define ONE_OF(list, seed) ((list)[random_below(seed, sizeof(list) / sizeof(list)[0])])

static bool chance(uint64_t *seed, unsigned one_in)
{
    return random_below(seed, one_in) == 0;
}

// Mostly few, now and then 10^5.
static size_t many(uint64_t *seed)
{
    static const size_t counts[] = { 1, 1, 1, 2, 3, 7, 64, 1000, 1000 };
    return chance(seed, 200) ? 100000 : ONE_OF(counts, seed);
}

// --- JSON -------------------------------------------------------------------------------

static size_t count_values(const cJSON *value)
{
    size_t count = 1;
    for (const cJSON *child = value->child; child; child = child->next)
        count += count_values(child);
    return count;
}

// A value among all, with what holds it.
static cJSON *find_value(cJSON *value, size_t *left, cJSON *parent, cJSON **found_in)
{
    if (*left == 0) {
        *found_in = parent;
        return value;
    }
    *left -= 1;
    for (cJSON *child = value->child; child; child = child->next) {
        cJSON *found = find_value(child, left, value, found_in);
        if (found)
            return found;
    }
    return NULL;
}

static cJSON *any_value(cJSON *root, uint64_t *seed, cJSON **parent)
{
    size_t at = random_below(seed, count_values(root));
    return find_value(root, &at, NULL, parent);
}

// The only value that no other holds is the root, of which nothing but its place stays.
static void put(cJSON *root, cJSON *parent, cJSON *old, cJSON *made)
{
    if (parent) {
        cJSON_ReplaceItemViaPointer(parent, old, made);
        return;
    }
    cJSON kept = *made;
    *made = *root;
    *root = kept;
    cJSON_Delete(made);
}

// The key goes with its value, which cJSON forgets in replacing.
static void replace(cJSON *root, cJSON *parent, cJSON *old, cJSON *made)
{
    if (old->string && made->string)
        cJSON_free(made->string);
    if (old->string)
        made->string = strdup(old->string);
    put(root, parent, old, made);
}

static void repeat(cJSON *parent, const cJSON *value, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        cJSON *copy = cJSON_Duplicate(value, true);
        if (cJSON_IsArray(parent))
            cJSON_AddItemToArray(parent, copy);
        else
            cJSON_AddItemToObject(parent, value->string, copy);
    }
}

static char *giant_string(uint64_t *seed)
{
    static const size_t lengths[] = { 63, 64, 255, 256, 500, 1000, 4096, 65536, 300000 };
    const size_t length = ONE_OF(lengths, seed);
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, (int)('a' + random_below(seed, 26)), length);
    text[length] = '\0';
    return text;
}

static cJSON *make_giant(uint64_t *seed)
{
    char *text = giant_string(seed);
    cJSON *made = cJSON_CreateString(text);
    free(text);
    return made;
}

// As it stands in lists that are as deep as that.
static cJSON *nest(const cJSON *value, size_t depth)
{
    cJSON *made = cJSON_Duplicate(value, true);
    for (size_t i = 0; i < depth; i++) {
        cJSON *outer = i % 2 ? cJSON_CreateObject() : cJSON_CreateArray();
        if (i % 2)
            cJSON_AddItemToObject(outer, "in", made);
        else
            cJSON_AddItemToArray(outer, made);
        made = outer;
    }
    return made;
}

static cJSON *changed_number(const cJSON *value, uint64_t *seed)
{
    const double x = value->valuedouble;
    const double others[] = { x + 1, x - 1, -x, x * 2, x * 1000, x * 1e9, x / 2, x / 1000 };
    char text[64];
    snprintf(text, sizeof text, "%.17g", ONE_OF(others, seed));
    return cJSON_CreateRaw(text);
}

static void rename_key(cJSON *root, cJSON *value, uint64_t *seed)
{
    static const char *const names[] = { "", "format", "version", "name", "a\x1b[31mb", "\xff", "x y", "notes" };
    cJSON *parent;
    const cJSON *other = any_value(root, seed, &parent);
    char *giant = chance(seed, 4) ? giant_string(seed) : NULL;
    const char *name = giant ? giant : other->string && chance(seed, 2) ? other->string : ONE_OF(names, seed);
    char *copy = strdup(name);
    cJSON_free(value->string);
    value->string = copy;
    free(giant);
}

static void replace_somehow(cJSON *root, cJSON *parent, cJSON *value, uint64_t *seed)
{
    cJSON *elsewhere;
    const uint64_t how = random_below(seed, 8);
    if (how == 0 && cJSON_IsNumber(value))
        replace(root, parent, value, changed_number(value, seed));
    else if (how <= 1)
        replace(root, parent, value, cJSON_Duplicate(any_value(root, seed, &elsewhere), true));
    else if (how == 2)
        replace(root, parent, value, make_giant(seed));
    else if (how == 3)
        replace(root, parent, value, nest(value, chance(seed, 3) ? 70 : 1 + random_below(seed, 3)));
    else
        replace(root, parent, value, cJSON_CreateRaw(ONE_OF(hostile_values, seed)));
}

static void damage_tree(cJSON *root, uint64_t *seed)
{
    cJSON *parent = NULL, *value = any_value(root, seed, &parent);
    // Numbers and names are most of what a reader looks at, and lists of them what it relies on.
    for (int i = 0; i < 2 && (!parent || value->child); i++)
        value = any_value(root, seed, &parent);
    if (!parent && !chance(seed, 20))
        return;
    const uint64_t how = parent ? random_below(seed, 10) : 9;
    if (how == 0)
        cJSON_Delete(cJSON_DetachItemViaPointer(parent, value));
    else if (how == 1)
        repeat(parent, value, many(seed));
    else if (how == 2 && value->string)
        rename_key(root, value, seed);
    else
        replace_somehow(root, parent, value, seed);
}

// False where the text is no tree.
static bool damage_json(const char *text, size_t length, uint64_t *seed, struct text *to)
{
    cJSON *root = cJSON_ParseWithLength(text, length);
    if (!root)
        return false;
    const uint64_t times = chance(seed, 4) ? 2 + random_below(seed, 3) : 1;
    for (uint64_t i = 0; i < times; i++)
        damage_tree(root, seed);
    char *printed = chance(seed, 2) ? cJSON_Print(root) : cJSON_PrintUnformatted(root);
    if (printed)
        text_add_bytes(to, printed, strlen(printed));
    free(printed);
    cJSON_Delete(root);
    return printed != NULL;
}

// --- lines ------------------------------------------------------------------------------

static size_t line_at(const char *text, size_t length, uint64_t *seed, size_t *end)
{
    size_t begin = random_below(seed, length);
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    const char *newline = memchr(text + begin, '\n', length - begin);
    *end = newline ? (size_t)(newline - text) + 1 : length;
    return begin;
}

// Another word in place of one that ends before any of these.
static void damage_word(const char *text, size_t length, uint64_t *seed, struct text *to)
{
    static const char ends[] = " ,;=[]()\t\r\n";
    size_t begin = random_below(seed, length), end;
    while (begin > 0 && !memchr(ends, text[begin - 1], sizeof ends - 1))
        begin--;
    for (end = begin; end < length && !memchr(ends, text[end], sizeof ends - 1);)
        end++;
    char *giant = chance(seed, 10) ? giant_string(seed) : NULL;
    text_add_bytes(to, text, begin);
    text_add(to, "%s", giant ? giant : ONE_OF(hostile_words, seed));
    text_add_bytes(to, text + end, length - end);
    free(giant);
}

static void damage_lines(const char *text, size_t length, uint64_t *seed, struct text *to)
{
    size_t end, other_end;
    const size_t begin = line_at(text, length, seed, &end), other = line_at(text, length, seed, &other_end);
    const uint64_t how = random_below(seed, 8);
    if (how > 2) {
        damage_word(text, length, seed, to);
        return;
    }
    text_add_bytes(to, text, begin);
    if (how == 1)
        for (size_t i = 1 + many(seed); i > 0; i--)
            text_add_bytes(to, text + begin, end - begin);
    if (how == 2)
        text_add_bytes(to, text + other, other_end - other);
    text_add_bytes(to, text + end, length - end);
}

// --- bytes ------------------------------------------------------------------------------

static void damage_bytes(const char *text, size_t length, uint64_t *seed, struct text *to)
{
    static const char *const pieces[] = { "\xff", "\x1b[31m", "\xc0\x80", "\xef\xbb\xbf", "\"", "{", "]", "\n", "\\u",
                                          "-", "9999999999", "\x7f" };
    const size_t at = random_below(seed, length + 1);
    const uint64_t how = random_below(seed, 6);
    text_add_bytes(to, text, at);
    if (how <= 1 || at == length)
        return;  // cut off here
    if (how == 2)
        text_add_bytes(to, "", 1);
    if (how == 3)
        text_add(to, "%s", ONE_OF(pieces, seed));
    const char flipped = (char)(text[at] ^ (1 << random_below(seed, 8)));
    text_add_bytes(to, how == 4 ? &flipped : text + at, how == 5 ? 0 : 1);
    text_add_bytes(to, text + at + 1, length - at - 1);
}

// --- any of these -----------------------------------------------------------------------

void damage(enum damage_kind kind, const char *text, size_t length, uint64_t seed, struct text *to)
{
    uint64_t random = seed;
    if (length == 0)
        return;
    if (kind == DAMAGE_JSON && !chance(&random, 8) && damage_json(text, length, &random, to))
        return;
    if (kind == DAMAGE_LINES && !chance(&random, 5))
        damage_lines(text, length, &random, to);
    else
        damage_bytes(text, length, &random, to);
}
