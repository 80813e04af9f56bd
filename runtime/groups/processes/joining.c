#include "runtime/groups/processes/joining.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/plugin.h"

int joining_left_ms(uint64_t until_ns, int most)
{
    const uint64_t now = clock_now_ns();
    const uint64_t left = now >= until_ns ? 0 : (until_ns - now) / 1000000 + 1;
    return left < (uint64_t)most ? (int)left : most;
}

void joining_tell(const struct joining *joining, uint64_t *next_ns, const char *waits)
{
    const uint64_t now = clock_now_ns(), every_ns = joining->settings->telling_ns;
    if (*next_ns == 0)
        *next_ns = add_clamped(joining->start_ns, every_ns);
    if (now < *next_ns || now >= joining->deadline_ns)
        return;
    *next_ns = add_clamped(now, every_ns);
    char sentence[600], since[NUMBER_SIZE], left[NUMBER_SIZE];
    snprintf(sentence, sizeof sentence, "rank %u waits for %s, since %s and for %s more", joining->launch->rank, waits,
             time_format(now - joining->start_ns, since), time_format(joining->deadline_ns - now, left));
    if (joining->settings->tell)
        joining->settings->tell(joining->settings->self, sentence);
}

static bool lacks_place(const struct launch *launch, const struct error *missing, struct error *error)
{
    struct error reason = { 0 };
    launch_has_no_place(launch, &reason);
    return error_set(error, "%s; or let MPI tell it, for which %s", reason.text, missing->text);
}

bool join_ranks(const struct joining *joining, struct error *error)
{
    const struct launch *launch = joining->launch;
    struct error missing = { 0 };
    if (launch->ranks == 1)
        return true;
    const struct plugin *plugin = launch->is_open ? plugin_open_mpi(&missing) : NULL;
    const struct process_functions *mpi = plugin ? plugin->processes : NULL;
    if (!mpi && !launch->file[0] && !launch->address[0])
        return lacks_place(launch, &missing, error);
    return launch->rank == 0 ? joining_host(joining, mpi, error) : joining_go_to(joining, mpi, error);
}
