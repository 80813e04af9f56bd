// The links of crews, as crew_bound.h asks for them.
#ifndef PARTITIONER_LAYOUTS_CREW_LINKS_H
#define PARTITIONER_LAYOUTS_CREW_LINKS_H

#include "partitioner/layouts/crew_bound.h"

// Fills in what the links of the stages are, whose copies are the ranks of the network, one after the other.
bool crew_see_links(const struct crews *crews, struct crewed_stage *stages, const struct network *network,
                    struct error *error);

#endif
