#include "runtime/groups/processes/launched.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { MOST_SET = 7 };

// A file in /tmp that is named by the key of a run.
#define KEYED "/tmp/weir-UID-0123456789abcdef"

// What ranks have that meet at an address, and must know each other.
#define SECRET "0123456789abcdef"
#define HAS_SECRET ("WEIR_SECRET=" SECRET)

// An environment, and what is made of it.
struct row {
    const char *name;
    const char *set[MOST_SET];  // "NAME=text"
    struct launch is;
    const char *refused;        // the sentence, where it is refused
};

static const char *look_up(void *self, const char *name)
{
    const struct row *row = self;
    for (size_t i = 0; i < MOST_SET && row->set[i]; i++)
        if (strncmp(row->set[i], name, strlen(name)) == 0 && row->set[i][strlen(name)] == '=')
            return row->set[i] + strlen(name) + 1;
    return NULL;
}

static struct row rows[] = {
    { .name = "without a launcher a process is alone", .is = { .ranks = 1, .local_ranks = 1 } },
    { .name = "torchrun says it all",
      .set = { "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=node7",
               "MASTER_PORT=1234", HAS_SECRET },
      .is = { .by = "torchrun", .rank = 5, .ranks = 8, .local_rank = 1, .local_ranks = 4, .address = "node7",
              .port = 1234, .is_spread = true, .secret = SECRET } },
    { .name = "all ranks of a machine listen to no other, whatever it is called",
      .set = { "RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=node7",
               "MASTER_PORT=1234" },
      .is = { .by = "torchrun", .rank = 1, .ranks = 4, .local_rank = 1, .local_ranks = 4, .port = 1234,
              .file = KEYED } },
    { .name = "ranks of one machine that have a secret need no file",
      .set = { "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", HAS_SECRET },
      .is = { .by = "torchrun", .rank = 1, .ranks = 2, .local_rank = 1, .local_ranks = 2, .address = "127.0.0.1",
              .port = LAUNCH_USUAL_PORT, .secret = SECRET } },
    { .name = "ranks at an address need a secret on several machines",
      .set = { "RANK=5", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=node7" },
      .refused = "torchrun started processes on several machines, which tell each other from strangers by a secret: "
                 "set WEIR_SECRET to the same random text for all of them, or WEIR_RENDEZVOUS to a file that all of "
                 "them see" },
    { .name = "an address says that there are several where nobody says how many ranks a machine has",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "MASTER_ADDR=node7" },
      .refused = "WEIR_RANK started processes on several machines, which tell each other from strangers by a secret: "
                 "set WEIR_SECRET to the same random text for all of them, or WEIR_RENDEZVOUS to a file that all of "
                 "them see" },
    { .name = "a secret that could be guessed is none",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "MASTER_ADDR=node7", "WEIR_SECRET=open sesame" },
      .refused = "WEIR_SECRET has 11 characters, and could be guessed: give all ranks the same random text of 16 "
                 "or more" },
    { .name = "how long ranks wait for each other to come is said by one who knows the cluster",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "WEIR_RENDEZVOUS=/run", "WEIR_START_WITHIN=1800s" },
      .is = { .by = "WEIR_RANK", .ranks = 2, .local_ranks = 2, .port = LAUNCH_USUAL_PORT, .file = "/run",
              .start_within_ns = 1800000000000 } },
    { .name = "and not in words that mean nothing",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "WEIR_RENDEZVOUS=/run", "WEIR_START_WITHIN=soon" },
      .refused = "WEIR_START_WITHIN: \"soon\" is not a time such as 18522us" },
    { .name = "nor as no time at all",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "WEIR_RENDEZVOUS=/run", "WEIR_START_WITHIN=0s" },
      .refused = "WEIR_START_WITHIN=0s leaves ranks no time to come; say 30s, or leave it unset for five minutes" },
    { .name = "a file is met at by one machine, unless somebody says that there are more",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=4", "WEIR_LOCAL_RANKS=2", "WEIR_RENDEZVOUS=/shared/run" },
      .is = { .by = "WEIR_RANK", .ranks = 4, .local_ranks = 2, .port = LAUNCH_USUAL_PORT, .file = "/shared/run",
              .is_spread = true } },
    { .name = "where torchrun listens itself, rank 0 takes the port behind",
      .set = { "RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=1234",
               "TORCHELASTIC_USE_AGENT_STORE=True" },
      .is = { .by = "torchrun", .ranks = 2, .local_ranks = 2, .port = 1235, .file = KEYED } },
    { .name = "so it does where ranks have a secret, and no file",
      .set = { "RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=1234",
               "TORCHELASTIC_USE_AGENT_STORE=True", HAS_SECRET },
      .is = { .by = "torchrun", .ranks = 2, .local_ranks = 2, .address = "127.0.0.1", .port = 1235,
              .secret = SECRET } },
    { .name = "a port alone is a place on one machine",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "MASTER_PORT=1234" },
      .is = { .by = "WEIR_RANK", .ranks = 2, .local_ranks = 2, .port = 1234, .file = KEYED } },
    { .name = "a rank without a place is refused, since another run may have such ranks",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2" },
      .refused = "WEIR_RANK says that this is rank 0 of 2, and nothing by which ranks of another run on this machine are "
                 "known from these: set WEIR_RENDEZVOUS to a file, or MASTER_PORT to a port, that no other run has" },
    { .name = "a secret is no place",
      .set = { "WEIR_RANK=1", "WEIR_RANKS=2", HAS_SECRET },
      .refused = "WEIR_RANK says that this is rank 1 of 2, and nothing by which ranks of another run on this machine are "
                 "known from these: set WEIR_RENDEZVOUS to a file, or MASTER_PORT to a port, that no other run has" },
    { .name = "so is a rank by torchrun's variables alone",
      .set = { "RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=none" },
      .refused = "torchrun says that this is rank 1 of 2, and nothing by which ranks of another run on this machine are "
                 "known from these: set WEIR_RENDEZVOUS to a file, or MASTER_PORT to a port, that no other run has" },
    { .name = "Open MPI on one machine needs no address",
      .set = { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
               "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=1070530561" },
      .is = { .by = "Open MPI", .rank = 1, .ranks = 2, .local_rank = 1, .local_ranks = 2,
              .port = LAUNCH_USUAL_PORT, .file = KEYED, .is_open = true } },
    { .name = "where a launcher has no name for the job MPI itself may tell",
      .set = { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
               "OMPI_COMM_WORLD_LOCAL_SIZE=2" },
      .is = { .by = "Open MPI", .rank = 1, .ranks = 2, .local_rank = 1, .local_ranks = 2,
              .port = LAUNCH_USUAL_PORT, .is_open = true } },
    { .name = "Open MPI on several machines has to be asked for one",
      .set = { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
               "OMPI_COMM_WORLD_LOCAL_SIZE=2" },
      .is = { .by = "Open MPI", .rank = 1, .ranks = 4, .local_rank = 1, .local_ranks = 2, .is_open = true,
              .is_spread = true, .port = LAUNCH_USUAL_PORT } },
    { .name = "a file serves them too",
      .set = { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
               "WEIR_RENDEZVOUS=/shared/run" },
      .is = { .by = "Open MPI", .rank = 1, .ranks = 4, .local_rank = 1, .local_ranks = 2, .port = LAUNCH_USUAL_PORT,
              .file = "/shared/run", .is_spread = true } },
    { .name = "so does NCCL's own variable",
      .set = { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
               "NCCL_COMM_ID=gpu3:2222", HAS_SECRET },
      .is = { .by = "Open MPI", .rank = 1, .ranks = 4, .local_rank = 1, .local_ranks = 2, .address = "gpu3",
              .port = 2222, .is_spread = true, .secret = SECRET } },
    { .name = "of an address with colons, the brackets go",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "NCCL_COMM_ID=[fe80::1]:2222", HAS_SECRET },
      .is = { .by = "WEIR_RANK", .ranks = 2, .local_ranks = 2, .address = "fe80::1", .port = 2222, .is_spread = true,
              .secret = SECRET } },
    { .name = "MASTER_ADDR says more than NCCL's variable",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "NCCL_COMM_ID=gpu3:2222", "MASTER_ADDR=gpu4", "MASTER_PORT=77",
               HAS_SECRET },
      .is = { .by = "WEIR_RANK", .ranks = 2, .local_ranks = 2, .address = "gpu4", .port = 77, .is_spread = true,
              .secret = SECRET } },
    { .name = "NCCL's variable needs a port",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "NCCL_COMM_ID=gpu3" },
      .refused = "NCCL_COMM_ID=\"gpu3\" is not the machine of rank 0, a colon, and a port" },
    { .name = "that is a number",
      .set = { "WEIR_RANK=0", "WEIR_RANKS=2", "NCCL_COMM_ID=gpu3:high" },
      .refused = "the port of NCCL_COMM_ID: \"high\" is not a whole number" },
    { .name = "MPICH's variables",
      .set = { "PMI_RANK=0", "PMI_SIZE=3", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=3" },
      .is = { .by = "MPICH", .ranks = 3, .local_ranks = 3, .port = LAUNCH_USUAL_PORT, .is_open = true } },
    { .name = "one who started MPICH's ranks may have a name for the job",
      .set = { "PMI_RANK=0", "PMI_SIZE=3", "PMI_JOBID=77.0" },
      .is = { .by = "MPICH", .ranks = 3, .local_ranks = 3, .port = LAUNCH_USUAL_PORT, .file = KEYED,
              .is_open = true } },
    { .name = "a launcher without MPI on several machines needs an address",
      .set = { "RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2" },
      .refused = "torchrun started processes on several machines, and nobody says where rank 0 is: set MASTER_ADDR to "
                 "its machine, or WEIR_RENDEZVOUS to a file that all machines see" },
    { .name = "Slurm's first node has rank 0",
      .set = { "SLURM_PROCID=9", "SLURM_NTASKS=16", "SLURM_LOCALID=1", "SLURM_STEP_NODELIST=gpu[03-07,9],cpu1",
               HAS_SECRET },
      .is = { .by = "Slurm", .rank = 9, .ranks = 16, .local_rank = 1, .local_ranks = 16, .address = "gpu03",
              .port = LAUNCH_USUAL_PORT, .is_spread = true, .secret = SECRET } },
    { .name = "Slurm's nodes may be named behind the number too",
      .set = { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=rack[2,4]-a,x", HAS_SECRET },
      .is = { .by = "Slurm", .ranks = 2, .local_ranks = 2, .address = "rack2-a", .port = LAUNCH_USUAL_PORT,
              .is_spread = true, .secret = SECRET } },
    { .name = "Slurm's ranks on several machines meet by a file, too",
      .set = { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=rack[2,4]", "WEIR_RENDEZVOUS=/shared/run" },
      .is = { .by = "Slurm", .ranks = 2, .local_ranks = 2, .port = LAUNCH_USUAL_PORT, .file = "/shared/run",
              .is_spread = true } },
    { .name = "a single node has no brackets, and is this one",
      .set = { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=one", "SLURM_JOB_ID=77", "SLURM_STEP_ID=0" },
      .is = { .by = "Slurm", .ranks = 2, .local_ranks = 2, .port = LAUNCH_USUAL_PORT, .file = KEYED } },
    { .name = "a job without a step is none",
      .set = { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=one", "SLURM_JOB_ID=77" },
      .refused = "Slurm says that this is rank 0 of 2, and nothing by which ranks of another run on this machine are "
                 "known from these: set WEIR_RENDEZVOUS to a file, or MASTER_PORT to a port, that no other run has" },
    { .name = "a list that cannot be read is named",
      .set = { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=rack[2" },
      .refused = "SLURM_STEP_NODELIST=\"rack[2\" does not begin with the name of a machine; say where rank 0 is with "
                 "MASTER_ADDR" },
    { .name = "one's own variables come first",
      .set = { "WEIR_RANK=2", "WEIR_RANKS=3", "RANK=0", "WORLD_SIZE=1", "WEIR_RENDEZVOUS=here" },
      .is = { .by = "WEIR_RANK", .rank = 2, .ranks = 3, .local_rank = 2, .local_ranks = 3, .port = LAUNCH_USUAL_PORT,
              .file = "here" } },
    { .name = "an empty variable is none",
      .set = { "RANK=", "PMI_RANK=0", "PMI_SIZE=1" },
      .is = { .by = "MPICH", .ranks = 1, .local_ranks = 1, .port = LAUNCH_USUAL_PORT } },
    { .name = "a rank needs a count",
      .set = { "RANK=0" },
      .refused = "RANK is set, and WORLD_SIZE is not: how many processes there are is missing" },
    { .name = "a rank past the end is refused",
      .set = { "RANK=4", "WORLD_SIZE=4" },
      .refused = "RANK=4 is past the last of WORLD_SIZE=4 processes (they count from 0)" },
    { .name = "what is no number is refused",
      .set = { "RANK=one", "WORLD_SIZE=4" },
      .refused = "RANK: \"one\" is not a whole number" },
    { .name = "there is no port 0",
      .set = { "RANK=0", "WORLD_SIZE=4", "MASTER_PORT=0" },
      .refused = "MASTER_PORT: 0 is not from 1 to 65535" },
};

static void assert_keyed(const char *file)
{
    char stem[60];
    const size_t length = (size_t)snprintf(stem, sizeof stem, "/tmp/weir-%u-", (unsigned)geteuid());
    assert_int_equal(strncmp(file, stem, length), 0);
    assert_int_equal(strlen(file + length), 16);
    assert_int_equal(strspn(file + length, "0123456789abcdef"), 16);
}

static struct launch read_launch(const char *const set[MOST_SET])
{
    struct row row = { 0 };
    struct error error = { 0 };
    struct launch launch;
    memcpy(row.set, set, sizeof row.set);
    assert_good(launch_read(&launch, look_up, &row, &error), error);
    return launch;
}

// Two environments of ranks 0 and 1, of one run or of two on one machine, which have one place or two.
static void runs_are_known_from_each_other(void **state)
{
    (void)state;
#define OPEN_MPI(rank, job, chance) \
    { "OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=" job, \
      "OMPI_MCA_orte_precondition_transports=" chance }
#define SLURM(rank, job, step) \
    { "SLURM_PROCID=" rank, "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=one", "SLURM_JOB_ID=" job, "SLURM_STEP_ID=" step }
#define TORCHRUN(rank, address, port, id) \
    { "RANK=" rank, "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=" address, "MASTER_PORT=" port, \
      "TORCHELASTIC_RUN_ID=" id }
    static const struct {
        const char *const of[2][MOST_SET];
        bool is_one;
    } pairs[] = {
        { { OPEN_MPI("0", "7", "a-b"), OPEN_MPI("1", "7", "a-b") }, true },
        { { OPEN_MPI("0", "7", "a-b"), OPEN_MPI("1", "8", "a-b") }, false },
        { { OPEN_MPI("0", "7", "a-b"), OPEN_MPI("1", "7", "a-c") }, false },
        { { SLURM("0", "77", "0"), SLURM("1", "77", "0") }, true },
        { { SLURM("0", "77", "0"), SLURM("1", "77", "1") }, false },
        { { SLURM("0", "77", "0"), SLURM("1", "78", "0") }, false },
        { { SLURM("0", "7", "71"), SLURM("1", "77", "1") }, false },
        { { TORCHRUN("0", "one", "1234", "none"), TORCHRUN("1", "one", "1234", "none") }, true },
        { { TORCHRUN("0", "localhost", "1234", "x"), TORCHRUN("1", "127.0.0.1", "1234", "x") }, true },
        { { TORCHRUN("0", "one", "1234", "none"), TORCHRUN("1", "one", "1235", "none") }, false },
        { { TORCHRUN("0", "one", "1234", "none"), TORCHRUN("1", "two", "1234", "none") }, false },
        { { TORCHRUN("0", "one", "1234", "x"), TORCHRUN("1", "one", "1234", "y") }, false },
        { { { "WEIR_RANK=0", "WEIR_RANKS=2", "MASTER_PORT=1234" }, { "WEIR_RANK=1", "WEIR_RANKS=2", "MASTER_PORT=1234" } },
          true },
        { { { "WEIR_RANK=0", "WEIR_RANKS=2", "MASTER_PORT=1234" }, { "WEIR_RANK=1", "WEIR_RANKS=2", "MASTER_PORT=1236" } },
          false },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct launch a = read_launch(pairs[i].of[0]), b = read_launch(pairs[i].of[1]);
        assert_keyed(a.file);
        if ((strcmp(a.file, b.file) == 0) != pairs[i].is_one)
            fail_msg("pair %zu: %s and %s", i, a.file, b.file);
    }
}

// On several machines a name of the job is in the secret: jobs of one user, who has one WEIR_SECRET, are strangers.
static void jobs_with_one_secret_have_secrets_of_their_own(void **state)
{
    (void)state;
#define SPREAD(rank, job) \
    { "SLURM_PROCID=" rank, "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_ID=0", "SLURM_JOB_ID=" job, \
      HAS_SECRET }
    static const char *const first[MOST_SET] = SPREAD("0", "1"), *const second[MOST_SET] = SPREAD("1", "1"),
                            *const other[MOST_SET] = SPREAD("1", "2");
    const struct launch a = read_launch(first), b = read_launch(second), c = read_launch(other);
    assert_string_equal(a.address, "n1");
    assert_string_equal(a.secret, b.secret);
    assert_string_not_equal(a.secret, c.secret);
    assert_string_not_equal(a.secret, SECRET);
}

// An open file, to who has the other end.
static bool pass_on(int to, int file)
{
    char room[CMSG_SPACE(sizeof file)] = { 0 }, byte = 0;
    struct iovec bytes = { &byte, 1 };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    *first = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file) };
    memcpy(CMSG_DATA(first), &file, sizeof file);
    return sendmsg(to, &message, 0) == 1;
}

static int take_passed(int from)
{
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec bytes = { &byte, 1 };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    int file = -1;
    assert_int_equal(recvmsg(from, &message, 0), 1);
    assert_non_null(CMSG_FIRSTHDR(&message));
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

// MPICH's launcher has a process for all ranks on a machine, which makes each a pair of sockets.
static void ranks_of_one_mpich_launcher_are_of_one_run(void **state)
{
    (void)state;
    int own[2][2], pipes[2], others[2], told[2];
    char numbers[4][20];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, own[0]), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, own[1]), 0);
    assert_int_equal(pipe(pipes), 0);
    // Another launcher makes its pair, and passes an end of it on.
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, told), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(socketpair(AF_UNIX, SOCK_STREAM, 0, others) == 0 && pass_on(told[1], others[0]) ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    others[0] = take_passed(told[0]);
    const int files[4] = { own[0][1], own[1][1], others[0], pipes[0] };
    struct launch launches[4];
    for (size_t i = 0; i < 4; i++) {
        snprintf(numbers[i], sizeof numbers[i], "PMI_FD=%d", files[i]);
        const char *const set[MOST_SET] = { "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2", numbers[i] };
        launches[i] = read_launch(set);
        assert_true(launches[i].is_open);
    }
    assert_keyed(launches[0].file);
    assert_string_equal(launches[0].file, launches[1].file);
    assert_string_not_equal(launches[0].file, launches[2].file);
    assert_string_equal(launches[3].file, "");  // which no launcher of MPICH has made: nothing is known
    for (size_t i = 0; i < 2; i++) {
        close(own[i][0]);
        close(own[i][1]);
        close(pipes[i]);
        close(told[i]);
    }
    close(others[0]);
}

static void is_read(void **state)
{
    const struct row *row = *state;
    struct error error = { 0 };
    struct launch launch;
    if (row->refused) {
        assert_false(launch_read(&launch, look_up, *state, &error));
        assert_error(error, row->refused);
        assert_int_equal(error.kind, ERROR_INPUT);
        return;
    }
    assert_good(launch_read(&launch, look_up, *state, &error), error);
    assert_true(row->is.by ? launch.by && strcmp(launch.by, row->is.by) == 0 : !launch.by);
    assert_int_equal(launch.rank, row->is.rank);
    assert_int_equal(launch.ranks, row->is.ranks);
    assert_int_equal(launch.local_rank, row->is.local_rank);
    assert_int_equal(launch.local_ranks, row->is.local_ranks);
    assert_string_equal(launch.address, row->is.address);
    assert_int_equal(launch.port, row->is.port);
    if (strcmp(row->is.file, KEYED) == 0)
        assert_keyed(launch.file);
    else
        assert_string_equal(launch.file, row->is.file);
    assert_string_equal(launch.secret, row->is.secret);
    assert_int_equal(launch.is_spread, row->is.is_spread);
    assert_int_equal(launch.is_open, row->is.is_open);
    assert_int_equal(launch.start_within_ns, row->is.start_within_ns);
}

int main(void)
{
    struct CMUnitTest tests[sizeof rows / sizeof rows[0] + 3] = {
        cmocka_unit_test(runs_are_known_from_each_other),
        cmocka_unit_test(jobs_with_one_secret_have_secrets_of_their_own),
        cmocka_unit_test(ranks_of_one_mpich_launcher_are_of_one_run),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tests[i + 3] = (struct CMUnitTest)TEST_ROW(is_read, &rows[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
