#include "cli/elastic.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "common/clock.h"
#include "common/path.h"
#include "runtime/checkpoint/run_folder.h"
#include "runtime/groups/processes/members.h"

// Times in nanoseconds. LOOK_NS: between two looks at the folder of members. SETTLED_NS: an epoch begins if no member
// has come or gone for this long. FIRST_NS: the same for the first epoch, while members are missing. LOST_NS: an
// epoch that has lost a rank may run for this long. SILENT_NS: a member that does not answer is waited for this long.
#define LOOK_NS 100000000
#define SETTLED_NS 1000000000
#define FIRST_NS 10000000000
#define LOST_NS 10000000000
#define SILENT_NS 40000000000

enum { FAILURES = 3 };  // in a row, without a checkpoint between them

struct elastic {
    const struct elastic_request *request;
    struct members *members;
    const volatile sig_atomic_t *stop;  // this member was asked to leave
    volatile sig_atomic_t *keep;        // its rank was asked for a checkpoint
    struct epoch epoch;                 // the last known one
    uint64_t joined_at;                 // epochs up to this one are from before this member joined
    uint64_t changed_ns;                // when a member last came or went
    uint64_t known;                     // checksum of the members that were there, to detect changes
    uint64_t began_step;                // the newest checkpoint when the last epoch began
    unsigned failures;
    bool decides;                       // this member was the oldest at the last look
    size_t running;                     // members that were in an epoch at that time
    char said[400];                     // why it waits, as last printed
};

