#include "profiler/estimate_variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/profiler/estimate/estimating.h"

static const char mixtral[] =
    "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 4, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000, \"num_local_experts\": 8,"
    " \"num_experts_per_tok\": 2, \"max_position_embeddings\": 4096}";

static struct estimate *estimate(const char *config, struct estimate_request request)
{
    return estimate_on("h100-sxm", config, request);
}

static struct profile *profile_of(const struct estimate *made, const char *variants)
{
    struct error error = { 0 };
    struct estimate_variants wanted;
    struct profile *profile = estimate_profile(made, &error);
    assert_good(profile, error);
    assert_good(estimate_variants_read(variants, &wanted, &error), error);
    assert_good(estimate_add_variants(made, &wanted, profile, &error), error);
    return profile;
}

static struct estimate_request of_four_sequences(void)
{
    struct estimate_request request = estimate_usual();
    request.micro_batch = 4;
    request.data = 16;
    request.shard = ESTIMATE_SHARD_OPTIMIZER;
    return request;
}

// Each variant, and the estimate that has its degrees as all of the model's: of the same four sequences.
struct degree {
    const char *name;
    struct estimate_request request;
    uint32_t devices;
    bool shares_output;
};

static void has_the_numbers_of(const struct profile *profile, size_t v, const struct degree *degree)
{
    struct error error = { 0 };
    struct estimate *split = estimate(mixtral, degree->request);
    struct profile *other = estimate_profile(split, &error);
    assert_good(other, error);
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_variant *variant = &profile->layers[i].variants[v];
        const struct profile_layer *own = &variant->layer, *of = &other->layers[i];
        assert_string_equal(own->name, degree->name);
        assert_int_equal(variant->devices, degree->devices);
        assert_int_equal(variant->shares_output, degree->shares_output);
        assert_int_equal(variant->communication_ns, 0);  // it is among the times
        assert_int_equal(own->forward_ns, of->forward_ns);
        assert_int_equal(own->backward_input_ns, of->backward_input_ns);
        assert_int_equal(own->backward_weight_ns, of->backward_weight_ns);
        assert_int_equal(own->parameter_bytes, of->parameter_bytes);
        assert_int_equal(own->states_elsewhere_bytes, of->states_elsewhere_bytes);
        assert_int_equal(own->output_bytes, of->output_bytes);
        assert_int_equal(own->saved_bytes, of->saved_bytes);
        assert_int_equal(own->held_for_weight_bytes, of->held_for_weight_bytes);
        assert_int_equal(own->workspace_bytes, of->workspace_bytes);
        assert_int_equal(own->flops, of->flops);
        // Of what devices share each has as much.
        if (degree->shares_output)
            assert_int_equal(own->output_bytes * degree->devices, profile->layers[i].output_bytes);
    }
    profile_free(other);
    free(split);
}

static void variants_are_what_their_degrees_cost(void **state)
{
    (void)state;
    const struct estimate_request four = of_four_sequences();
    struct degree degrees[] = {
        { "tensor2", four, 2, false }, { "tensor8", four, 8, false }, { "tensor4sp", four, 4, true },
        { "context2", four, 2, true }, { "expert4", four, 4, true },  { "tensor2sp+context2+expert2", four, 8, true },
    };
    enum { DEGREES = sizeof degrees / sizeof degrees[0] };
    degrees[0].request.tensor = 2;
    degrees[1].request.tensor = 8;
    degrees[2].request.tensor = 4, degrees[2].request.sequence_parallel = true;
    degrees[3].request.context = 2;
    // Data parallel outside the experts: a sequence each, and four times as many devices with the same attention.
    degrees[4].request.expert = 4, degrees[4].request.data = 64, degrees[4].request.micro_batch = 1;
    degrees[5].request.tensor = degrees[5].request.context = degrees[5].request.expert = 2;
    degrees[5].request.sequence_parallel = true, degrees[5].request.data = 32, degrees[5].request.micro_batch = 2;
    struct estimate *whole = estimate(mixtral, four);
    struct profile *profile = profile_of(whole, "2,tensor8,tensor4sp,context2,expert4,expert2+tensor2sp+context2");
    struct profile *plain = profile_of(whole, "2");
    for (size_t v = 0; v < DEGREES; v++)
        has_the_numbers_of(profile, v, &degrees[v]);
    for (size_t i = 0; i < profile->layer_count; i++) {
        assert_int_equal(profile->layers[i].variant_count, DEGREES);
        assert_int_equal(profile->layers[i].forward_ns, plain->layers[i].forward_ns);
        assert_int_equal(profile->layers[i].output_bytes, plain->layers[i].output_bytes);
    }
    profile_free(plain);
    profile_free(profile);
    free(whole);
}

static void they_are_written_and_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 };
    struct estimate *whole = estimate(mixtral, of_four_sequences());
    struct profile *profile = profile_of(whole, "context4,expert2");
    profile_write(profile, &text);
    struct profile *again = profile_read(text.data, text.length, "again", &error);
    assert_good(again, error);
    assert_string_equal(again->hash, profile->hash);
    text_clear(&text);
    profile_free(again);
    profile_free(profile);
    free(whole);
}

