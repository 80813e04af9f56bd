#include "runtime/guard/faults.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

enum { SIGNALS = 2 };
static const int signals[SIGNALS] = { SIGSEGV, SIGBUS };
static struct sigaction before[SIGNALS];
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local struct {
    sigjmp_buf back;
    const void *address;
    volatile sig_atomic_t is_calling;
} here;

static void give_back(void)
{
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &before[i], NULL);
}

static void catch(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    if (!here.is_calling) {  // not ours: the fault occurs again at once, and then the earlier handler gets it
        give_back();
        return;
    }
    here.is_calling = 0;
    here.address = info->si_addr;
    siglongjmp(here.back, 1);
}

bool faults_begin(struct error *error)
{
    struct sigaction action = { .sa_sigaction = catch, .sa_flags = SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&one_at_a_time);
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], NULL, &before[i]);
    for (int i = 0; i < SIGNALS; i++) {
        if (sigaction(signals[i], &action, NULL) != 0) {
            const int why = errno;
            faults_end();
            return error_set_kind(error, ERROR_MACHINE, "faults of layers cannot be caught: %s", strerror(why));
        }
    }
    return true;
}

void faults_end(void)
{
    give_back();
    pthread_mutex_unlock(&one_at_a_time);
}

bool faults_call(void (*function)(void *data), void *data, const void **address)
{
    if (sigsetjmp(here.back, 1) != 0) {
        *address = here.address;
        return false;
    }
    here.is_calling = 1;
    function(data);
    here.is_calling = 0;
    return true;
}
