#include "runtime/groups/processes/members.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/json.h"
#include "common/path.h"

static const char PREFIX[] = "member-", EPOCH[] = "epoch.json";

enum { LINE = 128, MEMBER_NAME = 64 };  // of a member's file, which always has LINE bytes; and of its name

struct members {
    char folder[PATH_MAX];
    uint64_t number;
    int directory;  // the folder itself, not a link to it
    int file;
    char host[MEMBER_HOST_SIZE];
};

static bool cannot(const char *path, const char *what, struct error *error)
{
    return error_set_kind(error, ERROR_MACHINE, "%.300s: cannot be %s: %s", path, what, strerror(errno));
}

bool members_path(const struct members *members, const char *name, char *path, struct error *error)
{
    return path_join(members->folder, name, path, error);
}

static void member_name(uint64_t number, char name[MEMBER_NAME])
{
    snprintf(name, MEMBER_NAME, "%s%" PRIu64, PREFIX, number);
}

// --- who is there ------------------------------------------------------------------------

static bool read_number(const char *name, uint64_t *number)
{
    char *end;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return false;
    const char *digits = name + strlen(PREFIX);
    *number = strtoull(digits, &end, 10);
    return end != digits && *end == '\0' && *number > 0 && *number <= JSON_MAX;
}

// What a member says. One that has said nothing yet is not ready.
static void read_line(int file, struct member *member)
{
    char line[LINE + 1] = "", word[8], host[MEMBER_HOST_SIZE];
    member->runs = true;
    const ssize_t length = pread(file, line, LINE, 0);
    if (length <= 0 || sscanf(line, "%7s %" SCNu64 " %63s", word, &member->epoch, host) != 3)
        return;
    member->runs = strcmp(word, "ready") != 0;
    memcpy(member->host, host, sizeof host);
}

