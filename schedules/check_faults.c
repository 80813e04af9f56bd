#include <stdarg.h>
#include <stdio.h>

#include "common/array.h"
#include "schedules/checking.h"

void check_add_fault(struct check *check, uint32_t rank, size_t position, struct action action, const char *format, ...)
{
    struct check_result *result = check->result;
    if (!array_reserve(&result->faults, &check->capacity, result->fault_count + 1, sizeof result->faults[0])) {
        check->no_memory = true;
        return;
    }
    struct check_fault *fault = &result->faults[result->fault_count++];
    *fault = (struct check_fault){ .rank = rank, .position = position, .action = action };
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->reason, sizeof fault->reason, format, arguments);
    va_end(arguments);
    check->misplaced |= position != SIZE_MAX;
}
