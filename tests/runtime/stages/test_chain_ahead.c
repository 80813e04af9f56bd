// What is brought a layer ahead, and in which order its steps then stand.
#include "runtime/stages/chain_program.h"

#include <stdio.h>
#include <string.h>

#include "runtime/stages/chain_parts.h"
#include "tests/test.h"

enum { LAYERS = 4 };

static bool call(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

static void add_bring(struct program *program, enum spot_base to, enum spot_base from, uint64_t layer)
{
    program_bring(program, (struct spot){ to, layer }, (struct spot){ from, layer }, 256);
}

static void add_call(struct program *program, const struct placed *link)
{
    program_step(program, &(struct step){ .kind = STEP_CALL, .link = link, .function = call });
}

// "w0 g0 call0 back0", with what is on the other queue in brackets, and events as marks behind.
static void check(const struct program *program, const struct placed *links, const char *want)
{
    char text[1000] = "";
    for (size_t s = 0; s < program->step_count; s++) {
        const struct step *step = &program->steps[s];
        const enum spot_base to = step->spots[SPOT_TO].base;
        const char *name = step->kind == STEP_CALL ? "call" : step->kind == STEP_COPY ? "copy"
                         : step->kind == STEP_GATHER ? "gather" : step->kind == STEP_SHARE ? "share"
                         : step->kind == STEP_ZERO ? "zero"
                         : to == AT_WINDOW_WEIGHTS ? "w" : to == AT_WINDOW_GRADIENTS ? "g"
                         : to == AT_WORKSPACE ? "again" : "back";
        const unsigned layer = step->kind == STEP_CALL ? (unsigned)(step->link - links)
                             : step->kind == STEP_GATHER || step->kind == STEP_ZERO
                                   ? (unsigned)step->spots[SPOT_TO].at : (unsigned)step->spots[SPOT_FROM].at;
        char one[40];
        snprintf(one, sizeof one, step->is_on_second_queue ? "%s[%s%u]" : "%s%s%u", s ? " " : "", name, layer);
        strncat(text, one, sizeof text - strlen(text) - 1);
        strncat(text, step->event == 1 ? "'" : step->event == 2 ? "\"" : "", sizeof text - strlen(text) - 1);
    }
    assert_string_equal(text, want);
}

static void a_forward_brings_the_next_layer_before_each_call(void **state)
{
    (void)state;
    struct placed links[LAYERS] = { { 0 } };
    struct program program = { 0 };
    for (uint64_t l = 0; l < LAYERS; l++) {
        if (l != 2)  // which has no weights
            add_bring(&program, AT_WINDOW_WEIGHTS, AT_WEIGHTS, l);
        add_call(&program, &links[l]);
    }
    program_bring_ahead(&program);
    check(&program, links, "[w0]' [w1]\" call0' call1\" [w3]\" call2 call3\"");
    program_free(&program);
}

static void a_backward_takes_gradients_back_behind_its_calls(void **state)
{
    (void)state;
    struct placed links[LAYERS] = { { 0 } };
    struct program program = { 0 };
    for (uint64_t l = 3; l-- > 0;) {
        add_bring(&program, AT_WINDOW_WEIGHTS, AT_WEIGHTS, l);
        add_bring(&program, AT_WINDOW_GRADIENTS, AT_GRADIENTS, l);
        add_call(&program, &links[l]);
        program_copy(&program, (struct spot){ AT_INPUT_GRADIENT, l }, (struct spot){ AT_OUTPUT_GRADIENT, l }, 256);
        add_call(&program, &links[l]);
        add_bring(&program, AT_GRADIENTS, AT_WINDOW_GRADIENTS, l);
    }
    program_bring_ahead(&program);
    check(&program, links,
          "[w2] [g2]' [w1] [g1]\" call2' copy2 call2 [back2] [w0] [g0]' call1\" copy1 call1 [back1] call0' copy0 call0"
          " [back0]");
    program_free(&program);
}

// Gathers ahead of the calls of the layer before, shares behind their own, and the zeros of a room behind the share of
// who had it before: all in one order, which all replicas have.
static void what_replicas_share_is_brought_together_while_a_layer_is_called(void **state)
{
    (void)state;
    struct placed links[LAYERS] = { { 0 } };
    struct program program = { 0 };
    for (uint64_t l = 3; l-- > 0;) {
        program_gather(&program, (struct spot){ AT_WINDOW_WEIGHTS, l }, 0, 64);
        program_zero(&program, (struct spot){ AT_WINDOW_GRADIENTS, l }, 256);
        add_call(&program, &links[l]);
        program_share(&program, (struct spot){ AT_WINDOW_GRADIENTS, l }, 0, 64);
    }
    program_bring_ahead(&program);
    check(&program, links,
          "[gather2] [zero2]' [gather1] [zero1]\" call2' [share2] [gather0] [zero0]' call1\" [share1] call0' [share0]");
    program_free(&program);
}

// A tied layer adds to gradients that must be there; and what is run again has its weights elsewhere.
static void nothing_passes_a_tied_layer_or_goes_into_the_workspace_ahead(void **state)
{
    (void)state;
    const struct home home = { 0 };
    struct placed links[LAYERS] = { { 0 }, { .tied = &home }, { 0 } };
    struct program program = { 0 };
    for (uint64_t l = 0; l < 3; l++) {
        add_bring(&program, l == 2 ? AT_WINDOW_WEIGHTS : AT_WORKSPACE, AT_WEIGHTS, l);
        add_call(&program, &links[l]);
    }
    program_bring_ahead(&program);
    check(&program, links, "again0 call0 again1 call1 [w2]' call2'");
    program_free(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forward_brings_the_next_layer_before_each_call),
        cmocka_unit_test(a_backward_takes_gradients_back_behind_its_calls),
        cmocka_unit_test(what_replicas_share_is_brought_together_while_a_layer_is_called),
        cmocka_unit_test(nothing_passes_a_tied_layer_or_goes_into_the_workspace_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
