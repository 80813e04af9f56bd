#include "runtime/processes/launched.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

enum { MOST_SET = 7 };

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
      .is = { .by = "torchrun", .rank = 1, .ranks = 4, .local_rank = 1, .local_ranks = 4, .address = "127.0.0.1",
              .port = 1234, .file = "/tmp/weir-UID-1234" } },
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
      .is = { .by = "torchrun", .ranks = 2, .local_ranks = 2, .address = "127.0.0.1", .port = 1235,
              .file = "/tmp/weir-UID-1235" } },
    { .name = "Open MPI on one machine needs no address",
      .set = { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
               "OMPI_COMM_WORLD_LOCAL_SIZE=2" },
      .is = { .by = "Open MPI", .rank = 1, .ranks = 2, .local_rank = 1, .local_ranks = 2, .address = "127.0.0.1",
              .port = LAUNCH_USUAL_PORT, .file = "/tmp/weir-UID-29400", .is_open = true } },
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
      .is = { .by = "MPICH", .ranks = 3, .local_ranks = 3, .address = "127.0.0.1", .port = LAUNCH_USUAL_PORT,
              .file = "/tmp/weir-UID-29400", .is_open = true } },
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
      .set = { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=one" },
      .is = { .by = "Slurm", .ranks = 2, .local_ranks = 2, .address = "127.0.0.1", .port = LAUNCH_USUAL_PORT,
              .file = "/tmp/weir-UID-29400" } },
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
    char file[LAUNCH_PLACE_SIZE];
    const char *user = strstr(row->is.file, "UID");
    snprintf(file, sizeof file, "%s", row->is.file);
    if (user)
        snprintf(file, sizeof file, "%.*s%u%s", (int)(user - row->is.file), row->is.file, (unsigned)geteuid(),
                 user + strlen("UID"));
    assert_string_equal(launch.file, file);
    assert_string_equal(launch.secret, row->is.secret);
    assert_int_equal(launch.is_spread, row->is.is_spread);
    assert_int_equal(launch.is_open, row->is.is_open);
    assert_int_equal(launch.start_within_ns, row->is.start_within_ns);
}

int main(void)
{
    struct CMUnitTest tests[sizeof rows / sizeof rows[0]];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tests[i] = (struct CMUnitTest)TEST_ROW(is_read, &rows[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
