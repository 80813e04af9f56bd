#include "partitioner/integer/linear_program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"

// --- the model --------------------------------------------------------------------

// Room for one more.
static bool has_room(struct linear_model *model, void *items, size_t count, size_t *room, size_t size)
{
    model->failed = model->failed || !array_reserve(items, room, count + 1, size);
    return !model->failed;
}

uint32_t linear_add_column(struct linear_model *model, struct linear_column column)
{
    if (has_room(model, &model->columns, model->column_count, &model->column_room, sizeof column))
        model->columns[model->column_count++] = column;
    return (uint32_t)model->column_count - 1;
}

void linear_begin_row(struct linear_model *model, enum linear_sense sense, int64_t bound)
{
    const struct linear_row row = { model->term_count, model->term_count, sense, bound };
    if (has_room(model, &model->rows, model->row_count, &model->row_room, sizeof row))
        model->rows[model->row_count++] = row;
}

void linear_append_term(struct linear_model *model, uint32_t column, int64_t factor)
{
    if (!has_room(model, &model->terms, model->term_count, &model->term_room, sizeof model->terms[0]))
        return;
    model->terms[model->term_count++] = (struct linear_term){ column, factor };
    model->rows[model->row_count - 1].end = model->term_count;
}

void linear_add_term(struct linear_model *model, uint32_t column, int64_t factor)
{
    if (model->failed)
        return;
    const struct linear_row *row = &model->rows[model->row_count - 1];
    for (size_t i = row->first; i < row->end; i++) {
        if (model->terms[i].column == column) {
            model->terms[i].factor += factor;
            return;
        }
    }
    linear_append_term(model, column, factor);
}

void linear_clear(struct linear_model *model)
{
    free(model->columns);
    free(model->rows);
    free(model->terms);
    *model = (struct linear_model){ 0 };
}

// --- for the solver -----------------------------------------------------------------

// The divisor of a row, which brings its numbers to the size of other rows': the unit of a column with one, else the
// row's largest factor.
static double scale_of(const struct linear_model *model, const struct linear_row *row)
{
    double unit = 1, largest = 1;
    for (size_t i = row->first; i < row->end; i++) {
        const struct linear_column *column = &model->columns[model->terms[i].column];
        unit = column->unit > unit ? column->unit : unit;
        largest = fmax(largest, fabs((double)model->terms[i].factor));
    }
    return unit > 1 ? unit : largest;
}

static double cost_scale(const struct linear_model *model)
{
    double scale = 1;
    for (size_t j = 0; j < model->column_count; j++)
        if (model->columns[j].cost != 0 && model->columns[j].unit > scale)
            scale = model->columns[j].unit;
    return scale;
}

static void write_term(struct text *text, double factor, size_t column, size_t place)
{
    text_add(text, "%s%c %.15g x%zu", place > 0 && place % 6 == 0 ? "\n " : " ", factor < 0 ? '-' : '+', fabs(factor),
             column);
}

static void write_row(const struct linear_model *model, size_t r, struct text *text)
{
    static const char *const senses[] = { ">=", "<=", "=" };
    const struct linear_row *row = &model->rows[r];
    const double scale = scale_of(model, row);
    text_add(text, " r%zu:", r);
    for (size_t i = row->first; i < row->end; i++) {
        const struct linear_term *term = &model->terms[i];
        write_term(text, (double)term->factor * model->columns[term->column].unit / scale, term->column,
                   i - row->first);
    }
    if (row->first == row->end)  // 0 may still be too little or too much
        write_term(text, 0, 0, 0);
    text_add(text, " %s %.15g\n", senses[row->sense], (double)row->bound / scale);
}

static void write_model(const struct linear_model *model, struct text *text)
{
    const double scale = cost_scale(model);
    text_add(text, "Minimize\n cost:");
    for (size_t j = 0, place = 0; j < model->column_count; j++)
        if (model->columns[j].cost != 0)
            write_term(text, (double)model->columns[j].cost * model->columns[j].unit / scale, j, place++);
    text_add(text, "\nSubject To\n");
    for (size_t r = 0; r < model->row_count; r++)
        write_row(model, r, text);
    text_add(text, "Bounds\n");
    for (size_t j = 0; j < model->column_count; j++)
        text_add(text, " 0 <= x%zu <= %.15g\n", j, (double)model->columns[j].upper / model->columns[j].unit);
    text_add(text, "Generals\n");
    for (size_t j = 0; j < model->column_count; j++)
        if (model->columns[j].is_integer)
            text_add(text, " x%zu\n", j);
    text_add(text, "End\n");
}

static void write_start(const struct linear_model *model, const double *start, struct text *text)
{
    for (size_t j = 0; start && j < model->column_count; j++)
        if (start[j] != 0)
            text_add(text, "x%zu %.15g\n", j, start[j] / model->columns[j].unit);
}

// The number after the letter of a name; `count` if there is none.
static size_t number_of(const char *name, char letter, size_t count)
{
    size_t number;
    char found;
    return sscanf(name, "%c%zu", &found, &number) == 2 && found == letter && number < count ? number : count;
}