// Whether the member's process is there. If not, its file is removed.
static bool is_there(const struct members *members, struct member *member)
{
    char name[MEMBER_NAME];
    member_name(member->number, name);
    const int file = openat(members->directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return false;
    const bool is_free = member->number != members->number && flock(file, LOCK_SH | LOCK_NB) == 0;
    if (is_free)
        unlinkat(members->directory, name, 0);
    else
        read_line(file, member);
    close(file);
    return !is_free;
}

static int by_age(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

// The members that are there, from all files; `highest`, which may be NULL, is the highest number of all files.
static struct member *look(const struct members *members, size_t *count, uint64_t *highest, struct error *error)
{
    const int again = openat(members->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *open = again >= 0 ? fdopendir(again) : NULL;
    struct member *seen = NULL;
    size_t capacity = 0;
    bool good = open || cannot(members->folder, "listed", error);
    good = good && (array_reserve(&seen, &capacity, 1, sizeof *seen) || error_no_memory(error, "the members of a run"));
    *count = 0;
    for (struct dirent *entry; good && (entry = readdir(open));) {
        struct member member = { 0 };
        if (!read_number(entry->d_name, &member.number))
            continue;
        if (highest && member.number > *highest)
            *highest = member.number;
        if (!is_there(members, &member) || *count == MEMBERS_MOST)
            continue;
        good =
            array_reserve(&seen, &capacity, *count + 1, sizeof *seen) || error_no_memory(error, "the members of a run");
        if (good)
            seen[(*count)++] = member;
    }
    if (open)
        closedir(open);
    if (good) {
        qsort(seen, *count, sizeof *seen, by_age);
        return seen;
    }
    free(seen);
    return NULL;
}

struct member *members_look(const struct members *members, size_t *count, struct error *error)
{
    return look(members, count, NULL, error);
}

// --- coming and going ----------------------------------------------------------------------

// Whether the name still belongs to the locked file: another process may have taken it for a leftover and removed it.
static bool is_own(const struct members *members, const char *name)
{
    struct stat of_file, of_name;
    return fstat(members->file, &of_file) == 0
        && fstatat(members->directory, name, &of_name, AT_SYMLINK_NOFOLLOW) == 0 && of_file.st_ino == of_name.st_ino
        && of_file.st_dev == of_name.st_dev;
}

// False without an error if another process was first.
static bool take_number(struct members *members, struct error *error)
{
    char name[MEMBER_NAME], path[PATH_MAX];
    member_name(members->number, name);
    if (!members_path(members, name, path, error))
        return false;
    members->file = openat(members->directory, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0666);
    if (members->file < 0)
        return errno != EEXIST && cannot(path, "written", error);
    if (flock(members->file, LOCK_EX | LOCK_NB) == 0 && is_own(members, name))
        return true;
    const bool can_lock = errno == EWOULDBLOCK || errno == ENOENT || errno == 0;
    close(members->file);
    members->file = -1;
    return can_lock ? false : error_set_kind(error, ERROR_MACHINE, "%.300s: cannot be locked, by which an elastic run"
                                             " sees who is there: %s", path, strerror(errno));
}

static bool open_folder(struct members *members, struct error *error)
{
    if (mkdir(members->folder, 0777) != 0 && errno != EEXIST)
        return cannot(members->folder, "made", error);
    members->directory = open(members->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (members->directory < 0 && (errno == ENOTDIR || errno == ELOOP))
        return error_set(error, "%.300s: is a link or a file, and the members of a run are files in a folder of that"
                         " name: remove it", members->folder);
    return members->directory >= 0 || cannot(members->folder, "read", error);
}

static bool join(struct members *members, struct error *error)
{
    enum { TRIES = 1000 };
    struct epoch epoch;
    if (!open_folder(members, error))
        return false;
    for (unsigned i = 0; i < TRIES && members->file < 0 && error->kind == ERROR_NONE; i++) {
        size_t count;
        uint64_t highest = 0;
        struct member *seen = look(members, &count, &highest, error);
        free(seen);
        if (!seen)
            return false;
        members->number = highest + 1;
        errno = 0;
        take_number(members, error);
    }
    if (members->file < 0)
        return error_set_kind(error, ERROR_MACHINE, "%.300s: no place could be had in it", members->folder);
    if (!epoch_read(members, &epoch, error))
        return false;
    const uint64_t number = epoch.number;
    epoch_clear(&epoch);
    return members_say(members, false, number, error);
}

struct members *members_join(const char *folder, struct error *error)
{
    struct members *members = calloc(1, sizeof *members);
    if (!members || snprintf(members->folder, sizeof members->folder, "%s", folder) >= PATH_MAX) {
        free(members);
        return error_null(error_no_memory(error, "a member of a run"));
    }
    members->file = members->directory = -1;
    if (gethostname(members->host, sizeof members->host - 1) != 0 || !*members->host)
        strcpy(members->host, "unnamed");
    if (join(members, error))
        return members;
    members_leave(members);
    return NULL;
}

void members_leave(struct members *members)
{
    char name[MEMBER_NAME];
    if (members)
        member_name(members->number, name);
    if (members && members->file >= 0 && is_own(members, name))
        unlinkat(members->directory, name, 0);
    members_forget(members);
}

void members_forget(struct members *members)
{
    if (members && members->file >= 0)
        close(members->file);
    if (members && members->directory >= 0)
        close(members->directory);
    free(members);
}

uint64_t members_own(const struct members *members)
{
    return members->number;
}

bool members_say(struct members *members, bool runs, uint64_t epoch, struct error *error)
{
    char line[LINE];
    memset(line, ' ', sizeof line);
    const int length = snprintf(line, sizeof line, "%s %" PRIu64 " %s", runs ? "runs" : "ready", epoch, members->host);
    line[length] = ' ';
    line[LINE - 1] = '\n';
    return pwrite(members->file, line, LINE, 0) == LINE || cannot(members->folder, "written", error);
}

// --- what was decided -----------------------------------------------------------------------

bool epoch_write(const struct members *members, const struct epoch *epoch, struct error *error)
{
    char path[PATH_MAX];
    struct text text = { 0 };
    struct json_writer json = json_writer(&text);
    json_begin_object(&json, NULL, JSON_LINES);
    json_put_format(&json, "weir.epoch");
    json_put_u64(&json, "epoch", epoch->number);
    json_put_bool(&json, "has_ended", epoch->has_ended);
    json_put_string(&json, "why", epoch->why);
    json_put_string(&json, "plan", epoch->plan);
    json_begin_array(&json, "ranks", JSON_LINES);
    for (size_t i = 0; i < epoch->rank_count; i++) {
        json_begin_object(&json, NULL, JSON_INLINE);
        json_put_u64(&json, "member", epoch->ranks[i].number);
        json_put_string(&json, "host", epoch->ranks[i].host);
        json_close(&json);
    }
    json_close(&json);
    json_close(&json);
    const bool good = members_path(members, EPOCH, path, error) && text_replace(&text, path, error);
    text_clear(&text);
    return good;
}

static bool read_epoch(struct json *root, struct epoch *epoch, struct error *error)
{
    json_format(root, "weir.epoch");
    epoch->number = json_u64(root, "epoch", 1, JSON_MAX);
    epoch->has_ended = json_bool(root, "has_ended");
    json_string_into(root, "why", epoch->why, sizeof epoch->why);
    json_string_into(root, "plan", epoch->plan, sizeof epoch->plan);
    struct json ranks = json_array(root, "ranks"), rank;
    epoch->ranks = calloc(json_count(&ranks) + 1, sizeof *epoch->ranks);
    if (!epoch->ranks)
        return error_no_memory(error, "the ranks of a run");
    while (json_next(&ranks, &rank)) {
        struct member *member = &epoch->ranks[epoch->rank_count++];
        member->number = json_u64(&rank, "member", 1, JSON_MAX);
        json_string_into(&rank, "host", member->host, sizeof member->host);
        json_end(&rank);
    }
    json_end(root);
    return true;
}

bool epoch_read(const struct members *members, struct epoch *epoch, struct error *error)
{
    char path[PATH_MAX];
    *epoch = (struct epoch){ 0 };
    if (!members_path(members, EPOCH, path, error))
        return false;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return true;
    struct json_document *document = json_load(path, error);
    if (!document)
        return false;
    struct json root = json_root(document);
    const bool good = read_epoch(&root, epoch, error) && json_ok(document, error)
        && (!strchr(epoch->plan, '/') || error_set(error, "%.300s: plan: is no file of this folder", path));
    json_free(document);
    if (!good)
        epoch_clear(epoch);
    return good;
}

void epoch_clear(struct epoch *epoch)
{
    free(epoch->ranks);
    *epoch = (struct epoch){ 0 };
}
