// The C interface: multimaps whose keys are byte strings, and what their functions refuse.
#include <nunatak.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition,          \
              nunatak_last_error());                                               \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)
#define OK(call) EXPECT((call) == NUNATAK_OK)
#define FAILS(status, call) EXPECT((call) == (status) && strlen(nunatak_last_error()) > 0)

static nunatak_bytes text(const char *text) {
  return (nunatak_bytes){(const uint8_t *)text, strlen(text)};
}

// Of keys with one letter: tells keys and values apart.
static uint64_t weight(nunatak_bytes key, uint64_t value) {
  EXPECT(key.len == 1);
  return (uint64_t)(key.data[0] - 'a' + 1) * 1000 + value;
}

static bool total_of(void *context, nunatak_bytes key, uint64_t value) {
  *(uint64_t *)context += weight(key, value);
  return true;
}

static bool first_of(void *context, nunatak_bytes key, uint64_t value) {
  (void)value;
  *(uint64_t *)context += weight(key, 0);
  return false;
}

static bool group_of(void *context, nunatak_bytes key, const uint64_t *values, size_t len) {
  for (size_t i = 0; i < len; ++i) *(uint64_t *)context += weight(key, values[i]);
  *(uint64_t *)context += 1000000;
  return true;
}

static bool first_group_of(void *context, nunatak_bytes key, const uint64_t *values, size_t len) {
  (void)values;
  *(uint64_t *)context += weight(key, len);
  return false;
}

static void values_of(nunatak_blob_multimap *map) {
  OK(nunatak_blob_multimap_insert(map, text("a"), 10));
  const nunatak_bytes keys[3] = {text("a"), text("b"), text("b")};
  uint64_t values[3] = {10, 20, 21};
  OK(nunatak_blob_multimap_insert_many(map, keys, values, 3));
  size_t counts[3], count = 0;
  OK(nunatak_blob_multimap_count_many(map, keys, 3, counts));
  EXPECT(counts[0] == 2 && counts[1] == 2 && counts[2] == 2 && nunatak_blob_multimap_len(map) == 4);
  OK(nunatak_blob_multimap_get_all(map, text("b"), values, 1, &count));
  EXPECT(count == 2 && (values[0] == 20 || values[0] == 21) && values[1] == 20);
  OK(nunatak_blob_multimap_get_all(map, text("b"), values, 3, &count));
  EXPECT(count == 2 && values[0] + values[1] == 41 && values[2] == 21);
  OK(nunatak_blob_multimap_get_all(map, text("b"), NULL, 0, &count));
  EXPECT(count == 2);
  OK(nunatak_blob_multimap_get_all(map, text("x"), NULL, 0, &count));
  EXPECT(count == 0);
  const nunatak_bytes asked[3] = {text("b"), text("x"), text("a")};
  uint64_t all[4] = {0};
  size_t ends[3];
  OK(nunatak_blob_multimap_get_all_many(map, asked, 3, ends, all, 3, &count));
  EXPECT(count == 4 && all[0] + all[1] == 41 && all[2] == 10 && all[3] == 0);
  EXPECT(ends[0] == 2 && ends[1] == 2 && ends[2] == 4);
  OK(nunatak_blob_multimap_get_all_many(map, asked, 3, ends, all, 4, &count));
  EXPECT(count == 4 && all[3] == 10);
  uint64_t total = 0;
  OK(nunatak_blob_multimap_for_each(map, total_of, &total));
  EXPECT(total == 6061);
  total = 0;
  OK(nunatak_blob_multimap_for_each(map, first_of, &total));
  EXPECT(total == 1000 || total == 2000);
  bool is = false;
  OK(nunatak_blob_multimap_remove_one(map, text("a"), 10, &is));
  EXPECT(is);
  OK(nunatak_blob_multimap_remove_one(map, text("a"), 11, &is));
  EXPECT(!is);
  OK(nunatak_blob_multimap_remove_all(map, text("b"), &count));
  EXPECT(count == 2 && nunatak_blob_multimap_len(map) == 1 && nunatak_blob_multimap_memory(map) > 0);
  OK(nunatak_blob_multimap_remove_all_many(map, asked, 3, counts));
  EXPECT(counts[0] == 0 && counts[1] == 0 && counts[2] == 1 && nunatak_blob_multimap_len(map) == 0);
  OK(nunatak_blob_multimap_remove_one(map, text("a"), 10, NULL));
  OK(nunatak_blob_multimap_remove_all(map, text("a"), NULL));
}

