#include "partitioner/search/search_request.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schedules/generators/given_order.h"
#include "tests/test.h"

static void a_request_knows_its_generator_once_it_is_resolved(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct search_request request = { .schedule = "zb-v", .ranks = 2, .micro_batches = 4 };
    assert_good(search_resolve(&request, &error), error);
    assert_string_equal(search_generator(&request)->name, "zb-v");
    assert_int_equal(search_generator(&request)->usual_chunks, 2);
    assert_int_equal(request.chunks, 0);  // a plan that is priced by the request may have other numbers
    struct search_request copy = request;
    copy.schedule = "pipedream";
    assert_good(search_resolve(&copy, &error), error);
    assert_int_equal(search_generator(&copy)->weights, WEIGHTS_STASH);
    assert_int_equal(search_generator(&request)->weights, WEIGHTS_FLUSH);
}

static void a_given_order_is_its_own_generator(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *made = schedule_generate("gpipe", 2, 0, 4, &error);
    struct schedule *order = made ? given_order(made, &error) : NULL;
    assert_good(order, error);
    struct search_request request = { .schedule = order->name, .given = order, .ranks = 2, .micro_batches = 4 };
    assert_good(search_resolve(&request, &error), error);
    assert_ptr_equal(search_generator(&request)->given, order);
    schedule_free(order);
    schedule_free(made);
}

static void an_unknown_schedule_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct search_request request = { .schedule = "zigzag" };
    assert_false(search_resolve(&request, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    assert_non_null(strstr(error.text, "there is no schedule named \"zigzag\""));
}

// Whether the program ends when it asks the request for its generator.
static bool ends_program(const struct search_request *request)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        search_generator(request);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void a_request_that_was_not_resolved_ends_the_program(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct search_request request = { .schedule = "1f1b" };
    assert_true(ends_program(&request));
    assert_good(search_resolve(&request, &error), error);
    assert_false(ends_program(&request));
    request.schedule = "gpipe";
    assert_true(ends_program(&request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_knows_its_generator_once_it_is_resolved),
        cmocka_unit_test(a_given_order_is_its_own_generator),
        cmocka_unit_test(an_unknown_schedule_is_refused),
        cmocka_unit_test(a_request_that_was_not_resolved_ends_the_program),
    };
    return cmocka_run_group_tests_name("search_request", tests, NULL, NULL);
}
