#include "runtime/processes/launched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/number.h"

// What launchers call things; first who asks to be asked first.
static const struct launcher {
    const char *name;
    const char *rank, *ranks, *local_rank, *local_ranks;
} launchers[] = {
    { "WEIR_RANK", "WEIR_RANK", "WEIR_RANKS", "WEIR_LOCAL_RANK", "WEIR_LOCAL_RANKS" },
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE" },
    { "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
    { "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE" },
};

enum { MOST_PROCESSES = 1 << 20 };

struct asked {
    launch_lookup *lookup;
    void *self;
};

// A variable's text, NULL where it is unset or empty.
static const char *ask(const struct asked *asked, const char *name)
{
    const char *text = asked->lookup(asked->self, name);
    return text && text[0] ? text : NULL;
}

// A number from `least` on; `usual` where nobody says it.
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
    return error_set(error, "%s started processes on several machines, and nobody says where rank 0 is: set "
                     "MASTER_ADDR to its machine, or WEIR_RENDEZVOUS to a file that all machines see", launch->by);
}

// What nobody on another machine can reach.
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

static bool ask_address(const struct asked *asked, struct launch *launch, struct error *error)
{
    uint32_t port;
    if (!ask_text(asked, "WEIR_RENDEZVOUS", launch->file, error)
        || !ask_text(asked, "MASTER_ADDR", launch->address, error)
        || !ask_count(asked, "MASTER_PORT", 1, UINT16_MAX, LAUNCH_USUAL_PORT, &port, error)
        || !ask_comm_id(asked, launch, &port, error))
        return false;
    // torchrun listens there itself, for as long as its processes run, and says so.
    if (ask(asked, "TORCHELASTIC_USE_AGENT_STORE"))
        port = port < UINT16_MAX ? port + 1 : port - 1;
    launch->port = (uint16_t)port;
    if (launch->file[0])
        launch->address[0] = '\0';
    const char *nodes = slurm_nodes(asked, launch);
    if (launch->ranks > 1 && nodes && !launch->file[0] && !launch->address[0])
        return first_node(nodes, launch->address, sizeof launch->address)
            || error_set(error, "SLURM_STEP_NODELIST=\"%.100s\" does not begin with the name of a machine; say where "
                         "rank 0 is with MASTER_ADDR", nodes);
    return true;
}

// How ranks that meet at an address know each other.
static bool ask_secret(const struct asked *asked, struct launch *launch, struct error *error)
{
    if (!ask_text(asked, "WEIR_SECRET", launch->secret, error))
        return false;
    if (launch->secret[0] && strlen(launch->secret) < LAUNCH_LEAST_SECRET)
        return error_set(error, "WEIR_SECRET has %zu characters, and could be guessed: give all ranks the same random "
                         "text of %d or more", strlen(launch->secret), LAUNCH_LEAST_SECRET);
    if (launch->secret[0] || launch->file[0] || !launch->address[0])
        return true;
    if (launch->is_spread)
        return error_set(error, "%s started processes on several machines, which tell each other from strangers by a "
                         "secret: set WEIR_SECRET to the same random text for all of them, or WEIR_RENDEZVOUS to a "
                         "file that all of them see", launch->by);
    snprintf(launch->file, sizeof launch->file, "/tmp/weir-%u-%u", (unsigned)geteuid(), launch->port);
    return true;
}

static bool ask_place(const struct asked *asked, const struct launcher *launcher, struct launch *launch,
                      struct error *error)
{
    if (!ask_address(asked, launch, error))
        return false;
    if (launch->ranks == 1)
        return true;
    launch->is_spread = is_spread(asked, launcher, launch);
    const bool has_place = launch->file[0] || launch->address[0];
    launch->is_open = !has_place && (strcmp(launch->by, "Open MPI") == 0 || strcmp(launch->by, "MPICH") == 0);
    if (!has_place && launch->is_spread && !launch->is_open)
        return launch_has_no_place(launch, error);
    if (!launch->file[0] && !launch->is_spread)
        strcpy(launch->address, "127.0.0.1");
    return ask_secret(asked, launch, error);
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
