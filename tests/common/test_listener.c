// What comes by a connection ends a pause, and what does not is looked for as common/pause.h says. Nothing here depends
// on how long a pause lasts on a busy machine: how long it was to last, and how it ends, is seen.
#include "common/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/pause.h"
#include "tests/test.h"

enum { SOON_MS = 20, ENOUGH = 16 };

// How long the last wait of the listener's thread was to last. It stands in place of the C library's.
static _Thread_local uint64_t asked_ns;
int ppoll(struct pollfd *files, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    struct timespec left = limit ? *limit : (struct timespec){ 0 };  // which the kernel counts down
    asked_ns = limit ? (uint64_t)limit->tv_sec * 1000000000 + (uint64_t)limit->tv_nsec : UINT64_MAX;
    return (int)syscall(SYS_ppoll, files, count, limit ? &left : NULL, mask, sizeof(uint64_t));
}

struct pair {
    int here, there;
};

static struct pair connect_pair(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof address;
    const int door = socket(AF_INET, SOCK_STREAM, 0), there = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(door, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(connect(there, (struct sockaddr *)&address, sizeof address), 0);
    const int here = accept(door, NULL, NULL);
    assert_true(here >= 0);
    close(door);
    fcntl(here, F_SETFL, O_NONBLOCK);
    return (struct pair){ here, there };
}

static void disconnect(struct pair pair)
{
    close(pair.here);
    close(pair.there);
}

static struct listener *create(void)
{
    struct error error = { 0 };
    struct listener *listener = listener_create(&error);
    assert_non_null(listener);
    return listener;
}

// --- who does something while a pause lasts ------------------------------------------------

struct other {
    pthread_t thread;
    void (*does)(struct other *other);
    struct listener *listener;
    int file;
};

static void *be_other(void *argument)
{
    struct other *other = argument;
    nanosleep(&(struct timespec){ .tv_nsec = SOON_MS * 1000000 }, NULL);
    other->does(other);
    return NULL;
}

static void start(struct other *other)
{
    assert_int_equal(pthread_create(&other->thread, NULL, be_other, other), 0);
}

static void send_byte(struct other *other)
{
    assert_int_equal(write(other->file, "x", 1), 1);
}

static void call(struct other *other)
{
    listener_call(other->listener);
}

static void drain(struct other *other)
{
    static char bytes[1 << 16];
    fcntl(other->file, F_SETFL, O_NONBLOCK);
    while (read(other->file, bytes, sizeof bytes) > 0)
        ;
}

// --- tests -----------------------------------------------------------------------------------

// As often as it takes to be believed.
static void announce_enough(struct listener *listener, struct pair pair)
{
    char byte;
    bool moved = false;
    for (int i = 0; i <= ENOUGH; i++) {
        assert_int_equal(write(pair.there, "x", 1), 1);
        assert_int_equal(listener_pause(listener, moved), WOKEN_BY_CONNECTION);
        moved = read(pair.here, &byte, 1) == 1;
        assert_true(moved);
    }
    listener_call(listener);  // and is learnt without a pause
    assert_int_equal(listener_pause(listener, true), WOKEN_BY_CALL);
}

static void a_byte_ends_a_pause_where_all_was_announced(void **state)
{
    (void)state;
    const struct pair pair = connect_pair();
    struct listener *listener = create();
    announce_enough(listener, pair);
    struct other other = { .does = send_byte, .file = pair.there };
    const uint64_t from_ns = clock_now_ns();
    start(&other);
    uint64_t pauses = 1;
    while (listener_pause(listener, false) == WOKEN_BY_TIME)
        pauses++;
    // 4 ms each, and no look more; of pause.h it would be some sixty in 20 ms.
    assert_in_range(pauses, 1, 1 + (clock_now_ns() - from_ns) / 4000000);
    pthread_join(other.thread, NULL);
    listener_free(listener);
    disconnect(pair);
}

// How long a pause is to last at most, after a look that saw something move; and another, behind it, that did not.
static void ask_pauses(struct listener *listener, bool moved, uint64_t *first_ns, uint64_t *second_ns)
{
    assert_int_equal(listener_pause(listener, moved), WOKEN_BY_TIME);
    *first_ns = asked_ns;
    assert_int_equal(listener_pause(listener, false), WOKEN_BY_TIME);
    *second_ns = asked_ns;
}

static void what_comes_unannounced_is_looked_for_often(void **state)
{
    (void)state;
    const struct pair pair = connect_pair();
    struct listener *listener = create();
    uint64_t first_ns, second_ns;
    ask_pauses(listener, true, &first_ns, &second_ns);  // nothing was announced yet
    assert_int_equal(first_ns, SHORTEST_PAUSE_NS);
    assert_in_range(second_ns, SHORTEST_PAUSE_NS, LONGEST_PAUSE_NS);  // a part of what the first has lasted
    announce_enough(listener, pair);
    ask_pauses(listener, false, &first_ns, &second_ns);
    assert_true(first_ns > LONGEST_PAUSE_NS && second_ns == first_ns);
    ask_pauses(listener, true, &first_ns, &second_ns);  // something came without a byte
    assert_int_equal(first_ns, SHORTEST_PAUSE_NS);
    assert_in_range(second_ns, SHORTEST_PAUSE_NS, LONGEST_PAUSE_NS);
    listener_free(listener);
    disconnect(pair);
}

static void room_for_bytes_that_wait_ends_a_pause(void **state)
{
    (void)state;
    static const char bytes[1 << 16];
    const struct pair pair = connect_pair();
    struct listener *listener = create();
    announce_enough(listener, pair);
    assert_int_equal(listener_pause(listener, false), WOKEN_BY_TIME);  // there is room, and nobody waits for it
    while (write(pair.here, bytes, sizeof bytes) > 0)
        ;
    struct other other = { .does = drain, .file = pair.there };
    start(&other);
    enum listener_wake woken;
    do
        woken = listener_pause(listener, false);
    while (woken == WOKEN_BY_TIME);
    assert_int_equal(woken, WOKEN_BY_CONNECTION);
    pthread_join(other.thread, NULL);
    listener_free(listener);
    disconnect(pair);
}

static void a_call_ends_a_pause(void **state)
{
    (void)state;
    struct listener *listener = create();
    struct other other = { .does = call, .listener = listener };
    start(&other);
    listener_sleep(listener, false);
    pthread_join(other.thread, NULL);
    listener_call(listener);  // before the pause
    listener_call(listener);
    assert_int_equal(listener_pause(listener, false), WOKEN_BY_CALL);
    assert_int_equal(listener_pause(listener, false), WOKEN_BY_TIME);
    listener_free(listener);
}

// Its number may be a file's by then.
static void a_connection_that_was_closed_is_forgotten(void **state)
{
    (void)state;
    const struct pair pair = connect_pair();
    struct listener *listener = create();
    announce_enough(listener, pair);
    disconnect(pair);
    assert_int_equal(listener_pause(listener, false), WOKEN_BY_CONNECTION);
    const uint64_t until_ns = clock_now_ns() + 200000000;  // it is searched ten times a second
    while (clock_now_ns() < until_ns)
        listener_pause(listener, false);
    for (int i = 0; i < 10; i++)
        assert_int_equal(listener_pause(listener, false), WOKEN_BY_TIME);
    listener_free(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_ends_a_pause_where_all_was_announced),
        cmocka_unit_test(what_comes_unannounced_is_looked_for_often),
        cmocka_unit_test(room_for_bytes_that_wait_ends_a_pause),
        cmocka_unit_test(a_call_ends_a_pause),
        cmocka_unit_test(a_connection_that_was_closed_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
