// Who is there, as locks tell it; and what was decided, as it is read again.
#include "runtime/groups/processes/members.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/output.h"
#include "tests/test.h"

static char root[] = "/tmp/weir-members-XXXXXX";
static char folder[100];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(folder, sizeof folder, "%s/elastic", root);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/epoch.json", folder);
    unlink(path);
    return rmdir(folder) == 0 && rmdir(root) == 0 ? 0 : -1;
}

static struct members *join(void)
{
    struct error error = { 0 };
    struct members *members = members_join(folder, &error);
    assert_good(members, error);
    return members;
}

static size_t look(const struct members *members, struct member *seen, size_t most)
{
    struct error error = { 0 };
    size_t count;
    struct member *all = members_look(members, &count, &error);
    assert_good(all, error);
    assert_true(count <= most);
    memcpy(seen, all, count * sizeof *all);
    free(all);
    return count;
}

// Another process joins, says which number it has, and waits to be killed.
static pid_t join_elsewhere(uint64_t *number)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error = { 0 };
        struct members *members = members_join(folder, &error);
        *number = members ? members_own(members) : 0;
        if (write(ends[1], number, sizeof *number) == sizeof *number)
            pause();
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], number, sizeof *number), sizeof *number);
    close(ends[0]);
    return child;
}

