// Waits for data on TCP connections that belong to another part of the process, which reads them only when it is
// called: MPI.
//
//     looks (calls of MPI)        |        |  | | |  |   |
//     bytes come                           x.xxxxxxxxxxx
//     pause                        ........ .. . . .. ...
//                                  until a      a part of what the message
//                                  byte comes   has taken so far (pause.h)
//
// It is unknown which connections these are, and data that comes by shared memory or InfiniBand wakes no waiter. The
// listener therefore learns. As long as all progress has been announced by some connection, a pause lasts until a
// connection has bytes to read, or room for bytes that had to wait. It lasts a few milliseconds at most. After
// progress that was not announced, a pause lasts as long as pause.h says, until enough progress has been announced
// again.
#ifndef COMMON_LISTENER_H
#define COMMON_LISTENER_H

#include <stdbool.h>

#include "common/error.h"

enum listener_wake { WOKEN_BY_TIME, WOKEN_BY_CONNECTION, WOKEN_BY_CALL };

struct listener;

// Creates a listener, freed by listener_free(). Returns NULL, with the reason, if the system lacks resources.
struct listener *listener_create(struct error *error);
void listener_free(struct listener *listener);

// May be called from any thread. The current pause ends now; if there is none, the next one ends at once.
void listener_call(struct listener *listener);

// Pauses after a look. `moved`: the data that was waited for, or a part of it, had come. Returns how the pause
// ended.
enum listener_wake listener_pause(struct listener *listener, bool moved);

// The same until listener_call(), when there is nothing more to wait for.
void listener_sleep(struct listener *listener, bool moved);

#endif