static void rest(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

// The folder is looked at ten times a second; a message is printed only if it differs from the last one.
static void say_why(struct elastic *elastic, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say_why(struct elastic *elastic, const char *format, ...)
{
    char why[sizeof elastic->said];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (strcmp(why, elastic->said) != 0)
        command_say("%s", why);
    snprintf(elastic->said, sizeof elastic->said, "%s", why);
}

static uint64_t newest_step(const struct elastic *elastic)
{
    struct error none = { 0 };
    size_t count = 0;
    uint64_t *steps = run_folder_steps(elastic->request->folder, &count, &none);
    const uint64_t newest = steps && count > 0 ? steps[0] : 0;
    free(steps);
    return newest;
}

// --- a plan for so many -----------------------------------------------------------------------

// The same plan gets the same name, whichever member made it.
static bool plan_name(const struct plan *plan, uint32_t ranks, char name[EPOCH_PLAN_SIZE], struct error *error)
{
    char hash[HASH_SIZE];
    if (!plan_hash(plan, hash, error))
        return false;
    snprintf(name, EPOCH_PLAN_SIZE, "plan-%.12s-%u.json", hash, ranks);
    return true;
}

static bool save_plan(const struct plan *plan, const char *path, struct error *error)
{
    struct text text = { 0 };
    plan_write(plan, &text);
    const bool good = text_replace(&text, path, error);
    text_clear(&text);
    return good;
}

static bool save_cluster(const struct plan *plan, const char *path, struct error *error)
{
    struct text text = { 0 };
    cluster_write(plan->cluster, &text);
    const bool good = text_replace(&text, path, error);
    text_clear(&text);
    return good;
}

static void become_partition(const struct elastic *elastic, const char *cluster, uint32_t ranks, const char *path)
{
    const struct plan *plan = elastic->request->plan;
    const struct storage *storage = &plan->storage;
    const char *const hosts[] = { NULL, "optimizer", "activations", "optimizer,activations" };
    const char *host = hosts[storage->optimizer_on_host + 2 * storage->activations_on_host];
    char micro_batches[16], count[16], chunks[16], window[16], step_rate[24];
    snprintf(window, sizeof window, "%u", storage->window);
    snprintf(step_rate, sizeof step_rate, "%lluB/s", (unsigned long long)storage->step_rate);
    snprintf(micro_batches, sizeof micro_batches, "%u", plan->micro_batches);
    snprintf(count, sizeof count, "%u", ranks);
    snprintf(chunks, sizeof chunks, "%u", plan->chunks);
    const char *arguments[32] = { "weir", "partition", elastic->request->profile, "--cluster", cluster, "--schedule",
                                  plan->schedule, "--micro-batches", micro_batches, "--ranks", count, "--chunks",
                                  chunks, "--optimizer", optimizer_names[storage->optimizer], "--tied",
                                  storage->tied_apart ? "apart" : "together", "--shard", shard_names[storage->shard],
                                  "--output", path };
    size_t last = 0;
    while (arguments[last])
        last++;
    const struct {
        const char *option, *value;
    } more[] = { { "--host", host }, { "--window", storage->window ? window : NULL },
                 { "--step-rate", storage->step_rate ? step_rate : NULL } };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        if (more[i].value) {
            arguments[last++] = more[i].option;
            arguments[last++] = more[i].value;
        }
    const int nowhere = open("/dev/null", O_WRONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0 && dup2(nowhere, STDERR_FILENO) >= 0)
        execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
    _exit(3);
}

// False without an error if there is no plan for this number of ranks.
static bool make_plan(const struct elastic *elastic, uint32_t ranks, const char *path, struct error *error)
{
    char cluster[PATH_MAX];
    int status;
    if (!members_path(elastic->members, "cluster.json", cluster, error)
        || !save_cluster(elastic->request->plan, cluster, error))
        return false;
    const pid_t child = fork();
    if (child == 0)
        become_partition(elastic, cluster, ranks, path);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0)
        return error_set_kind(error, ERROR_MACHINE, "no process could be started: %s", strerror(errno));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Finds or makes the plan for the largest possible number of ranks, at most the number of members. Returns that
// number, and the name of the plan's file in `name`.
static uint32_t plan_for(const struct elastic *elastic, size_t members, char name[EPOCH_PLAN_SIZE],
                         struct error *error)
{
    const struct plan *plan = elastic->request->plan;
    const uint32_t devices = plan->cluster->device_count;
    for (uint32_t ranks = members < devices ? (uint32_t)members : devices; ranks > 0; ranks--) {
        char path[PATH_MAX];
        if (!plan_name(plan, ranks, name, error) || !members_path(elastic->members, name, path, error))
            return 0;
        if (access(path, R_OK) == 0
            || (ranks == plan->ranks ? save_plan(plan, path, error) : make_plan(elastic, ranks, path, error)))
            return ranks;
        if (error->kind != ERROR_NONE)
            return 0;
    }
    error_set_kind(error, ERROR_ANSWER,
                   "there is no plan for %zu ranks or fewer: weir partition %s --ranks %zu says why",
                   members, elastic->request->profile, members);
    return 0;
}

// --- the oldest member decides ------------------------------------------------------------------

static bool end_all(struct elastic *elastic, const char *why, struct error *error)
{
    struct epoch epoch = { .number = elastic->epoch.number + 1, .has_ended = true };
    snprintf(epoch.why, sizeof epoch.why, "%s", why);
    return epoch_write(elastic->members, &epoch, error);
}

static bool begin_epoch(struct elastic *elastic, struct member *seen, size_t count, size_t silent, struct error *error)
{
    if (silent > 0)
        command_say("goes on without %zu member%s, silent for %d s", silent, silent == 1 ? "" : "s",
                    (int)(SILENT_NS / 1000000000));
    struct epoch epoch = { .number = elastic->epoch.number + 1, .ranks = seen };
    epoch.rank_count = plan_for(elastic, count, epoch.plan, error);
    elastic->began_step = newest_step(elastic);
    return epoch.rank_count > 0 && epoch_write(elastic->members, &epoch, error);
}

static void note_changes(struct elastic *elastic, const struct member *seen, size_t count)
{
    uint64_t sum = count;
    for (size_t i = 0; i < count; i++)
        sum = sum * 1000003 + seen[i].number;
    if (sum != elastic->known) {
        elastic->known = sum;
        elastic->changed_ns = clock_now_ns();
    }
}

// A member that has not ended the last epoch is waited for, but not forever.
static bool are_ready(struct elastic *elastic, struct member *seen, size_t *count)
{
    const bool is_late = clock_now_ns() - elastic->changed_ns > SILENT_NS;
    size_t ready = 0;
    for (size_t i = 0; i < *count; i++) {
        if (seen[i].runs && !is_late) {
            say_why(elastic, "waits for member %llu on %s to come to the end of epoch %llu",
                    (unsigned long long)seen[i].number, seen[i].host, (unsigned long long)seen[i].epoch);
            return false;
        }
        if (!seen[i].runs)
            seen[ready++] = seen[i];
    }
    *count = ready;
    return ready > 0;
}

static bool are_enough(struct elastic *elastic, size_t count)
{
    if (count >= elastic->request->least)
        return true;
    say_why(elastic, "%zu of at least %u ranks are there: waiting for more", count, elastic->request->least);
    return false;
}

static bool is_time(struct elastic *elastic, size_t count)
{
    const uint64_t still_ns = clock_now_ns() - elastic->changed_ns;
    const bool is_first = elastic->epoch.number == elastic->joined_at;
    if (!is_first || count >= elastic->request->plan->ranks)
        return is_first || still_ns >= SETTLED_NS;
    say_why(elastic, "%zu of the plan's %u ranks are there: the run begins once all are, or once nobody has come for"
            " %d s", count, elastic->request->plan->ranks, (int)(FIRST_NS / 1000000000));
    return still_ns >= FIRST_NS;
}

// Says why a member that does not decide is not a rank now, after a look and after reading the last epoch. Members may
// be seen to run before the epoch in which they do is read.
static void say_who_decides(struct elastic *elastic)
{
    if (elastic->running > 0 && elastic->epoch.rank_count == 0)
        return;
    if (elastic->running > 0)
        say_why(elastic, "epoch %llu is under way on %zu rank%s: this member waits until they stop for it, or one of"
                " them is lost", (unsigned long long)elastic->epoch.number, elastic->epoch.rank_count,
                elastic->epoch.rank_count == 1 ? "" : "s");
    else if (elastic->epoch.number == elastic->joined_at)
        say_why(elastic, "waits for the first epoch, on which the oldest member decides");
}

// Called between two epochs.
static bool decide(struct elastic *elastic, struct error *error)
{
    size_t count;
    struct member *seen = members_look(elastic->members, &count, error);
    if (!seen)
        return false;
    note_changes(elastic, seen, count);
    const size_t there = count;
    bool good = true;
    elastic->decides = count > 0 && seen[0].number == members_own(elastic->members);
    elastic->running = 0;
    for (size_t i = 0; i < count; i++)
        elastic->running += seen[i].runs;
    if (elastic->decides) {
        if (newest_step(elastic) >= elastic->request->steps)
            good = end_all(elastic, "", error);
        else if (elastic->failures >= FAILURES)
            good = end_all(elastic, "the run fails again and again without a checkpoint between", error);
        else if (are_ready(elastic, seen, &count) && are_enough(elastic, count)
                 && is_time(elastic, count))
            good = begin_epoch(elastic, seen, count, there - count, error);
    }
    free(seen);
    return good;
}

// --- an epoch -------------------------------------------------------------------------------------

static void put_number(const char *name, unsigned long long number)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", number);
    setenv(name, text, 1);
}

// Sets the environment variables that a launcher sets for a rank.
static bool put_environment(const struct elastic *elastic, uint32_t rank, char plan[PATH_MAX], struct error *error)
{
    const struct epoch *epoch = &elastic->epoch;
    char name[64], meet[PATH_MAX];
    uint32_t before = 0, here = 0;
    for (uint32_t r = 0; r < epoch->rank_count; r++)
        if (strcmp(epoch->ranks[r].host, epoch->ranks[rank].host) == 0) {
            before += r < rank;
            here++;
        }
    snprintf(name, sizeof name, "meet-%llu", (unsigned long long)epoch->number);
    if (!members_path(elastic->members, epoch->plan, plan, error)
        || !members_path(elastic->members, name, meet, error))
        return false;
    put_number("WEIR_RANK", rank);
    put_number("WEIR_RANKS", epoch->rank_count);
    put_number("WEIR_LOCAL_RANK", before);
    put_number("WEIR_LOCAL_RANKS", here);
    setenv("WEIR_RENDEZVOUS", meet, 1);
    setenv("WEIR_START_WITHIN", "30s", 0);
    return true;
}

// The number of the epoch's ranks that are still there; *members receives the number of all members.
static size_t ranks_there(const struct elastic *elastic, size_t *members)
{
    struct error none = { 0 };
    size_t there = 0;
    struct member *seen = members_look(elastic->members, members, &none);
    for (size_t r = 0; seen && r < elastic->epoch.rank_count; r++)
        for (size_t i = 0; i < *members; i++)
            there += seen[i].number == elastic->epoch.ranks[r].number;
    free(seen);
    return seen ? there : elastic->epoch.rank_count;
}

// While an epoch runs: whether the member with rank 0 should ask it to stop, because a member has come that could
// take part.
static bool somebody_has_come(const struct elastic *elastic, uint32_t rank, size_t members)
{
    char name[EPOCH_PLAN_SIZE];
    struct error none = { 0 };
    return rank == 0 && members > elastic->epoch.rank_count
        && plan_for(elastic, members, name, &none) > elastic->epoch.rank_count;
}

// Waits until the rank's process ends; returns its status.
static int watch(struct elastic *elastic, pid_t child, uint32_t rank, bool *was_asked)
{
    uint64_t lost_ns = 0, asked_for = 0;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        size_t members = 0;
        const size_t there = ranks_there(elastic, &members);
        const uint64_t now_ns = clock_now_ns();
        if (there == elastic->epoch.rank_count)
            lost_ns = 0;
        else if (lost_ns == 0)
            lost_ns = now_ns;
        if (lost_ns > 0 && now_ns - lost_ns > LOST_NS) {  // the rank has not noticed
            say_why(elastic, "epoch %llu has lost a rank, and this one has not noticed that for %d s: it is ended",
                    (unsigned long long)elastic->epoch.number, (int)(LOST_NS / 1000000000));
            *was_asked = true;
            kill(child, SIGKILL);
        }
        const bool leaves = *elastic->stop;
        if (!*was_asked && (leaves || (members != asked_for && somebody_has_come(elastic, rank, members)))) {
            *was_asked = true;
            kill(child, SIGTERM);
            say_why(elastic, leaves ? "this member leaves: epoch %llu ends behind the pass at hand, with a checkpoint"
                                    : "somebody has come: epoch %llu ends behind the pass at hand, with a checkpoint",
                    (unsigned long long)elastic->epoch.number);
        }
        asked_for = members;
        if (*elastic->keep) {  // the rank's process makes the checkpoint
            *elastic->keep = 0;
            kill(child, SIGUSR1);
        }
        rest();
    }
    return status;
}

