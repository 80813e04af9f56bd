// MovieLens as clicks: whether a user rates a film with 4 or more. It is read from three atomic files of RecBole
// (atomic_file.h), of ratings, films and users:
//
//     FILE.inter    user_id item_id rating timestamp
//     FILE.item     item_id release_year class
//     FILE.user     user_id age gender occupation zip_code
//
// Slots are user, item, genres (as many as a film has), age (in MovieLens's seven ranges), gender, occupation, zip (the
// first character) and year (of the film). An id is the place of a word among all words of its column, sorted by bytes;
// of zip it is the character's code. Numbers are the user's age and the film's year since 1900. What is missing is an
// empty bag, or 0.
#ifndef TRAINER_DATA_MOVIELENS_H
#define TRAINER_DATA_MOVIELENS_H

#include "trainer/data/click_writer.h"

enum { MOVIELENS_RATINGS, MOVIELENS_ITEMS, MOVIELENS_USERS, MOVIELENS_FILES };

// Adds a sample per rating: first those to train on, which are `train`, then those held out. About a tenth is held out
// by a hash of the rating's line; with `by_time` the latest tenth is.
bool movielens_read(char *const files[MOVIELENS_FILES], bool by_time, struct click_writer *writer, uint64_t *train,
                    struct error *error);

#endif
