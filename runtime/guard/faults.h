// Calls that come back when they touch memory that is not there, with the address. For looking for faults only: what
// the call held is lost.
#ifndef RUNTIME_GUARD_FAULTS_H
#define RUNTIME_GUARD_FAULTS_H

#include <stdbool.h>

#include "common/error.h"

// From the one to the other SIGSEGV and SIGBUS are caught, in this process; one thread at a time, others wait.
bool faults_begin(struct error *error);
void faults_end(void);

// Whether the call returned by itself. A fault in another thread goes where it went before.
bool faults_call(void (*function)(void *data), void *data, const void **address);

#endif