// Decides how this member continues after its rank has ended in an epoch.
static bool judge(struct elastic *elastic, int status, bool was_asked, struct error *error)
{
    const uint64_t step = newest_step(elastic);
    if (WIFSIGNALED(status) && !was_asked)
        return error_set_kind(error, ERROR_MACHINE,
                              "this rank was killed by signal %d (%s): the others go on without it",
                              WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 2)) {
        error_set_kind(error, WEXITSTATUS(status) == 1 ? ERROR_ANSWER : ERROR_INPUT, "the run cannot go on, as its"
                                                                                     " rank has said");
        return false;
    }
    const bool is_stopped = WIFEXITED(status) && WEXITSTATUS(status) == COMMAND_STOPPED;
    const bool failed = !is_stopped && (!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    elastic->failures = failed && step == elastic->began_step ? elastic->failures + 1 : 0;
    elastic->changed_ns = clock_now_ns();
    return members_say(elastic->members, false, elastic->epoch.number, error);
}

static void say_epoch(const struct elastic *elastic, uint32_t rank)
{
    if (rank == 0)
        command_say("epoch %llu: %zu rank%s%s", (unsigned long long)elastic->epoch.number, elastic->epoch.rank_count,
                    elastic->epoch.rank_count == 1 ? "" : "s",
                    newest_step(elastic) > 0 ? ", from the newest checkpoint" : "");
}

