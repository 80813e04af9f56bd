#include "runtime/groups/processes/launched.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/number.h"
#include "common/text.h"

enum { KEYS = 2 };

// The variables of each launcher, in the order in which they are looked for. The `keys` name the job, the same for
// all its ranks, and count only if none of them is missing. With `more`, jobs are told apart that have the same name
// or address. All torchrun jobs without an id of their own are called "none", and before version 5 an Open MPI job
// number has only 16 random bits.
static const struct launcher {
    const char *name;
    const char *rank, *ranks, *local_rank, *local_ranks;
    const char *keys[KEYS], *more;
} launchers[] = {
    { "WEIR_RANK", "WEIR_RANK", "WEIR_RANKS", "WEIR_LOCAL_RANK", "WEIR_LOCAL_RANKS", { NULL }, NULL },
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", { NULL }, "TORCHELASTIC_RUN_ID" },
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", { "PMIX_NAMESPACE" }, "OMPI_MCA_orte_precondition_transports" },
    { "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", { "PMI_JOBID" }, NULL },
    { "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
      { "SLURM_JOB_ID", "SLURM_STEP_ID" }, NULL },
};

enum { MOST_PROCESSES = 1 << 20 };

struct asked {
    launch_lookup *lookup;
    void *self;
};

// A variable's text; NULL if it is unset or empty.
static const char *ask(const struct asked *asked, const char *name)
{
    const char *text = asked->lookup(asked->self, name);
    return text && text[0] ? text : NULL;
}

// A number of at least `least`; `usual` if the variable is not set.
static bool ask_count(const struct asked *asked, const char *name, uint64_t least, uint64_t most, uint32_t usual,
                      uint32_t *count, struct error *error)
{
    const char *text = ask(asked, name);
    uint64_t number = usual;
    if (text && !count_parse(text, name, least, most, &number, error))
        return false;
    *count = (uint32_t)number;
    return true;
}

static bool ask_ranks(const struct asked *asked, const struct launcher *launcher, struct launch *launch,
                      struct error *error)
{
    if (!ask(asked, launcher->ranks))
        return error_set(error, "%s is set, and %s is not: how many processes there are is missing", launcher->rank,
                         launcher->ranks);
    if (!ask_count(asked, launcher->ranks, 1, MOST_PROCESSES, 1, &launch->ranks, error)
        || !ask_count(asked, launcher->rank, 0, MOST_PROCESSES, 0, &launch->rank, error)
        || !ask_count(asked, launcher->local_rank, 0, MOST_PROCESSES, launch->rank, &launch->local_rank, error)
        || !ask_count(asked, launcher->local_ranks, 1, MOST_PROCESSES, launch->ranks, &launch->local_ranks, error))
        return false;
    if (launch->rank >= launch->ranks)
        return error_set(error, "%s=%u is past the last of %s=%u processes (they count from 0)", launcher->rank,
                         launch->rank, launcher->ranks, launch->ranks);
    return true;
}

// --- where rank 0 is -----------------------------------------------------------------

// The first machine of Slurm's list: "node[03-07,9],other" is node03.
static bool first_node(const char *list, char *name, size_t size)
{
    const size_t stem = strcspn(list, "[,");
    const size_t number = list[stem] == '[' ? strcspn(list + stem + 1, "-,]") : 0;
    const char *behind = list[stem] == '[' ? strchr(list + stem, ']') : NULL;
    const size_t end = behind ? strcspn(behind + 1, ",") : 0;  // "rack[1-2]-node": what follows the bracket
    if (stem + number + end >= size || stem + number == 0 || (list[stem] == '[' && !behind))
        return false;
    snprintf(name, size, "%.*s%.*s%.*s", (int)stem, list, (int)number, list + stem + 1, (int)end,
             behind ? behind + 1 : "");
    return true;
}

static bool ask_text(const struct asked *asked, const char *name, char text[LAUNCH_PLACE_SIZE], struct error *error)
{
    const char *given = ask(asked, name);
    if (given && strlen(given) >= LAUNCH_PLACE_SIZE)
        return error_set(error, "%s has %zu characters; at most %d are read", name, strlen(given),
                         LAUNCH_PLACE_SIZE - 1);
    if (given)
        strcpy(text, given);
    return true;
}

// "gpu3:2222" or "[fe80::1]:2222", as NCCL reads it.
static bool ask_comm_id(const struct asked *asked, struct launch *launch, uint32_t *port, struct error *error)
{
    const char *text = ask(asked, "NCCL_COMM_ID");
    const char *colon = text ? strrchr(text, ':') : NULL;
    if (!text || launch->file[0] || launch->address[0])
        return true;
    const bool has_brackets = text[0] == '[' && colon && colon > text + 1 && colon[-1] == ']';
    const size_t length = colon ? (size_t)(colon - text) - 2 * has_brackets : 0;
    uint64_t number;
    if (length == 0 || length >= LAUNCH_PLACE_SIZE)
        return error_set(error, "NCCL_COMM_ID=\"%.100s\" is not the machine of rank 0, a colon, and a port", text);
    if (!count_parse(colon + 1, "the port of NCCL_COMM_ID", 1, UINT16_MAX, &number, error))
        return false;
    snprintf(launch->address, sizeof launch->address, "%.*s", (int)length, text + has_brackets);
    *port = (uint32_t)number;
    return true;
}

