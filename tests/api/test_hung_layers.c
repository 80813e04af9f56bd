// A layer that never comes back: the call that waits for it ends at the deadline, says which rank is in which action, and
// after it nothing is left to do but to free the runtime, which keeps what the layer's thread may still touch, and no
// more. The process goes on, and so does the layer if it comes back after all.
//
// Each case is a process of its own, and all of them wait at once, since a wait takes as long as the deadline.
#include <dirent.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/scale_layers.h"
#include "tests/sanitizer.h"

enum where { IN_FORWARD, IN_BACKWARD, IN_UPDATE, IN_INITIALIZE, IN_EVALUATION };
enum { HUNG_STEP = 1, HUNG_MICRO_BATCH = 1, HUNG_LAYER = 3 };

// Long enough for ranks that are well on a machine that has other things to do.
#define DEADLINE_NS 10000000000
#define DEADLINE "10.0 s"

static struct row {
    const char *name;
    enum where where;
    const char *device, *cluster;
    const char *action;  // that a rank is at, behind its stage; NULL: any sentence
    pid_t child;
    int says;
} rows[] = {
    { .name = "in a forward, on two ranks", .where = IN_FORWARD, .device = "cpu",
      .cluster = "2 devices, 1MiB, 10GB/s 1us", .action = "F1" },
    { .name = "in a forward, on one rank, for which no other waits", .where = IN_FORWARD, .device = "cpu",
      .cluster = "1 devices, 1MiB, 10GB/s 1us", .action = "F1" },
    { .name = "in a backward", .where = IN_BACKWARD, .device = "cpu", .cluster = "2 devices, 1MiB, 10GB/s 1us",
      .action = "B1" },
    { .name = "in an optimizer of one's own", .where = IN_UPDATE, .device = "cpu",
      .cluster = "2 devices, 1MiB, 10GB/s 1us", .action = "STEP" },
    { .name = "in an evaluation", .where = IN_EVALUATION, .device = "cpu", .cluster = "2 devices, 1MiB, 10GB/s 1us",
      .action = "F1" },
    { .name = "in an evaluation on a device that runs ahead", .where = IN_EVALUATION, .device = "cpu:queued",
      .cluster = "2 devices, 1MiB, 10GB/s 1us" },
    { .name = "in its first parameters", .where = IN_INITIALIZE, .device = "cpu",
      .cluster = "2 devices, 1MiB, 10GB/s 1us" },
    { .name = "on a device that runs ahead", .where = IN_FORWARD, .device = "cpu:queued",
      .cluster = "2 devices, 1MiB, 10GB/s 1us" },
    { .name = "in its first parameters on a device that runs ahead", .where = IN_INITIALIZE, .device = "cpu:queued",
      .cluster = "2 devices, 1MiB, 10GB/s 1us" },
};

// --- layers that hang --------------------------------------------------------------------

static const struct row *at;
static atomic_bool hangs;
static sem_t come_back;

static void hang(enum where where)
{
    while (hangs && at->where == where && sem_wait(&come_back) != 0)
        ;
}

static bool is_time(const struct weir_pass *pass)
{
    return pass->step == HUNG_STEP && pass->micro_batch == HUNG_MICRO_BATCH;
}

static bool hung_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    if (is_time(pass))
        hang(pass->is_training ? IN_FORWARD : IN_EVALUATION);
    return scale_forward(self, pass, error);
}

static bool hung_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    if (is_time(pass))
        hang(IN_BACKWARD);
    return scale_backward_input(self, pass, error);
}

static bool hung_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    hang(IN_INITIALIZE);
    return scale_initialize(self, queue, parameters, error);
}

static bool hung_update(void *self, const struct weir_update *update, struct weir_error *error)
{
    (void)self;
    (void)error;
    if (update->number == HUNG_STEP + 1 && strcmp(update->layer->name, "c") == 0)
        hang(IN_UPDATE);
    memcpy(update->next, update->parameters, update->count * sizeof(float));
    return true;
}

static void fill_hung(struct weir_layer layers[LAYERS])
{
    fill(layers);
    layers[HUNG_LAYER].forward = hung_forward;
    layers[HUNG_LAYER].backward_input = hung_backward_input;
    layers[HUNG_LAYER].initialize = hung_initialize;
}

// --- a case, in its process --------------------------------------------------------------

#define CHECK(what) do { if (!(what)) { printf("line %d: %s: \"%s\"\n", __LINE__, #what, error.text); \
                                        fflush(NULL); _exit(1); } } while (0)

static const struct weir_error none;

static bool is_refused(bool good, const struct weir_error *error)
{
    return !good && error->code == 3 && strstr(error->text, "; this runtime can only be freed");
}

static void check_calls(struct weir_runtime *runtime)
{
    struct weir_error error = none;
    uint32_t count = 1, layer;
    float number = 0, losses[4];
    const struct weir_train_options training = { .size = sizeof training, .steps = 1 };
    CHECK(is_refused(weir_runtime_step(runtime, NULL, &error), &error));
    error = none;
    CHECK(is_refused(weir_runtime_train(runtime, &training, NULL, &error), &error));
    error = none;
    CHECK(is_refused(weir_runtime_save(runtime, &error), &error));
    error = none;
    CHECK(is_refused(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = 9,
                                                        .micro_batches = 4, .losses = losses), &error), &error));
    error = none;
    CHECK(is_refused(weir_runtime_trace(runtime, &error), &error));
    error = none;
    CHECK(is_refused(weir_runtime_read(runtime, 1, &number, &error), &error));
    error = none;
    CHECK(is_refused(weir_runtime_write(runtime, 1, &number, &error), &error));
    error = none;
    CHECK(is_refused(weir_runtime_find(runtime, "a", &layer, &error), &error));
    CHECK(!weir_runtime_losses(runtime, &count) && count == 0);
    CHECK(weir_runtime_steps(runtime) == HUNG_STEP);
    weir_runtime_set_rate(runtime, 0.5f);
}

