// Embedding tables and dense layers on the same devices: stage 0 looks up vectors, and stage 1 is the rest of the
// model. The devices of the rank exchange vectors, and their gradients, as messages from the rank to itself. A lookup
// comes one micro-batch ahead, and the gradient of the tables one behind:
//
//     rank 0   0F0 0F1 1F0 1B0 0F2 1F1 0B0 1B1 1F2 0B1 1B2 0B2 0STEP 1STEP      m = 3
//     vectors     |-0--> |-1-------------> |-2------->
//     gradients                    |-0-------> |-1------> |-2->
//
// So the exchange of vectors 1 has the time of 1F0 and 1B0, and no weight is older than in gpipe. (TorchRec overlaps
// the exchange by gradients that are two batches old.)
#include "schedules/generators/generators.h"

static bool add(struct schedule *schedule, enum action_kind kind, uint32_t stage, uint32_t micro_batch,
                struct error *error)
{
    return micro_batch >= schedule->micro_batches || generate_add(schedule, 0, kind, stage, micro_batch, error);
}

struct schedule *generate_tables_ahead(const struct generate_request *request, struct error *error)
{
    if (request->ranks != 1 || request->chunks != 2) {
        error_set(error, "tables-ahead has tables and dense layers on the same devices: ranks must be 1, not %u, and"
                  " chunks 2, not %u", request->ranks, request->chunks);
        return NULL;
    }
    struct schedule *schedule = schedule_create("tables-ahead", WEIGHTS_FLUSH, 1, 2, request->micro_batches, error);
    bool good = schedule && add(schedule, ACTION_F, 0, 0, error);
    for (uint32_t k = 0; good && k < request->micro_batches; k++)
        good = add(schedule, ACTION_F, 0, k + 1, error) && add(schedule, ACTION_F, 1, k, error)
            && (k == 0 || add(schedule, ACTION_B, 0, k - 1, error)) && add(schedule, ACTION_B, 1, k, error);
    good = good && add(schedule, ACTION_B, 0, request->micro_batches - 1, error)
        && generate_add_steps(schedule, 0, error);
    if (good)
        schedule->exchanges = true;
    return generate_done(schedule, good);
}