bool launch_has_no_place(const struct launch *launch, struct error *error)
{
    if (launch->is_spread)
        return error_set(error, "%s started processes on several machines, and nobody says where rank 0 is: set "
                         "MASTER_ADDR to its machine, or WEIR_RENDEZVOUS to a file that all machines see", launch->by);
    return error_set(error, "%s says that this is rank %u of %u, and nothing by which ranks of another run on this "
                     "machine are known from these: set WEIR_RENDEZVOUS to a file, or MASTER_PORT to a port, that no "
                     "other run has", launch->by, launch->rank, launch->ranks);
}

// An address that no other machine can reach.
static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "localhost") == 0 || strcmp(address, "::1") == 0;
}

static const char *slurm_nodes(const struct asked *asked, const struct launch *launch)
{
    return strcmp(launch->by, "Slurm") == 0 ? ask(asked, "SLURM_STEP_NODELIST") : NULL;
}

static bool is_spread(const struct asked *asked, const struct launcher *launcher, const struct launch *launch)
{
    const char *nodes = slurm_nodes(asked, launch);
    if (is_loopback(launch->address))
        return false;
    if (nodes)
        return strpbrk(nodes, "[,") != NULL;
    return ask(asked, launcher->local_ranks) ? launch->local_ranks < launch->ranks : launch->address[0] != '\0';
}

static bool ask_address(const struct asked *asked, struct launch *launch, bool *is_named, struct error *error)
{
    uint32_t port;
    if (!ask_text(asked, "WEIR_RENDEZVOUS", launch->file, error)
        || !ask_text(asked, "MASTER_ADDR", launch->address, error)
        || !ask_count(asked, "MASTER_PORT", 1, UINT16_MAX, LAUNCH_USUAL_PORT, &port, error)
        || !ask_comm_id(asked, launch, &port, error))
        return false;
    // torchrun itself listens there as long as its processes run, and says so.
    if (ask(asked, "TORCHELASTIC_USE_AGENT_STORE"))
        port = port < UINT16_MAX ? port + 1 : port - 1;
    launch->port = (uint16_t)port;
    if (launch->file[0])
        launch->address[0] = '\0';
    *is_named = launch->address[0] || (!launch->file[0] && ask(asked, "MASTER_PORT"));
    const char *nodes = slurm_nodes(asked, launch);
    if (launch->ranks > 1 && nodes && !launch->file[0] && !launch->address[0])
        return first_node(nodes, launch->address, sizeof launch->address)
            || error_set(error, "SLURM_STEP_NODELIST=\"%.100s\" does not begin with the name of a machine; say where "
                         "rank 0 is with MASTER_ADDR", nodes);
    return true;
}

// --- which run it is -----------------------------------------------------------------