// In the member's process: true if the run continues. In the rank's process: false, and *part says that it is a rank.
static bool run_epoch(struct elastic *elastic, uint32_t rank, enum elastic_part *part, char plan[PATH_MAX],
                      struct error *error)
{
    bool was_asked = false;
    elastic->began_step = newest_step(elastic);
    elastic->said[0] = '\0';
    if (!members_say(elastic->members, true, elastic->epoch.number, error))
        return false;
    say_epoch(elastic, rank);
    fflush(NULL);
    const pid_t parent = getpid(), child = fork();
    if (child < 0)
        return error_set_kind(error, ERROR_MACHINE, "no process could be started: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(3);
        *part = put_environment(elastic, rank, plan, error) ? ELASTIC_RANK : ELASTIC_FAILED;
        return false;
    }
    const int status = watch(elastic, child, rank, &was_asked);
    return judge(elastic, status, was_asked, error);
}

// --- all of them ------------------------------------------------------------------------------------

static uint32_t rank_in(const struct elastic *elastic)
{
    for (uint32_t r = 0; r < elastic->epoch.rank_count; r++)
        if (elastic->epoch.ranks[r].number == members_own(elastic->members))
            return r;
    return UINT32_MAX;
}

// Reads the next epoch, once there is one.
static bool read_next(struct elastic *elastic, bool *is_new, struct error *error)
{
    struct epoch epoch;
    if (!epoch_read(elastic->members, &epoch, error))
        return false;
    *is_new = epoch.number > elastic->epoch.number;
    if (*is_new) {
        epoch_clear(&elastic->epoch);
        elastic->epoch = epoch;
    } else {
        epoch_clear(&epoch);
    }
    return true;
}

