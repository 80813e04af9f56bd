// Which intervals of layers are alike, so that what is found of one holds for the other. Models repeat their blocks:
//
//     layer       embedding  a  b  a  b  a  b  a  b  head        period 2
//                            [-------]                           alike, and the first of their kind
//                                  [-------]
//
// Layers are alike if they have the same numbers, and the same distances to what they read and to what reads them. The
// same bytes must pass in front of them, and behind them. Tied layers are like no others.
#ifndef PARTITIONER_SEARCH_LIKENESS_H
#define PARTITIONER_SEARCH_LIKENESS_H

#include "partitioner/search/interval.h"

// Returns where the first interval begins that is known to be like layers [first, end); `first` itself if there is
// none. What it takes to know is worked out once for these intervals.
uint32_t likeness_first(struct intervals *intervals, uint32_t first, uint32_t end);

#endif
