// Parts that importers share: links between nodes that come in any order, a topological order of them, and numbers in
// foreign units.
#ifndef PROFILER_IMPORT_PARTS_H
#define PROFILER_IMPORT_PARTS_H

#include "common/json.h"
#include "profiler/cluster.h"
#include "profiler/profile.h"

// A path without its folders, and without each of `endings` (NULL-terminated) that it ends with, in turn; `otherwise`
// if nothing is left. The caller frees it with free().
char *import_model_name(const char *path, const char *const *endings, const char *otherwise);

// A profile whose layers are still to be filled in. It takes the model's name, which may be NULL if memory ran out.
struct profile *import_begin(char *model, uint64_t micro_batch, size_t layers, struct error *error);

// --- nodes and links ------------------------------------------------------------------

// A node by the id that its document gives it.
struct import_id {
    uint64_t id;
    uint32_t place;  // its index in the document's list
};

// Sorts them by id. False with an error if an id is there twice.
bool import_ids_sort(struct import_id *ids, size_t count, const char *document, struct error *error);
// The place among the sorted ones of the id that an edge has as its end; 0 after an error, which is noted in the
// document.
uint32_t import_end(const struct import_id *ids, size_t count, struct json *object, const char *key);

struct import_link {
    uint32_t from, to;  // nodes; later layers
    size_t place;       // in the document: a line, or an index in its list
    uint64_t bytes;     // what passes along the link
};

int import_compare_links(const void *a, const void *b);  // by (from, to, place), for qsort()
// The first of the sorted links between these two nodes, or NULL.
const struct import_link *import_links_find(const struct import_link *links, size_t count, uint32_t from, uint32_t to);

// --- a topological order ----------------------------------------------------------------

// Among the nodes whose producers have all been placed, early ones come first, then the lowest:
//
//     node1 early      node3 -> node2        order  node1 node3 node2 node4
//     node1 -> node3   node2 -> node4
struct import_order {
    uint32_t *layer_of;  // node to layer
    uint32_t *node_of;   // layer to node
    size_t placed;       // fewer than all nodes if there is a cycle
    size_t cycle;        // in that case, the link that closes it
};

// `links` must be sorted; `early` may be NULL. False if memory runs out. import_order_clear() must be called in any
// case.
bool import_order_find(struct import_order *order, size_t node_count, const struct import_link *links,
                       size_t link_count, const bool *early, struct error *error);
void import_order_clear(struct import_order *order);

// Turns links between nodes into links between layers, sorted again.
void import_links_place(struct import_link *links, size_t count, const struct import_order *order);

// Sets the profile's edges; none if they form a chain.
bool import_set_edges(struct profile *profile, const struct import_link *links, size_t count, struct error *error);

// Refuses names that occur twice.
bool import_check_names(const struct profile *profile, const char *document, struct error *error);

// To be called once all layers and edges are there. It refuses names that occur twice, and sums that are too large
// for a profile. Then it adds up the times and computes the hash.
bool import_finish(struct profile *profile, const char *document, struct error *error);

// --- numbers ------------------------------------------------------------------------------

// A number of at least 0 in a unit of `scale`, rounded to the nearest integer. 0 after an error, which is noted in
// the document.
uint64_t import_number(struct json *object, const char *key, double scale);

#endif
