#include "device/cuda/cuda.h"

#include <string.h>

#include "tests/test.h"

static struct name_row {
    const char *name;
    const char *detail, *sentence;
} name_rows[] = {
    { "a word that is none is refused", "fast",
      "there is no device cuda:fast (behind the colon stand a GPU's number, tf32, bf16, fp16, graphs, registered, spare=N and seen, such as cuda:1"
      " and cuda:0,bf16)" },
    { "a comma wants a word behind it", "1,",
      "there is no device cuda:1, (behind the colon stand a GPU's number, tf32, bf16, fp16, graphs, registered, spare=N and seen, such as cuda:1"
      " and cuda:0,bf16)" },
    { "and one in front", ",bf16",
      "there is no device cuda:,bf16 (behind the colon stand a GPU's number, tf32, bf16, fp16, graphs, registered, spare=N and seen, such as cuda:1"
      " and cuda:0,bf16)" },
    { "a number is not negative", "-1",
      "there is no device cuda:-1 (behind the colon stand a GPU's number, tf32, bf16, fp16, graphs, registered, spare=N and seen, such as cuda:1"
      " and cuda:0,bf16)" },
    { "what is to be spared is a number", "spare=few",
      "there is no device cuda:spare=few (behind the colon stand a GPU's number, tf32, bf16, fp16, graphs, registered, spare=N and seen, such as cuda:1"
      " and cuda:0,bf16)" },
    { "and is said", "spare=",
      "there is no device cuda:spare= (behind the colon stand a GPU's number, tf32, bf16, fp16, graphs, registered, spare=N and seen, such as cuda:1"
      " and cuda:0,bf16)" },
    { "tf32 is of fp32", "0,bf16,tf32",
      "there is no device cuda:0,bf16,tf32 (tf32 is a way to multiply fp32; a device has one of bf16, fp16 and fp32)" },
};

static bool open_device(struct device *device, const char *detail, struct error *error)
{
    *device = (struct device){ .name = "cuda", .functions = &cuda_functions };
    return cuda_functions.open(device, detail, error);
}

static void a_bad_name_is_refused(void **state)
{
    const struct name_row *row = *state;
    struct device device;
    struct error error = { 0 };
    assert_false(open_device(&device, row->detail, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
}

static void without_a_driver_the_sentence_says_which(void **state)
{
    (void)state;
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver != 0)
        TEST_SKIP("there is a driver here");
    struct device device;
    struct error error = { 0 };
    assert_false(open_device(&device, "1,bf16,spare=16", &error));
    assert_error(error, "device cuda needs NVIDIA's driver, which is not installed here (CUDA 13.0 needs driver 580 or"
                        " later; nvidia-smi tells which there is)");
    assert_int_equal(error.kind, ERROR_MACHINE);
}

static void a_bad_status_is_a_sentence_with_cuda_s_text(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_true(cuda_good(cudaSuccess, "nothing", &error));
    assert_int_equal(error.kind, ERROR_NONE);
    assert_false(cuda_good(cudaErrorIllegalAddress, "copying on the device", &error));
    assert_error(error, "copying on the device failed: an illegal memory access was encountered"
                        " (cudaErrorIllegalAddress)");
    assert_int_equal(error.kind, ERROR_MACHINE);
}

static void every_kernel_is_in_the_table(void **state)
{
    (void)state;
    void *const *entries = (void *const *)&cuda_kernels;
    for (size_t i = 0; i < sizeof cuda_kernels / sizeof(void *); i++)
        assert_non_null(entries[i]);
    entries = (void *const *)&cuda_functions;
    void *const *may_lack = (void *const *)&cuda_functions.wait_for;  // a stream wakes nobody
    for (size_t i = 0; i < sizeof cuda_functions / sizeof(void *); i++)
        assert_true(entries[i] || &entries[i] == may_lack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(a_bad_name_is_refused, &name_rows[0]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[1]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[2]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[3]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[4]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[5]),
        TEST_ROW(a_bad_name_is_refused, &name_rows[6]),
        cmocka_unit_test(without_a_driver_the_sentence_says_which),
        cmocka_unit_test(a_bad_status_is_a_sentence_with_cuda_s_text),
        cmocka_unit_test(every_kernel_is_in_the_table),
    };
    return cmocka_run_group_tests_name("cuda_maker", tests, NULL, NULL);
}
