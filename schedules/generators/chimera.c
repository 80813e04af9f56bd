// Chimera: two pipelines that run in opposite directions over the same ranks. Each rank holds two stages, one of
// each pipeline. Even micro-batches go down the ranks, odd ones go up.
//
//     down     0 1 2 3       rank 0   F0 F2 ·  f1 b1 b1 f3 b3 b3 ·  B0 B0 ·  ·  B2 B2      m = 4; stages of
//     up       3 2 1 0       rank 1   ·  F0 f1 F2 f3 ·  b1 b1 B0 B0 b3 b3 B2 B2 ·  ·       the pipeline up in
//     rank     0 1 2 3       rank 2   ·  F1 f0 F3 f2 ·  b0 b0 B1 B1 b2 b2 B3 B3 ·  ·       small letters
//                            rank 3   F1 F3 ·  f0 b0 b0 f2 b2 b2 ·  B1 B1 ·  ·  B3 B3
//
// While one pipeline fills or drains, the other has work. Each stage exists twice: REDUCE adds the gradients of both
// copies.
//
// The order is made greedily (greedy.h): forwards before backwards, and earlier micro-batches before later ones.
// Each stage is as far ahead as in 1F1B, and a rank keeps at most p micro-batches. With m = p, ranks keep from p/2 +
// 1 (the outer ones) to p of them. With larger m all ranks keep p, and the bubble stays the same.
#include "schedules/generators/generators.h"

struct schedule *generate_chimera(const struct generate_request *request, struct error *error)
{
    return generate_in_turns(generate_two_ways("chimera", request, error), request->ranks, error);
}