static void has_names(const struct profile *profile, const char *names)
{
    struct text text = { 0 };
    for (size_t i = 0; i < profile->layers[0].variant_count; i++)
        text_add(&text, "%s%s", i ? "," : "", profile->layers[0].variants[i].layer.name);
    assert_string_equal(text.data, names);
    text_clear(&text);
}

static void sequence_parallel_layers_have_each_tensor_degree_twice(void **state)
{
    (void)state;
    struct estimate_request request = estimate_usual();
    request.sequence_parallel = true;
    struct estimate *whole = estimate(mixtral, request);
    struct profile *profile = profile_of(whole, "2,4,context2,tensor4sp,2");
    has_names(profile, "tensor2,tensor2sp,tensor4,tensor4sp,context2");
    profile_free(profile);
    free(whole);
}

// Two sequences: four devices cannot share them. 12 heads: eight cannot.
static void all_are_those_that_divide(void **state)
{
    (void)state;
    static const char gpt2[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 768, \"n_head\": 12,"
                               " \"n_positions\": 1024, \"vocab_size\": 50304}";
    struct estimate_request request = estimate_usual();
    request.micro_batch = 2;
    struct estimate *experts = estimate(mixtral, request), *dense = estimate(gpt2, request);
    struct profile *with = profile_of(experts, "all"), *without = profile_of(dense, "all");
    has_names(with, "tensor2,context2,expert2,tensor4,context4,tensor8,context8");
    has_names(without, "tensor2,context2,tensor4,context4,context8");
    profile_free(with);
    profile_free(without);
    free(experts);
    free(dense);
}

// --- refusals -------------------------------------------------------------------

static void refuses_words(const char *words, const char *sentence)
{
    struct error error = { 0 };
    struct estimate_variants variants;
    assert_false(estimate_variants_read(words, &variants, &error));
    assert_error(error, sentence);
}

static void words_that_name_no_variant_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "", "1", "tensor", "tensor1", "tensor2x", "context2sp", "2sp", "tensr2",
                                         "tensor2+tensor4", "2+tensor2", "tensor2+", "+2", "expert99999999999999999999",
                                         "-2", " 2", "tensor2 " };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char sentence[200];
        snprintf(sentence, sizeof sentence, "\"%s\" is none of 2, tensor2, tensor2sp, context2, expert2, .., nor several"
                 " of these with + between them, each kind once", wrong[i]);
        refuses_words(wrong[i], sentence);
    }
    refuses_words("2,,4", "\"\" is none of 2, tensor2, tensor2sp, context2, expert2, .., nor several of these with +"
                  " between them, each kind once");
    refuses_words("2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18", "more than 16, which is as many as a plan chooses among");
}

static void refuses(const char *config, struct estimate_request request, const char *words, const char *sentence)
{
    struct error error = { 0 };
    struct estimate_variants variants;
    struct estimate *whole = estimate(config, request);
    struct profile *profile = estimate_profile(whole, &error);
    assert_good(profile && estimate_variants_read(words, &variants, &error), error);
    assert_false(estimate_add_variants(whole, &variants, profile, &error));
    assert_error(error, sentence);
    profile_free(profile);
    free(whole);
}

static void degrees_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    struct estimate_request split = estimate_usual(), usual = estimate_usual();
    refuses(mixtral, usual, "3", "the tensor degree of 3 does not divide the heads (32)");
    refuses(mixtral, usual, "context3", "the context degree of 3 does not divide the sequence (4096)");
    refuses(mixtral, usual, "expert2", "the expert degree of 2 does not divide the sequences of a micro-batch (1), which"
            " the devices share outside their experts");
    split.micro_batch = 3;
    refuses(mixtral, split, "expert3", "the expert degree of 3 does not divide the experts (8)");
    refuses(mixtral, usual, "tensor65536+context65536", "tensor65536+context65536 is of 4294967296 devices, of 65536 at"
            " most");
    split.context = 2;
    refuses(mixtral, split, "context2", "variants are of layers on one device each: the context degree must be 1");
    split.tensor = 2;
    refuses(mixtral, split, "2", "variants are of layers on one device each: the tensor degree must be 1");
    split = usual;
    split.sequence_parallel = true;
    split.micro_batch = 1;
    refuses(mixtral, split, "2,4,8,16,32,2+context2,4+context2,8+context2,16+context2", "more than 16 variants, which is"
            " as many as a plan chooses among");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_are_what_their_degrees_cost),
        cmocka_unit_test(they_are_written_and_read),
        cmocka_unit_test(sequence_parallel_layers_have_each_tensor_degree_twice),
        cmocka_unit_test(all_are_those_that_divide),
        cmocka_unit_test(words_that_name_no_variant_are_refused),
        cmocka_unit_test(degrees_that_do_not_divide_are_refused),
    };
    return cmocka_run_group_tests_name("estimate_variants", tests, NULL, NULL);
}