static bool read_relaxed(const struct linear_model *model, const struct integer_answer *answer,
                         struct linear_solution *solution, struct error *error)
{
    const double scale = cost_scale(model);
    solution->relaxed = answer->value * scale;
    solution->duals = calloc(model->row_count + 1, sizeof solution->duals[0]);
    if (!solution->duals)
        return error_no_memory(error, "the solver's answer");
    for (size_t i = 0; i < answer->dual_count; i++) {
        const size_t r = number_of(answer->duals[i].name, 'r', model->row_count);
        if (r < model->row_count)
            solution->duals[r] = answer->duals[i].value * scale / scale_of(model, &model->rows[r]);
    }
    return true;
}

static bool read_values(const struct linear_model *model, const struct integer_answer *answer,
                        struct linear_solution *solution, struct error *error)
{
    solution->claimed = answer->value * cost_scale(model);
    solution->bound = answer->bound * cost_scale(model);
    if (answer->status != INTEGER_OPTIMAL && answer->status != INTEGER_FEASIBLE)
        return true;
    solution->values = calloc(model->column_count + 1, sizeof solution->values[0]);
    if (!solution->values)
        return error_no_memory(error, "the solver's answer");
    for (size_t i = 0; i < answer->value_count; i++) {
        const size_t j = number_of(answer->values[i].name, 'x', model->column_count);
        if (j < model->column_count)
            solution->values[j] = answer->values[i].value * model->columns[j].unit;
    }
    return true;
}

bool linear_solve(const struct linear_model *model, const double *start, struct integer_limits limits,
                  struct linear_solution *solution, struct error *error)
{
    *solution = (struct linear_solution){ 0 };
    if (model->failed)
        return error_no_memory(error, "an integer program");
    struct text text = { 0 }, known = { 0 };
    write_model(model, &text);
    write_start(model, start, &known);
    struct integer_question question = { .model = &text, .relaxed = true };
    struct integer_answer answer;
    bool good = integer_solve(&question, limits, &answer, error);
    solution->status = answer.status;
    if (good && answer.status == INTEGER_OPTIMAL) {
        good = read_relaxed(model, &answer, solution, error);
        integer_answer_clear(&answer);
        question = (struct integer_question){ .model = &text, .start = start ? &known : NULL };
        good = good && integer_solve(&question, limits, &answer, error) && read_values(model, &answer, solution, error);
        solution->status = answer.status;
    }
    integer_answer_clear(&answer);
    text_clear(&text);
    text_clear(&known);
    if (!good)
        linear_solution_clear(solution);
    return good;
}

bool linear_relax(const struct linear_model *model, struct integer_limits limits, struct linear_solution *solution,
                  struct error *error)
{
    *solution = (struct linear_solution){ 0 };
    if (model->failed)
        return error_no_memory(error, "an integer program");
    struct text text = { 0 };
    write_model(model, &text);
    const struct integer_question question = { .model = &text, .relaxed = true };
    struct integer_answer answer;
    bool good = integer_solve(&question, limits, &answer, error);
    solution->status = answer.status;
    if (good && answer.status == INTEGER_OPTIMAL)
        good = read_relaxed(model, &answer, solution, error) && read_values(model, &answer, solution, error);
    integer_answer_clear(&answer);
    text_clear(&text);
    if (!good)
        linear_solution_clear(solution);
    return good;
}

void linear_solution_clear(struct linear_solution *solution)
{
    free(solution->values);
    free(solution->duals);
    *solution = (struct linear_solution){ 0 };
}

// --- what duals prove ----------------------------------------------------------------

// Multipliers are whole numbers of 1 / PARTS.
#define PARTS ((__int128)1 << 30)
#define MOST_MULTIPLIER 0x1p70
// The limit for all products together, as they are added up: no sum exceeds 128 bits.
#define MOST_IN_ALL 0x1p125L

static __int128 multiplier_of(const struct linear_row *row, double dual)
{
    const double parts = round(dual * (double)PARTS);
    if (!isfinite(parts) || fabs(parts) > MOST_MULTIPLIER)
        return 0;
    if ((row->sense == LINEAR_AT_LEAST && parts < 0) || (row->sense == LINEAR_AT_MOST && parts > 0))
        return 0;  // this comes from rounding, and proves nothing
    return (__int128)parts;
}

// A product, whose size is added to `size`; 0 once `size` is too large to go on.
static __int128 product(__int128 a, int64_t b, long double *size)
{
    *size += fabsl((long double)a * (long double)b);
    return *size < MOST_IN_ALL ? a * b : 0;
}

int64_t linear_proved_bound(const struct linear_model *model, const double *duals)
{
    __int128 *reduced = calloc(model->column_count + 1, sizeof reduced[0]);  // costs
    if (!reduced)
        return 0;
    long double size = 0;
    __int128 bound = 0;
    for (size_t r = 0; r < model->row_count; r++) {
        const struct linear_row *row = &model->rows[r];
        const __int128 multiplier = multiplier_of(row, duals[r]);
        bound += product(multiplier, row->bound, &size);
        for (size_t i = row->first; i < row->end; i++)
            reduced[model->terms[i].column] -= product(multiplier, model->terms[i].factor, &size);
    }
    for (size_t j = 0; j < model->column_count; j++) {
        const __int128 rest = reduced[j] + product(PARTS, model->columns[j].cost, &size);
        if (rest < 0)  // else it is least at x = 0
            bound += product(rest, model->columns[j].upper, &size);
    }
    free(reduced);
    if (size >= MOST_IN_ALL || bound <= 0)
        return 0;
    const __int128 whole = (bound + PARTS - 1) / PARTS;
    return whole > INT64_MAX ? 0 : (int64_t)whole;
}
