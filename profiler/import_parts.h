// What importers share: links between nodes that come in any order, a topological
// order of them, and numbers in foreign units.
#ifndef PROFILER_IMPORT_PARTS_H
#define PROFILER_IMPORT_PARTS_H

#include "common/json.h"
#include "profiler/cluster.h"
#include "profiler/profile.h"

// A path without its folders and without each of `endings` (NULL-terminated) it ends
// with, in turn; `otherwise` where nothing is left. For free().
char *import_model_name(const char *path, const char *const *endings, const char *otherwise);

// --- nodes and links ------------------------------------------------------------------

// A node by the number its document gives it.
struct import_id {
    uint64_t id;
    uint32_t place;  // in the document's list
};

// Sorts them by number. Refuses one that is there twice.
bool import_ids_sort(struct import_id *ids, size_t count, const char *document, struct error *error);
// Where among the sorted the number is, or UINT32_MAX.
uint32_t import_ids_find(const struct import_id *ids, size_t count, uint64_t id);

struct import_link {
    uint32_t from, to;  // nodes, later layers
    size_t place;       // in the document: a line, or an item of its list
    uint64_t bytes;     // what passes along it
};

int import_compare_links(const void *a, const void *b);  // by (from, to, place), for qsort()

int import_compare_texts(const void *a, const void *b);  // of pointers to strings, for qsort()

// --- a topological order ----------------------------------------------------------------

// Of the nodes whose producers are all placed, early ones go first, then the lowest:
//
//     node1 early      node3 -> node2        order  node1 node3 node2 node4
//     node1 -> node3   node2 -> node4
struct import_order {
    uint32_t *layer_of;  // node to layer
    uint32_t *node_of;   // layer to node
    size_t placed;       // fewer than there are nodes: there is a cycle
    size_t cycle;        // then the link that closes it
};

// `links` are sorted; `early` may be NULL. False when there is no memory; to be cleared
// in any case.
bool import_order_find(struct import_order *order, size_t node_count, const struct import_link *links,
                       size_t link_count, const bool *early, struct error *error);
void import_order_clear(struct import_order *order);

// Makes links between nodes links between layers, sorted again.
void import_links_place(struct import_link *links, size_t count, const struct import_order *order);

// The profile's edges; none where they are a chain.
bool import_set_edges(struct profile *profile, const struct import_link *links, size_t count, struct error *error);

// Refuses names that stand twice.
bool import_check_names(const struct profile *profile, const char *document, struct error *error);

// When all layers and edges are there: refuses names that stand twice and sums that no
// profile holds, adds up the times, and hashes.
bool import_finish(struct profile *profile, const char *document, struct error *error);

// --- numbers ------------------------------------------------------------------------------

// A number of 0 or more in a unit of `scale`, to the nearest whole; 0 after an error,
// which is the document's.
uint64_t import_number(struct json *object, const char *key, double scale);

#endif