// MPICH's launcher gives each rank one end of a pair of sockets. Adds the process that made the pair: it is the same
// for all ranks of a run on a machine, and differs between runs within a process-id namespace. Adds nothing if it is
// unknown.
static void ask_launcher_process(const struct asked *asked, struct text *key)
{
    const char *number = ask(asked, "PMI_FD");
    uint64_t file;
    struct ucred maker = { 0 };
    struct stat space = { 0 };
    socklen_t size = sizeof maker;
    struct error none = { 0 };
    if (number && count_parse(number, "PMI_FD", 0, INT_MAX, &file, &none)
        && getsockopt((int)file, SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0 && maker.pid > 0
        && stat("/proc/self/ns/pid", &space) == 0)
        text_add(key, "process %ld of %llu\n", (long)maker.pid, (unsigned long long)space.st_ino);
}

// The name of the job, the same for all its ranks; nothing if the launcher has none.
static void ask_job(const struct asked *asked, const struct launcher *launcher, struct text *job)
{
    for (size_t i = 0; i < KEYS && launcher->keys[i]; i++)
        if (!ask(asked, launcher->keys[i]))
            return;
    for (size_t i = 0; i < KEYS && launcher->keys[i]; i++)
        text_add(job, "%s=%s\n", launcher->keys[i], ask(asked, launcher->keys[i]));
}

static void ask_more(const struct asked *asked, const struct launcher *launcher, struct text *key)
{
    if (launcher->more && ask(asked, launcher->more))
        text_add(key, "%s=%s\n", launcher->more, ask(asked, launcher->more));
}

// What tells this run from others on this machine; nothing if nothing does.
static void ask_key(const struct asked *asked, const struct launcher *launcher, const struct launch *launch,
                    bool is_named, struct text *key)
{
    ask_job(asked, launcher, key);
    if (strcmp(launch->by, "MPICH") == 0)
        ask_launcher_process(asked, key);
    if (is_named)
        text_add(key, "%s port %u\n", is_loopback(launch->address) ? "" : launch->address, launch->port);
    if (key->length > 0)
        ask_more(asked, launcher, key);
}

static bool hash_text(const struct text *text, char digits[HASH_SIZE], struct error *error)
{
    digits[0] = '\0';
    if (text->length > 0 && !text->failed)
        hash_bytes(text->data, text->length, digits);
    return !text->failed || error_no_memory(error, "the name of a run");
}

// From a secret that a user has for all runs, each job derives one of its own, if the launcher names jobs.
static bool ask_secret(const struct asked *asked, const struct launcher *launcher, struct launch *launch,
                       struct error *error)
{
    char given[LAUNCH_PLACE_SIZE] = "", digits[HASH_SIZE];
    struct text job = { 0 };
    if (!ask_text(asked, "WEIR_SECRET", given, error))
        return false;
    if (given[0] && strlen(given) < LAUNCH_LEAST_SECRET)
        return error_set(error, "WEIR_SECRET has %zu characters, and could be guessed: give all ranks the same random "
                         "text of %d or more", strlen(given), LAUNCH_LEAST_SECRET);
    if (!given[0])
        return true;
    ask_job(asked, launcher, &job);
    ask_more(asked, launcher, &job);
    const bool good = hash_text(&job, digits, error);
    snprintf(launch->secret, sizeof launch->secret, job.length > 0 ? "%s\n%s" : "%s", given, digits);
    text_clear(&job);
    return good;
}

// Checks where ranks on several machines meet.
static bool check_far_place(const struct launch *launch, struct error *error)
{
    if (launch->file[0] || launch->is_open)
        return true;
    if (!launch->address[0])
        return launch_has_no_place(launch, error);
    return launch->secret[0]
        || error_set(error, "%s started processes on several machines, which tell each other from strangers by a "
                     "secret: set WEIR_SECRET to the same random text for all of them, or WEIR_RENDEZVOUS to a file "
                     "that all of them see", launch->by);
}

// Finds where ranks on one machine meet.
static bool ask_near_place(const struct asked *asked, const struct launcher *launcher, struct launch *launch,
                           bool is_named, struct error *error)
{
    char digits[HASH_SIZE];
    struct text key = { 0 };
    if (launch->file[0])
        return true;
    if (is_named && launch->secret[0]) {
        strcpy(launch->address, "127.0.0.1");
        return true;
    }
    ask_key(asked, launcher, launch, is_named, &key);
    launch->address[0] = '\0';
    const bool good = hash_text(&key, digits, error), is_known = key.length > 0;
    text_clear(&key);
    if (!good || !is_known)
        return good && (launch->is_open || launch_has_no_place(launch, error));
    snprintf(launch->file, sizeof launch->file, "/tmp/weir-%u-%.16s", (unsigned)geteuid(), digits);
    return true;
}

static bool ask_place(const struct asked *asked, const struct launcher *launcher, struct launch *launch,
                      struct error *error)
{
    bool is_named;
    if (!ask_address(asked, launch, &is_named, error))
        return false;
    if (launch->ranks == 1)
        return true;
    launch->is_spread = is_spread(asked, launcher, launch);
    launch->is_open = !launch->file[0] && !launch->address[0]
                   && (strcmp(launch->by, "Open MPI") == 0 || strcmp(launch->by, "MPICH") == 0);
    return ask_secret(asked, launcher, launch, error)
        && (launch->is_spread ? check_far_place(launch, error)
                              : ask_near_place(asked, launcher, launch, is_named, error));
}

static bool ask_patience(const struct asked *asked, struct launch *launch, struct error *error)
{
    const char *text = ask(asked, "WEIR_START_WITHIN");
    struct error reason = { 0 };
    if (text && !time_parse(text, &launch->start_within_ns, &reason))
        return error_set(error, "WEIR_START_WITHIN: %s", reason.text);
    if (text && launch->start_within_ns == 0)
        return error_set(error, "WEIR_START_WITHIN=%.100s leaves ranks no time to come; say 30s, or leave it unset for "
                         "five minutes", text);
    return true;
}

bool launch_read(struct launch *launch, launch_lookup *lookup, void *self, struct error *error)
{
    const struct asked asked = { lookup, self };
    *launch = (struct launch){ .ranks = 1, .local_ranks = 1 };
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        if (!ask(&asked, launchers[i].rank))
            continue;
        launch->by = launchers[i].name;
        return ask_ranks(&asked, &launchers[i], launch, error)
            && ask_place(&asked, &launchers[i], launch, error) && ask_patience(&asked, launch, error);
    }
    return true;
}

static const char *environment(void *self, const char *name)
{
    (void)self;
    return getenv(name);
}

bool launch_from_environment(struct launch *launch, struct error *error)
{
    return launch_read(launch, environment, NULL, error);
}