static enum elastic_part take_part(struct elastic *elastic, char plan[PATH_MAX], struct error *error)
{
    enum elastic_part part = ELASTIC_FAILED;
    while (!*elastic->stop) {
        bool is_new;
        if (!decide(elastic, error) || !read_next(elastic, &is_new, error))
            return ELASTIC_FAILED;
        const uint32_t rank = is_new ? rank_in(elastic) : UINT32_MAX;
        if (is_new && elastic->epoch.has_ended) {
            if (elastic->epoch.why[0])
                error_set_kind(error, ERROR_MACHINE, "%s", elastic->epoch.why);
            return elastic->epoch.why[0] ? ELASTIC_FAILED : ELASTIC_END;
        }
        if (rank != UINT32_MAX && !run_epoch(elastic, rank, &part, plan, error))
            return part;
        if (!is_new && !elastic->decides)
            say_who_decides(elastic);
        if (is_new && rank == UINT32_MAX)
            say_why(elastic, "epoch %llu goes on with %zu ranks, as many as there is a plan for: this member waits for"
                    " a later one", (unsigned long long)elastic->epoch.number, elastic->epoch.rank_count);
        if (is_new && rank == UINT32_MAX && !members_say(elastic->members, false, elastic->epoch.number, error))
            return ELASTIC_FAILED;
        rest();
    }
    return ELASTIC_LEFT;
}

// Says what is left of the run without this member.
static void say_what_is_left(struct elastic *elastic)
{
    struct error none = { 0 };
    size_t members = 0;
    free(members_look(elastic->members, &members, &none));
    const unsigned long long step = newest_step(elastic), steps = elastic->request->steps;
    const char *folder = elastic->request->folder;
    char kept[PATH_MAX + 100], who[200];
    if (step > 0)
        snprintf(kept, sizeof kept, "%s/step-%llu keeps where it is, of %llu", folder, step, steps);
    else
        snprintf(kept, sizeof kept, "nothing of it is kept yet");
    if (members > 1)
        snprintf(who, sizeof who, "%zu other%s there", members - 1, members == 2 ? " is" : "s are");
    else
        snprintf(who, sizeof who, "nobody else is there: the same command goes on with it");
    command_say("this member has left the run: %s, and %s", kept, who);
}

enum elastic_part elastic_take_part(const struct elastic_request *request, char plan[PATH_MAX], struct error *error)
{
    struct elastic elastic = { .request = request, .stop = command_asked_to_stop(), .keep = command_asked_to_keep(),
                               .changed_ns = clock_now_ns() };
    char folder[PATH_MAX];
    if (!path_join(request->folder, "elastic", folder, error))
        return ELASTIC_FAILED;
    elastic.members = run_folder_make(request->folder, error) ? members_join(folder, error) : NULL;
    enum elastic_part part = ELASTIC_FAILED;
    if (elastic.members && epoch_read(elastic.members, &elastic.epoch, error)) {
        elastic.joined_at = elastic.epoch.number;
        part = take_part(&elastic, plan, error);
        if (part == ELASTIC_LEFT)
            say_what_is_left(&elastic);
    }
    if (part == ELASTIC_RANK)
        members_forget(elastic.members);
    else
        members_leave(elastic.members);
    epoch_clear(&elastic.epoch);
    return part;
}
