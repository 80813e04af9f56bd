// Ranks that are processes: each is a fork() of the test, and its exit status says whether what it saw is right.
#ifndef TESTS_PROCESSES_H
#define TESTS_PROCESSES_H

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/groups/processes/control.h"
#include "tests/test.h"

enum { MOST_RANKS = 6 };
static const uint64_t second_ns = 1000000000;

// What a rank does after the rendezvous, whether that succeeded or not; returns its exit status.
typedef int rank_function(struct control *control, uint32_t rank, const struct error *error);

struct world {
    uint32_t ranks;
    struct launch launch;  // of all ranks, except the rank's number
    struct control_settings settings;
    rank_function *does;
    pid_t children[MOST_RANKS];
    unsigned trial;
};

static inline struct world world_of(uint32_t ranks, rank_function *does)
{
    static unsigned count;
    struct world world = { .ranks = ranks, .does = does, .settings = { .deadline_ns = 60 * second_ns } };
    world.launch = (struct launch){ .by = "a test", .ranks = ranks, .local_ranks = ranks };
    snprintf(world.launch.file, sizeof world.launch.file, "%s/weir-control-%d-%u",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid(), count++);
    return world;
}

static inline void be_rank(const struct world *world, uint32_t rank)
{
    struct error error = { 0 };
    struct launch launch = world->launch;
    launch.rank = launch.local_rank = rank;
    struct control *control = control_open(&launch, &world->settings, &error);
    const int status = world->does(control, rank, &error);
    control_close(control);
    fflush(NULL);
    _exit(status);
}

static inline void start(struct world *world, uint32_t rank)
{
    fflush(NULL);
    world->children[rank] = fork();
    assert_true(world->children[rank] >= 0);
    if (world->children[rank] == 0)
        be_rank(world, rank);
}

static inline void start_all(struct world *world)
{
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        start(world, rank);
}

// Waits until the rank ends. It must end well, unless it `is_dead`.
static inline void end(struct world *world, uint32_t rank, bool is_dead)
{
    int status;
    assert_int_equal(waitpid(world->children[rank], &status, 0), world->children[rank]);
    if (!is_dead && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        fail_msg("trial %u: rank %u ended with status %x", world->trial, rank, (unsigned)status);
}

// All ranks except `dead` must end well.
static inline void end_all(struct world *world, uint32_t dead)
{
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        end(world, rank, rank == dead);
}
#define NOBODY MOST_RANKS

// For the ranks' processes: prints what is wrong, and returns 1.
#define EXPECT(condition)                                                          \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "rank %u: %s is not so: %s\n", rank, #condition, error->text); \
            return 1;                                                              \
        }                                                                          \
    } while (0)

// What a control's group does: all ranks meet and exchange nothing, or one asks whether all are well.
static inline bool meet(struct control *control, struct error *error)
{
    const struct process_group group = control_group(control);
    return group.all_gather(group.self, NULL, 0, NULL, error);
}

static inline bool is_well(struct control *control, struct error *error)
{
    const struct process_group group = control_group(control);
    return group.is_well(group.self, error);
}

// A rank_function: a run with collectives in which every rank sends something to every rank.
static inline int exchanges(struct control *control, uint32_t rank, const struct error *met)
{
    struct error own_error = { 0 }, *error = &own_error;
    EXPECT(control && met->kind == ERROR_NONE);
    const struct process_group group = control_group(control);
    const uint64_t ranks = group.ranks;
    for (uint64_t round = 0; round < 50; round++) {
        uint64_t brought[3] = { rank, round, rank * round }, all[MOST_RANKS][3];
        memset(all, 0xff, sizeof all);
        EXPECT(group.all_gather(group.self, brought, sizeof brought, all, error));
        for (uint64_t other = 0; other < ranks; other++)
            EXPECT(all[other][0] == other && all[other][1] == round && all[other][2] == other * round);
        EXPECT(group.broadcast(group.self, (uint32_t)(round % ranks), brought, sizeof brought, error));
        EXPECT(brought[0] == round % ranks && brought[1] == round && brought[2] == round % ranks * round);
    }
    EXPECT(is_well(control, error) && meet(control, error));
    return 0;
}

// A port that no other process uses. It stays bound while this process runs, so the system gives it to no process
// that asks for any port. A process that asks for it by number can listen there, as SO_REUSEADDR permits while no
// other process listens.
static inline uint16_t own_port(void)
{
    const int on = 1;
    struct sockaddr_in place = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof place;
    const int asking = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(asking, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(asking, (struct sockaddr *)&place, size), 0);
    assert_int_equal(getsockname(asking, (struct sockaddr *)&place, &size), 0);
    return ntohs(place.sin_port);
}

// Rendezvous at a port of this machine, by a secret, instead of by a file.
static inline void meet_at_port(struct world *world, const char *secret)
{
    world->launch.file[0] = '\0';
    strcpy(world->launch.address, "127.0.0.1");
    snprintf(world->launch.secret, sizeof world->launch.secret, "%s", secret);
    world->launch.port = own_port();
}

// Connects to a machine's port, as soon as a process listens there.
static inline int connect_to_port(uint32_t machine, uint16_t port)
{
    const struct sockaddr_in place = { .sin_family = AF_INET, .sin_port = htons(port),
                                       .sin_addr.s_addr = htonl(machine) };
    const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(stranger >= 0);
    for (unsigned tries = 0; connect(stranger, (const struct sockaddr *)&place, sizeof place) != 0; tries++) {
        assert_true(tries < 60000);
        usleep(1000);
    }
    return stranger;
}

#endif
