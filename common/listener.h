// Waiting for what comes by TCP connections that somebody else in this process reads, and only when called: MPI.
//
//     looks (whoever calls MPI)   |        |  | | |  |   |
//     bytes come                           x.xxxxxxxxxxx
//     pause                        ........ .. . . .. ...
//                                  until a      a part of what the message
//                                  byte comes   has taken so far (pause.h)
//
// Which connections those are nobody says, and what comes by shared memory or InfiniBand wakes nobody. So it is learnt:
// as long as some connection had announced whatever moved, a pause lasts until one has bytes to read, or room for bytes
// that had to wait; and a few milliseconds at most. After something that had not been announced it lasts as pause.h says,
// until enough was announced again.
#ifndef COMMON_LISTENER_H
#define COMMON_LISTENER_H

#include <stdbool.h>

#include "common/error.h"

enum listener_wake { WOKEN_BY_TIME, WOKEN_BY_CONNECTION, WOKEN_BY_CALL };

struct listener;

// The caller frees it. NULL, with the reason, where the system has no room for it.
struct listener *listener_create(struct error *error);
void listener_free(struct listener *listener);

// From any thread: the pause ends now, or the next one does at once.
void listener_call(struct listener *listener);

// After a look; `moved`: what was waited for, or a part of it, had come. How the pause ended.
enum listener_wake listener_pause(struct listener *listener, bool moved);

// The same, until called: there is nothing more to wait for.
void listener_sleep(struct listener *listener, bool moved);

#endif