static void unique_pairs_of(nunatak_blob_multimap *map) {
  const nunatak_bytes keys[4] = {text("a"), text("b"), text("a"), text("b")};
  const uint64_t values[4] = {10, 20, 10, 21};
  uint64_t total = 0;
  bool is = false;
  size_t count = 0;
  OK(nunatak_blob_multimap_insert_unique(map, text("a"), 10, &is));
  EXPECT(is);
  OK(nunatak_blob_multimap_insert_unique(map, text("a"), 10, &is));
  EXPECT(!is && nunatak_blob_multimap_len(map) == 1);
  OK(nunatak_blob_multimap_insert_unique_many(map, keys, values, 4, &count));
  EXPECT(count == 2 && nunatak_blob_multimap_len(map) == 3);
  OK(nunatak_blob_multimap_insert_unique_many(map, keys, values, 4, NULL));
  OK(nunatak_blob_multimap_insert_unique(map, text("a"), 10, NULL));
  EXPECT(nunatak_blob_multimap_len(map) == 3);
  OK(nunatak_blob_multimap_for_each_key(map, total_of, &total));
  EXPECT(total == 3003);
  total = 0;
  OK(nunatak_blob_multimap_for_each_key(map, first_of, &total));
  EXPECT(total == 1000 || total == 2000);
  total = 0;
  OK(nunatak_blob_multimap_for_each_group(map, group_of, &total));
  EXPECT(total == 2005051);
  total = 0;
  OK(nunatak_blob_multimap_for_each_group(map, first_group_of, &total));
  EXPECT(total == 1001 || total == 2002);
  OK(nunatak_blob_multimap_clear(map));
  EXPECT(nunatak_blob_multimap_len(map) == 0);
}

// Bytes of any value and any length, which the map has copies of.
static void bytes_of(nunatak_blob_multimap *map) {
  const nunatak_bytes nothing = {NULL, 0};
  uint8_t bytes[5000] = {0};
  const nunatak_bytes many = {bytes, sizeof bytes}, zero = {bytes, 1};
  OK(nunatak_blob_multimap_insert(map, nothing, 1));
  OK(nunatak_blob_multimap_insert(map, zero, 2));
  OK(nunatak_blob_multimap_insert(map, many, UINT64_MAX));
  bytes[4999] = 255;
  OK(nunatak_blob_multimap_insert(map, many, 3));
  memset(bytes, 0, sizeof bytes);
  uint64_t value = 0;
  size_t count = 0;
  OK(nunatak_blob_multimap_get_all(map, nothing, &value, 1, &count));
  EXPECT(count == 1 && value == 1);
  OK(nunatak_blob_multimap_get_all(map, text(""), &value, 1, &count));
  EXPECT(count == 1 && value == 1);
  OK(nunatak_blob_multimap_get_all(map, zero, &value, 1, &count));
  EXPECT(count == 1 && value == 2);
  OK(nunatak_blob_multimap_get_all(map, many, &value, 1, &count));
  EXPECT(count == 1 && value == UINT64_MAX);
  bytes[4999] = 255;
  OK(nunatak_blob_multimap_get_all(map, many, &value, 1, &count));
  EXPECT(count == 1 && value == 3);
  OK(nunatak_blob_multimap_clear(map));
}

