#include "device/device_names.h"

#include <stdio.h>
#include <string.h>

static const char all_gpus[] = "cuda:all";

// Whether a maker's name begins here.
static bool begins_device(const char *word)
{
    const size_t length = strcspn(word, ":,");
    return (length == 3 && memcmp(word, "cpu", length) == 0) || (length == 4 && memcmp(word, "cuda", length) == 0);
}

// The end of the device's name that begins here: its comma, or the end of the string.
static const char *end_of(const char *device)
{
    const char *end = device + strcspn(device, ",");
    while (*end && !begins_device(end + 1))
        end += 1 + strcspn(end + 1, ",");
    return end;
}

static bool is_all(const char *names)
{
    const size_t length = strlen(all_gpus);
    return strncmp(names, all_gpus, length) == 0 && (names[length] == '\0' || names[length] == ',');
}

uint32_t device_name_count(const char *names, uint32_t ranks)
{
    uint32_t count = 1;
    if (is_all(names))
        return ranks;
    for (const char *end = end_of(names); *end; end = end_of(end + 1))
        count++;
    return count;
}

static bool write_name(char name[DEVICE_NAME_SIZE], const char *front, int length, const char *words,
                       struct error *error)
{
    return snprintf(name, DEVICE_NAME_SIZE, "%.*s%s", length, front, words) < DEVICE_NAME_SIZE
        || error_set(error, "the device's name %.80s.. is too long", front);
}

// GPU number n, with the words that follow in the name.
static bool write_gpu(char name[DEVICE_NAME_SIZE], uint32_t n, const char *words, struct error *error)
{
    char front[24];
    const int length = snprintf(front, sizeof front, "cuda:%u%s", n, words[0] ? "," : "");
    return write_name(name, front, length, words, error);
}

bool device_name_of(const char *names, uint32_t n, char name[DEVICE_NAME_SIZE], struct error *error)
{
    const char *behind = names + strlen(all_gpus);
    if (is_all(names))
        return write_gpu(name, n, behind[0] ? behind + 1 : "", error);
    for (; n > 0; n--)
        names = end_of(names) + 1;
    return write_name(name, names, (int)(end_of(names) - names), "", error);
}

static bool has_word(const char *words, const char *wanted)
{
    const size_t length = strlen(wanted);
    for (const char *word = words; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL)
        if (strncmp(word, wanted, length) == 0 && (word[length] == ',' || word[length] == '\0'))
            return true;
    return false;
}

bool device_names_have(const char *names, const char *word)
{
    const char *colon = strchr(names, ':');
    return colon && has_word(colon + 1, word);
}

const char *device_name_in(enum precision precision)
{
    static const char *const names[] = { [PRECISION_FP32] = "cpu", [PRECISION_BF16] = "cpu:bf16",
                                         [PRECISION_FP16] = "cpu:fp16" };
    return names[precision];
}

static bool has_number(const char *words)
{
    for (const char *word = words; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL)
        if (word[0] >= '0' && word[0] <= '9')
            return true;
    return false;
}

bool device_name_on_machine(const char *names, bool are_several, uint32_t local_rank, char name[DEVICE_NAME_SIZE],
                            struct error *error)
{
    const size_t length = strcspn(names, ":");
    const char *words = names[length] ? names + length + 1 : "";
    const bool takes_number = length == strlen("cuda") && memcmp(names, "cuda", length) == 0;
    if (is_all(names))
        words += strcspn(words, ",") + (strchr(words, ',') != NULL);
    if ((are_several || is_all(names)) && takes_number && !has_number(words))
        return write_gpu(name, local_rank, words, error);
    return write_name(name, names, (int)strlen(names), "", error);
}

bool device_name_between_machines(char name[DEVICE_NAME_SIZE], bool are_several, bool *is_mpi, struct error *error)
{
    const size_t length = strcspn(name, ":");
    const char *words = name[length] ? name + length + 1 : "";
    const bool is_queued_cpu = length == strlen("cpu") && memcmp(name, "cpu", length) == 0
                            && has_word(words, "queued");
    char given[DEVICE_NAME_SIZE];
    *is_mpi = is_queued_cpu && (are_several || has_word(words, "mpi"));
    if (!*is_mpi || has_word(words, "mpi"))
        return true;
    memcpy(given, name, sizeof given);
    return write_name(name, given, (int)strlen(given), ",mpi", error);
}
