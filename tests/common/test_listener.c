// What comes by a connection ends a pause, and what does not is looked for as common/pause.h says. Nothing here depends
// on how long a pause lasts on a busy machine: pauses are counted, and how they end is seen.
#include "common/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/test.h"

enum { SOON_MS = 20, ENOUGH = 16, TRIES = 200 };

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

// Pauses within so many milliseconds; the most of many trials, since a busy machine makes them longer.
static uint64_t most_pauses(struct listener *listener, bool moves)
{
    uint64_t most = 0;
    for (int i = 0; i < TRIES && most < 12; i++) {
        const uint64_t from_ns = clock_now_ns();
        uint64_t pauses = 0;
        for (bool moved = moves; clock_now_ns() - from_ns < 8000000; pauses++, moved = false)
            assert_int_equal(listener_pause(listener, moved), WOKEN_BY_TIME);
        most = pauses > most ? pauses : most;
    }
    return most;
}

static void what_comes_unannounced_is_looked_for_often(void **state)
{
    (void)state;
    const struct pair pair = connect_pair();
    struct listener *listener = create();
    assert_true(most_pauses(listener, true) >= 12);  // nothing was announced yet
    announce_enough(listener, pair);
    assert_true(most_pauses(listener, false) <= 3);
    assert_true(most_pauses(listener, true) >= 12);  // something came without a byte
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