// In the end it says which rank is left where; before that, who waited for it, if anybody did.
static void check_sentence(const struct weir_error *said)
{
    const struct weir_error error = *said;
    const char *semicolon = strrchr(error.text, ';'), *end = semicolon ? semicolon + 2 : error.text;
    char alone[200], waited_for[200];
    unsigned rank = 0, stage = 0;
    CHECK(error.code == 3);
    if (strcmp(at->device, "cpu") != 0)
        return;
    if (at->action && !semicolon)
        CHECK(sscanf(end, "rank %u has been at %u", &rank, &stage) == 2 && rank == stage);
    else if (at->action)
        CHECK(sscanf(end, "rank %u is left at %u", &rank, &stage) == 2 && rank == stage);
    else
        CHECK(sscanf(end, "rank %u has been at", &rank) == 1);
    char place[60] = "the first weights of its layers";
    if (at->action)
        snprintf(place, sizeof place, "%u%s", stage, at->action);
    snprintf(alone, sizeof alone, "rank %u has been at %s for " DEADLINE " and is left there: a layer does not come back",
             rank, place);
    snprintf(waited_for, sizeof waited_for, "rank %u is left at %s: a layer does not come back", rank, place);
    CHECK(strcmp(end, semicolon ? waited_for : alone) == 0);
    CHECK(!semicolon || strncmp(error.text, "nothing came for " DEADLINE ": rank ", 24) == 0);
    CHECK(at->cluster[0] == '1' || at->where >= IN_UPDATE || semicolon);
}

// What it leaves is the rank's that hangs, or all ranks' where queues move messages by themselves.
static void check_left(uint64_t left, uint64_t all)
{
    const struct weir_error error = none;
    const bool is_all = strcmp(at->device, "cpu") != 0 || at->cluster[0] == '1' || at->where == IN_EVALUATION;
    CHECK(left > 0);
    CHECK(is_all ? left == all : left < all);
}

// Another one works beside it.
static void check_another(const struct weir_plan *plan, const struct weir_layer *layers,
                          const struct weir_runtime_options *running)
{
    struct weir_error error = none;
    hangs = false;
    struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, running, &error);
    CHECK(runtime);
    for (int i = 0; i < 3; i++)
        CHECK(weir_runtime_step(runtime, NULL, &error));
    CHECK(weir_runtime_free(runtime) == 0);
}

static size_t threads_here(void)
{
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; tasks && (task = readdir(tasks));)
        count += task->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

// On a device that does all at once its thread then comes to its end. (A sanitizer takes what was left for leaked once
// nobody has it any more. The ranks of a pipeline whose evaluation hangs stay parked.)
static void come_back_late(void)
{
    if (HAS_SANITIZER)
        return;
    sem_post(&come_back);
    while (strcmp(at->device, "cpu") == 0 && at->where != IN_EVALUATION && threads_here() > 1)
        usleep(1000);
}

static void be_case(void)
{
    struct weir_error error = none;
    struct weir_result result = { 0 };
    struct weir_layer layers[LAYERS];
    fill_hung(layers);
    struct weir_profile *profile = profile_of(layers);
    struct weir_plan *plan = weir_partition(profile, WEIR_OPTIONS(partition, .cluster = at->cluster, .schedule = "1f1b",
                                                                  .micro_batches = 4, .optimizer = "sgd"),
                                            &error);
    CHECK(plan);
    const struct weir_runtime_options running = { .size = sizeof running, .rate = 0.01f, .device = at->device,
                                                  .deadline_ns = DEADLINE_NS,
                                                  .update = at->where == IN_UPDATE ? hung_update : NULL };
    hangs = true;
    struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, &running, &error);
    if (at->where == IN_INITIALIZE) {
        CHECK(!runtime);
        check_sentence(&error);
    } else {
        CHECK(runtime && weir_runtime_step(runtime, &result, &error));
        CHECK(!(at->where == IN_EVALUATION ? weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = HUNG_STEP,
                                                                                         .micro_batches = 3), &error)
                                           : weir_runtime_step(runtime, NULL, &error)));
        check_sentence(&error);
        check_calls(runtime);
        check_left(weir_runtime_free(runtime), result.allocated_bytes);
    }
    check_another(plan, layers, &running);
    come_back_late();
    check_another(plan, layers, &running);
    fflush(NULL);
    _exit(0);
}

// --- all of them -------------------------------------------------------------------------

static int start_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int ends[2];
        if (pipe(ends) != 0)
            return -1;
        fflush(NULL);
        rows[i].child = fork();
        if (rows[i].child == 0) {
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]);
            close(ends[1]);
            at = &rows[i];
            be_case();
        }
        close(ends[1]);
        rows[i].says = ends[0];
    }
    return 0;
}

static void the_wait_for_it_ends(void **state)
{
    struct row *row = *state;
    char said[1000];
    size_t length = 0;
    ssize_t got;
    int status;
    while (length < sizeof said - 1 && (got = read(row->says, said + length, sizeof said - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    close(row->says);
    assert_int_equal(waitpid(row->child, &status, 0), row->child);
    if (status != 0)
        fail_msg("status %x: %s", (unsigned)status, said);
}

int main(void)
{
    enum { ROWS_HERE = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[ROWS_HERE];
    sem_init(&come_back, 0, 0);
    for (size_t i = 0; i < ROWS_HERE; i++)
        tests[i] = (struct CMUnitTest)TEST_ROW(the_wait_for_it_ends, &rows[i]);
    return cmocka_run_group_tests(tests, start_all, NULL);
}
