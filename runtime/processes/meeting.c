#include "runtime/processes/meeting.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/plugin.h"

int meeting_left_ms(uint64_t until_ns, int most)
{
    const uint64_t now = clock_now_ns();
    const uint64_t left = now >= until_ns ? 0 : (until_ns - now) / 1000000 + 1;
    return left < (uint64_t)most ? (int)left : most;
}

void meeting_tell(const struct meeting *meeting, uint64_t *next_ns, const char *waits)
{
    const uint64_t now = clock_now_ns(), every_ns = meeting->settings->telling_ns;
    if (*next_ns == 0)
        *next_ns = add_clamped(meeting->start_ns, every_ns);
    if (now < *next_ns || now >= meeting->deadline_ns)
        return;
    *next_ns = add_clamped(now, every_ns);
    char sentence[600], since[NUMBER_SIZE], left[NUMBER_SIZE];
    snprintf(sentence, sizeof sentence, "rank %u waits for %s, since %s and for %s more", meeting->launch->rank, waits,
             time_format(now - meeting->start_ns, since), time_format(meeting->deadline_ns - now, left));
    if (meeting->settings->tell)
        meeting->settings->tell(meeting->settings->self, sentence);
}

static bool lacks_place(const struct launch *launch, const struct error *missing, struct error *error)
{
    struct error reason = { 0 };
    launch_has_no_place(launch, &reason);
    return error_set(error, "%s; or let MPI tell it, for which %s", reason.text, missing->text);
}

bool meet(const struct meeting *meeting, struct error *error)
{
    const struct launch *launch = meeting->launch;
    struct error missing = { 0 };
    if (launch->ranks == 1)
        return true;
    const struct plugin *plugin = launch->is_open ? plugin_open_mpi(&missing) : NULL;
    const struct process_functions *mpi = plugin ? plugin->processes : NULL;
    if (!mpi && !launch->file[0] && !launch->address[0])
        return lacks_place(launch, &missing, error);
    return launch->rank == 0 ? meeting_host(meeting, mpi, error) : meeting_go_to(meeting, mpi, error);
}
