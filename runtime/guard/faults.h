// Calls functions so that the call returns, with the address, if the function touches memory that is not there. Only
// for finding faults: what the call held is lost.
#ifndef RUNTIME_GUARD_FAULTS_H
#define RUNTIME_GUARD_FAULTS_H

#include <stdbool.h>

#include "common/error.h"

// Between these two calls SIGSEGV and SIGBUS are caught in this process. Only one thread at a time can do this;
// others wait.
bool faults_begin(struct error *error);
void faults_end(void);

// Whether the call returned by itself. A fault in another thread is handled as before.
bool faults_call(void (*function)(void *data), void *data, const void **address);

#endif