static void kill_and_wait(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void the_oldest_is_first(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct member seen[4];
    uint64_t second, third;
    struct members *first = join();
    const pid_t a = join_elsewhere(&second), b = join_elsewhere(&third);
    assert_true(members_own(first) < second && second < third);
    assert_good(members_say(first, true, 7, &error), error);
    assert_int_equal(look(first, seen, 4), 3);
    assert_int_equal(seen[0].number, members_own(first));
    assert_true(seen[0].runs && !seen[1].runs && !seen[2].runs);
    assert_int_equal(seen[0].epoch, 7);
    assert_int_equal(seen[1].number, second);
    assert_string_equal(seen[0].host, seen[1].host);
    kill_and_wait(a);
    assert_int_equal(look(first, seen, 4), 2);
    assert_int_equal(seen[1].number, third);
    kill_and_wait(b);
    assert_int_equal(look(first, seen, 4), 1);
    members_leave(first);
}

// Whatever comes and goes, nobody who is there is missed, and nobody is taken for two.
static void many_come_and_go(void **state)
{
    (void)state;
    enum { MOST = 8 };
    struct member seen[MOST + 1];
    pid_t children[MOST] = { 0 };
    uint64_t numbers[MOST], seed = 1;
    struct members *own = join();
    for (uint64_t trial = 0; trial < test_trials(60, 2000); trial++) {
        const size_t i = random_below(&seed, MOST);
        if (children[i]) {
            kill_and_wait(children[i]);
            children[i] = 0;
        } else {
            children[i] = join_elsewhere(&numbers[i]);
            assert_true(numbers[i] > 0);
        }
        const size_t count = look(own, seen, MOST + 1);
        size_t expected = 1;
        for (size_t c = 0; c < MOST; c++) {
            size_t found = 0;
            for (size_t s = 0; s < count; s++)
                found += children[c] && seen[s].number == numbers[c];
            assert_int_equal(found, children[c] != 0);
            expected += children[c] != 0;
        }
        assert_int_equal(count, expected);
    }
    for (size_t i = 0; i < MOST; i++)
        if (children[i])
            kill_and_wait(children[i]);
    assert_int_equal(look(own, seen, MOST), 1);
    members_leave(own);
}

static void put_file(const char *name, const char *text)
{
    struct error error = { 0 };
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const struct output_part part = { text, strlen(text) };
    assert_good(output_save_parts(path, &part, 1, &error), error);
}

// A file that nobody has locked is nobody's, whatever it says, and whatever it is called.
static void what_others_put_there_is_no_member(void **state)
{
    (void)state;
    static const char *const names[] = { "member-", "member-x", "member-1x", "member-99999999999999999999", "members" };
    struct member seen[2];
    struct members *own = join();
    put_file("member-100", "ready 1 here\n");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        put_file(names[i], "ready 1 here\n");
    assert_int_equal(look(own, seen, 2), 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    members_leave(own);
}

// Neither of a member nor of all: the file that a link points to stays.
static void a_link_is_not_followed(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct member seen[2];
    char elsewhere[200], link[200], want[300];
    struct members *own = join();
    put_file("elsewhere", "ready 1 here\n");
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    snprintf(link, sizeof link, "%s/member-100", folder);
    assert_int_equal(symlink(elsewhere, link), 0);
    assert_int_equal(look(own, seen, 2), 1);
    assert_int_equal(access(elsewhere, F_OK), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(unlink(elsewhere), 0);
    members_leave(own);

    snprintf(link, sizeof link, "%s/linked", root);
    assert_int_equal(symlink(folder, link), 0);
    assert_null(members_join(link, &error));
    snprintf(want, sizeof want, "%s: is a link or a file, and the members of a run are files in a folder of that name:"
             " remove it", link);
    assert_error(error, want);
    assert_int_equal(unlink(link), 0);
}

static void an_epoch_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct member ranks[] = { { .number = 3, .host = "a" }, { .number = 9, .host = "b" } };
    const struct epoch epoch = { .number = 4, .why = "none", .plan = "plan-1.json", .ranks = ranks, .rank_count = 2 };
    struct epoch found;
    struct members *own = join();
    assert_good(epoch_read(own, &found, &error), error);
    assert_int_equal(found.number, 0);
    assert_good(epoch_write(own, &epoch, &error) && epoch_read(own, &found, &error), error);
    assert_int_equal(found.number, 4);
    assert_int_equal(found.rank_count, 2);
    assert_int_equal(found.ranks[1].number, 9);
    assert_string_equal(found.ranks[0].host, "a");
    assert_string_equal(found.plan, "plan-1.json");
    epoch_clear(&found);
    members_leave(own);
    own = join();  // ready for the one behind it
    struct member seen[1];
    assert_int_equal(look(own, seen, 1), 1);
    assert_int_equal(seen[0].epoch, 4);
    members_leave(own);
}

static void a_damaged_epoch_is_refused(void **state)
{
    (void)state;
    char text[] = "{\"format\": \"weir.epoch\", \"version\": 1, \"epoch\": 4, \"has_ended\": false, \"why\": \"\","
                  " \"plan\": \"p\", \"ranks\": [{\"member\": 3, \"host\": \"a\"}]}";
    struct members *own = join();
    uint64_t seed = 1;
    size_t refused = 0;
    for (uint64_t trial = 0; trial < test_trials(200, 20000); trial++) {
        const size_t at = (size_t)random_below(&seed, sizeof text - 1);
        const char was = text[at];
        struct error error = { 0 };
        struct epoch found;
        text[at] = (char)(1 + random_below(&seed, 255));
        put_file("epoch.json", text);
        if (epoch_read(own, &found, &error)) {
            epoch_clear(&found);
        } else {
            assert_int_equal(error.kind, ERROR_INPUT);
            assert_non_null(strstr(error.text, "epoch.json"));
            refused++;
        }
        text[at] = was;
    }
    assert_true(refused > 0);
    put_file("epoch.json", "{\"format\": \"weir.epoch\", \"version\": 1, \"epoch\": 4, \"has_ended\": false, \"why\": \"\","
                           " \"plan\": \"../p\", \"ranks\": []}");
    struct error error = { 0 };
    struct epoch found;
    assert_false(epoch_read(own, &found, &error));
    assert_non_null(strstr(error.text, "plan: is no file of this folder"));
    members_leave(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_is_first),
        cmocka_unit_test(many_come_and_go),
        cmocka_unit_test(what_others_put_there_is_no_member),
        cmocka_unit_test(a_link_is_not_followed),
        cmocka_unit_test(an_epoch_is_read_as_it_was_written),
        cmocka_unit_test(a_damaged_epoch_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