static void iterators(void) {
  nunatak_blob_multimap *map = NULL;
  OK(nunatak_blob_multimap_new(&map));
  char name[16];
  for (uint64_t value = 0; value < 300; ++value) {
    snprintf(name, sizeof name, "%d", (int)(value % 100));
    OK(nunatak_blob_multimap_insert(map, text(name), value));
  }
  nunatak_blob_multimap_iterator *iterator = NULL;
  OK(nunatak_blob_multimap_iterate(map, &iterator));
  // It has copies.
  nunatak_blob_multimap_free(map);
  nunatak_bytes key;
  uint64_t value = 0, total = 0, count = 0;
  for (; nunatak_blob_multimap_iterator_next(iterator, &key, &value); ++count) {
    memcpy(name, key.data, key.len);
    name[key.len] = 0;
    EXPECT((uint64_t)atoi(name) == value % 100);
    total += value;
  }
  EXPECT(count == 300 && total == 299 * 150);
  EXPECT(!nunatak_blob_multimap_iterator_next(iterator, NULL, NULL));
  EXPECT(!nunatak_blob_multimap_iterator_next(NULL, &key, &value));
  nunatak_blob_multimap_iterator_free(iterator);
  nunatak_blob_multimap_iterator_free(NULL);
  OK(nunatak_blob_multimap_new(&map));
  OK(nunatak_blob_multimap_insert(map, text("a"), 1));
  OK(nunatak_blob_multimap_iterate(map, &iterator));
  EXPECT(nunatak_blob_multimap_iterator_next(iterator, NULL, NULL));
  // One that is not at its end, and whose map is there.
  nunatak_blob_multimap_iterator_free(iterator);
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_iterate(map, NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_iterate(NULL, &iterator));
  nunatak_blob_multimap_free(map);
}

static void refused(nunatak_blob_multimap *map) {
  const nunatak_bytes key = text("a"), null = {NULL, 1};
  const nunatak_bytes keys[2] = {key, null};
  const uint64_t values[2] = {1, 2};
  uint64_t all[2];
  size_t counts[2], count = 7;
  bool is = true;
  char words[4096];
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_new(NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert(NULL, key, 1));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert(map, null, 1));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert_many(map, keys, values, 2));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert_many(map, keys, NULL, 1));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert_many(map, NULL, values, 1));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert_many(NULL, keys, values, 1));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert_unique(NULL, key, 1, &is));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert_unique(map, null, 1, &is));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert_unique_many(map, keys, NULL, 1, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_insert_unique_many(map, keys, values, 2, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_get_all(map, null, all, 2, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_get_all(map, key, NULL, 2, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_get_all(NULL, key, all, 2, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_get_all_many(map, keys, 1, NULL, all, 2, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_get_all_many(map, keys, 1, counts, NULL, 2, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_get_all_many(map, keys, 2, counts, all, 2, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_count_many(map, keys, 2, counts));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_count_many(map, keys, 1, NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_remove_one(map, null, 1, &is));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_remove_all(map, null, &count));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_remove_all_many(map, keys, 2, counts));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_remove_all_many(map, keys, 1, NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_for_each(map, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_for_each_key(map, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_for_each_group(map, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_clear(NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_multimap_stats(NULL, words, sizeof words, NULL));
  EXPECT(nunatak_blob_multimap_len(NULL) == 0 && nunatak_blob_multimap_memory(NULL) == 0);
  // Nothing was changed, and no result was stored.
  EXPECT(nunatak_blob_multimap_len(map) == 0 && count == 7 && is);
  OK(nunatak_blob_multimap_insert_many(map, NULL, NULL, 0));
  OK(nunatak_blob_multimap_get_all_many(map, NULL, 0, NULL, NULL, 0, &count));
  EXPECT(count == 0);
  OK(nunatak_blob_multimap_stats(map, words, sizeof words, &count));
  EXPECT(count == strlen(words) && strstr(words, "Blob"));
  nunatak_blob_multimap_free(NULL);
}

int main(void) {
  nunatak_blob_multimap *map = NULL;
  OK(nunatak_blob_multimap_new(&map));
  EXPECT(nunatak_blob_multimap_len(map) == 0);
  values_of(map);
  unique_pairs_of(map);
  bytes_of(map);
  refused(map);
  nunatak_blob_multimap_free(map);
  iterators();
  puts("multimaps of byte strings hold");
  return 0;
}
