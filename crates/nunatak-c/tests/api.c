// The C interface: every function, and what it refuses.
#include <nunatak.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static int32_t decide(void *context, const uint64_t *value, uint64_t *new_value) {
  *new_value = value ? *value * 2 : 1;
  return *(int32_t *)context;
}

static bool sum(void *context, uint64_t key, uint64_t value) {
  *(uint64_t *)context += key + value;
  return true;
}

static bool first(void *context, uint64_t key, uint64_t value) {
  (void)key, (void)value;
  ++*(int *)context;
  return false;
}

static void map_of(int table) {
  nunatak_map *map = NULL;
  OK(nunatak_map_new(table, 100, &map));
  uint64_t value = 5;
  bool is = true;
  OK(nunatak_map_get(map, 1, &value, &is));
  EXPECT(!is && value == 5);
  OK(nunatak_map_insert(map, 1, 10, &value, &is));
  EXPECT(!is);
  OK(nunatak_map_insert(map, 1, 11, &value, &is));
  EXPECT(is && value == 10);
  OK(nunatak_map_try_insert(map, 1, 12, &value, &is));
  EXPECT(!is && value == 11);
  OK(nunatak_map_try_insert(map, 2, 20, &value, &is));
  EXPECT(is);
  OK(nunatak_map_update(map, 3, 30, &value, &is));
  EXPECT(!is);
  OK(nunatak_map_update(map, 2, 21, &value, &is));
  EXPECT(is && value == 20);
  value = 20;
  OK(nunatak_map_compare_exchange(map, 2, &value, 22, &is));
  EXPECT(!is && value == 21);
  OK(nunatak_map_compare_exchange(map, 2, &value, 22, &is));
  EXPECT(is);
  OK(nunatak_map_fetch_add(map, 2, (uint64_t)-2, &value));
  EXPECT(value == 20);
  int32_t decision = NUNATAK_PUT;
  OK(nunatak_map_compute(map, 2, decide, &decision));
  OK(nunatak_map_get(map, 2, &value, NULL));
  EXPECT(value == 40);
  decision = 77;
  FAILS(NUNATAK_INVALID, nunatak_map_compute(map, 2, decide, &decision));
  decision = NUNATAK_REMOVE;
  OK(nunatak_map_compute(map, 2, decide, &decision));
  EXPECT(nunatak_map_len(map) == 1);
  OK(nunatak_map_remove(map, 1, &value, &is));
  EXPECT(is && value == 11);
  OK(nunatak_map_remove(map, 1, NULL, NULL));

  enum { COUNT = 10000 };
  static uint64_t keys[COUNT], values[COUNT], present[(COUNT + 63) / 64];
  for (size_t i = 0; i < COUNT; ++i) keys[i] = i * 2, values[i] = i;
  size_t count = 0;
  OK(nunatak_map_insert_many(map, keys, values, COUNT, &count));
  EXPECT(count == COUNT && nunatak_map_len(map) == COUNT);
  OK(nunatak_map_add_many(map, keys, values, COUNT, &count));
  EXPECT(count == 0);
  OK(nunatak_map_add_many(map, keys, NULL, COUNT, NULL));
  for (size_t i = 0; i < COUNT; ++i) keys[i] = i;
  OK(nunatak_map_get_many(map, keys, COUNT, values, present, &count));
  EXPECT(count == COUNT / 2);
  for (size_t i = 0; i < COUNT; ++i) {
    EXPECT((present[i / 64] >> (i % 64) & 1) == (i % 2 == 0));
    EXPECT(i % 2 || values[i] == i + 1);
  }
  uint64_t total = 0;
  OK(nunatak_map_for_each(map, sum, &total));
  uint64_t n = COUNT;
  EXPECT(total == n * (n - 1) * 2 + n);
  int shown = 0;
  OK(nunatak_map_for_each(map, first, &shown));
  EXPECT(shown == 1);
  OK(nunatak_map_remove_many(map, keys, COUNT, values, present, &count));
  EXPECT(count == COUNT / 2 && values[8] == 9 && present[0] == 0x5555555555555555);
  OK(nunatak_map_reserve(map, 1000));
  FAILS(NUNATAK_MEMORY, nunatak_map_reserve(map, (size_t)1 << 62));
  OK(nunatak_map_clear(map));
  OK(nunatak_map_shrink_to_fit(map));
  EXPECT(nunatak_map_len(map) == 0 && nunatak_map_memory(map) > 0);
  EXPECT(nunatak_map_load_factor(map) == 0);
  FAILS(NUNATAK_INVALID, nunatak_map_sync(map));
  nunatak_map_free(map);
}

static void refused(void) {
  nunatak_map *map = NULL;
  FAILS(NUNATAK_INVALID, nunatak_map_new(9, 0, &map));
  FAILS(NUNATAK_INVALID, nunatak_map_new(-1, 0, &map));
  FAILS(NUNATAK_INVALID, nunatak_map_new(0, 0, NULL));
  FAILS(NUNATAK_MEMORY, nunatak_map_new(0, SIZE_MAX, &map));
  EXPECT(map == NULL);
  nunatak_map_free(NULL);
  OK(nunatak_map_close(NULL));
  EXPECT(nunatak_map_len(NULL) == 0);
  FAILS(NUNATAK_INVALID, nunatak_map_get(NULL, 1, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_map_insert(NULL, 1, 1, NULL, NULL));
  OK(nunatak_map_new(0, 0, &map));
  uint64_t keys[2] = {1, 2}, values[2], present[1];
  FAILS(NUNATAK_INVALID, nunatak_map_get_many(map, NULL, 2, values, present, NULL));
  FAILS(NUNATAK_INVALID, nunatak_map_get_many(map, keys, 2, NULL, present, NULL));
  FAILS(NUNATAK_INVALID, nunatak_map_get_many(map, keys, 2, values, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_map_get_many(map, keys, SIZE_MAX / 2, values, present, NULL));
  FAILS(NUNATAK_INVALID, nunatak_map_insert_many(map, keys, NULL, 2, NULL));
  FAILS(NUNATAK_INVALID, nunatak_map_compute(map, 1, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_map_for_each(map, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_map_compare_exchange(map, 1, NULL, 1, NULL));
  OK(nunatak_map_get_many(map, NULL, 0, NULL, NULL, NULL));
  EXPECT(nunatak_map_len(map) == 0);
  nunatak_map_free(map);
  EXPECT(strlen(nunatak_version()) >= 5);
}

static void remember(void *context, nunatak_bytes value) { memcpy(context, value.data, value.len); }

static void count_many(void *context, size_t index, const nunatak_bytes *value) {
  ((size_t *)context)[index] = value ? value->len : 1000;
}

static bool total(void *context, nunatak_bytes key, nunatak_bytes value) {
  *(size_t *)context += key.len + value.len;
  return true;
}

static int32_t append(void *context, const nunatak_bytes *value, nunatak_bytes *new_value) {
  char *buffer = context;
  if (!value) return NUNATAK_KEEP;
  memcpy(buffer, value->data, value->len);
  buffer[value->len] = '!';
  *new_value = (nunatak_bytes){(const uint8_t *)buffer, value->len + 1};
  return NUNATAK_PUT;
}

static void blobs(nunatak_blob_map *map) {
  bool is = true;
  size_t len = 7;
  char buffer[16] = "";
  OK(nunatak_blob_map_get(map, text("a"), (uint8_t *)buffer, sizeof buffer, &len, &is));
  EXPECT(!is && len == 7);
  OK(nunatak_blob_map_put(map, text("a"), text("first"), &is));
  EXPECT(!is);
  OK(nunatak_blob_map_put(map, text("a"), text("one"), &is));
  EXPECT(is);
  OK(nunatak_blob_map_try_insert(map, text("a"), text("two"), &is));
  EXPECT(!is);
  OK(nunatak_blob_map_try_insert(map, text(""), text(""), &is));
  EXPECT(is);
  OK(nunatak_blob_map_get(map, text("a"), (uint8_t *)buffer, 2, &len, &is));
  EXPECT(is && len == 3 && memcmp(buffer, "on\0", 3) == 0);
  OK(nunatak_blob_map_visit(map, text("a"), remember, buffer, &is));
  EXPECT(is && memcmp(buffer, "one", 3) == 0);
  OK(nunatak_blob_map_compute(map, text("a"), append, buffer));
  OK(nunatak_blob_map_compute(map, text("absent"), append, buffer));
  OK(nunatak_blob_map_get(map, text("a"), (uint8_t *)buffer, sizeof buffer, &len, &is));
  EXPECT(len == 4 && memcmp(buffer, "one!", 4) == 0);
  nunatak_bytes keys[3] = {text("x"), text("a"), text("")};
  nunatak_bytes values[3] = {text("1"), text("22"), text("333")};
  size_t lengths[3] = {0}, fresh = 0, all = 0;
  OK(nunatak_blob_map_visit_many(map, keys, 3, count_many, lengths));
  EXPECT(lengths[0] == 1000 && lengths[1] == 4 && lengths[2] == 0);
  OK(nunatak_blob_map_put_many(map, keys, values, 3, &fresh));
  EXPECT(fresh == 1 && nunatak_blob_map_len(map) == 3);
  OK(nunatak_blob_map_for_each(map, total, &all));
  EXPECT(all == 8);
  OK(nunatak_blob_map_remove(map, text("a"), &is));
  EXPECT(is && nunatak_blob_map_len(map) == 2 && nunatak_blob_map_memory(map) > 0);
  FAILS(NUNATAK_INVALID, nunatak_blob_map_put(map, (nunatak_bytes){NULL, 3}, text(""), NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_map_visit(map, text("a"), NULL, NULL, NULL));
  OK(nunatak_blob_map_reserve(map, 100));
}

static void guards(nunatak_blob_map *map) {
  OK(nunatak_blob_map_put(map, text("kept"), text("a value that stays"), NULL));
  nunatak_blob_guard *guard = NULL;
  OK(nunatak_blob_map_pin(map, &guard));
  nunatak_bytes value = {0};
  bool is = false;
  OK(nunatak_blob_guard_get(guard, text("kept"), &value, &is));
  EXPECT(is && value.len == 18);
  for (int round = 0; round < 200; ++round) {
    OK(nunatak_blob_map_put(map, text("kept"), text("another value ----"), NULL));
    OK(nunatak_blob_map_remove(map, text("kept"), NULL));
  }
  EXPECT(memcmp(value.data, "a value that stays", 18) == 0);
  OK(nunatak_blob_guard_get(guard, text("kept"), &value, &is));
  EXPECT(!is && value.len == 18);
  FAILS(NUNATAK_INVALID, nunatak_blob_guard_get(NULL, text("kept"), &value, &is));
  FAILS(NUNATAK_INVALID, nunatak_blob_guard_get(guard, (nunatak_bytes){NULL, 1}, &value, &is));
  FAILS(NUNATAK_INVALID, nunatak_blob_map_pin(NULL, &guard));
  nunatak_blob_guard_free(guard);
  nunatak_blob_guard_free(NULL);
}

static void files(const char *folder) {
  char path[512], copy[512];
  snprintf(path, sizeof path, "%s/words.map", folder);
  snprintf(copy, sizeof copy, "%s/copy.map", folder);
  nunatak_map *map = NULL, *other = NULL;
  nunatak_file_options options = {.must_exist = true};
  FAILS(NUNATAK_IO, nunatak_map_open(path, &options, &map));
  FAILS(NUNATAK_INVALID, nunatak_map_open(NULL, NULL, &map));
  options = (nunatak_file_options){.durability = NUNATAK_INTERVAL};
  FAILS(NUNATAK_INVALID, nunatak_map_open(path, &options, &map));
  options = (nunatak_file_options){.table = NUNATAK_DLHT};
  FAILS(NUNATAK_INVALID, nunatak_map_open(path, &options, &map));
  options = (nunatak_file_options){.table = NUNATAK_PEA, .durability = NUNATAK_SYNCED};
  OK(nunatak_map_open(path, &options, &map));
  OK(nunatak_map_insert(map, 1, 10, NULL, NULL));
  FAILS(NUNATAK_FILE, nunatak_map_open(path, NULL, &other));
  OK(nunatak_map_sync(map));
  nunatak_file_options beside = {.beside = true};
  OK(nunatak_map_open(path, &beside, &other));
  EXPECT(nunatak_map_len(other) == 1);
  FAILS(NUNATAK_FILE, nunatak_map_insert(other, 2, 20, NULL, NULL));
  nunatak_map_free(other);
  size_t entries = 0;
  OK(nunatak_map_verify(map, &entries));
  EXPECT(entries == 1);
  OK(nunatak_map_failure(map));
  FAILS(NUNATAK_INVALID, nunatak_map_failure(NULL));
  OK(nunatak_map_backup(map, copy, &entries));
  FAILS(NUNATAK_EXISTS, nunatak_map_backup(map, copy, &entries));
  pid_t child = fork();
  if (child == 0) {
    uint64_t value = 0;
    bool found = false;
    int right = nunatak_map_insert(map, 2, 20, NULL, NULL) == NUNATAK_FILE &&
                nunatak_map_get(map, 1, &value, &found) == NUNATAK_OK && found && value == 10;
    _exit(right ? 0 : 1);
  }
  int status = 1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  OK(nunatak_map_close(map));
  options = (nunatak_file_options){.read_only = true};
  OK(nunatak_map_open(copy, &options, &map));
  FAILS(NUNATAK_FILE, nunatak_map_insert(map, 2, 20, NULL, NULL));
  EXPECT(nunatak_map_len(map) == 1);
  nunatak_map_free(map);

  // The slots of this table change where they are, so only the map itself can make a copy.
  snprintf(path, sizeof path, "%s/iceberg.map", folder);
  for (int answers = 0; answers < 2; ++answers) {
    options = (nunatak_file_options){.table = NUNATAK_ICEBERG, .answer_readers = answers};
    OK(nunatak_map_open(path, &options, &map));
    OK(nunatak_map_insert(map, 1 + answers, 10, NULL, NULL));
    if (answers) {
      OK(nunatak_map_open(path, &beside, &other));
      EXPECT(nunatak_map_len(other) == 2);
      nunatak_map_free(other);
    } else {
      FAILS(NUNATAK_FILE, nunatak_map_open(path, &beside, &other));
    }
    OK(nunatak_map_close(map));
  }

  snprintf(path, sizeof path, "%s/strings.map", folder);
  nunatak_blob_map *strings = NULL;
  OK(nunatak_blob_map_open(path, NULL, &strings));
  blobs(strings);
  guards(strings);
  OK(nunatak_blob_map_close(strings));
  OK(nunatak_blob_map_open(path, NULL, &strings));
  OK(nunatak_blob_map_verify(strings, &entries));
  OK(nunatak_blob_map_failure(strings));
  EXPECT(entries == 2);
  OK(nunatak_blob_map_clear(strings));
  OK(nunatak_blob_map_sync(strings));
  nunatak_blob_map_free(strings);
  FAILS(NUNATAK_FILE, nunatak_map_open(path, NULL, &map));
}

static bool total_of(void *context, uint64_t key, uint64_t value) {
  *(uint64_t *)context += key * 1000 + value;
  return true;
}

static bool first_of(void *context, uint64_t key, uint64_t value) {
  (void)value;
  *(uint64_t *)context += key;
  return false;
}

static bool group_of(void *context, uint64_t key, const uint64_t *values, size_t len) {
  for (size_t i = 0; i < len; ++i) *(uint64_t *)context += key * 1000 + values[i];
  *(uint64_t *)context += 1000000;
  return key != 0;
}

static void unique_pairs_of(nunatak_multimap *map) {
  uint64_t keys[4] = {1, 2, 1, 2}, values[4] = {10, 20, 10, 21}, total = 0;
  bool is = false;
  size_t count = 0;
  OK(nunatak_multimap_insert_unique(map, 1, 10, &is));
  EXPECT(is);
  OK(nunatak_multimap_insert_unique(map, 1, 10, &is));
  EXPECT(!is && nunatak_multimap_len(map) == 1);
  OK(nunatak_multimap_insert_unique_many(map, keys, values, 4, &count));
  EXPECT(count == 2 && nunatak_multimap_len(map) == 3);
  OK(nunatak_multimap_insert_unique_many(map, keys, values, 4, NULL));
  OK(nunatak_multimap_insert_unique(map, 1, 10, NULL));
  EXPECT(nunatak_multimap_len(map) == 3);
  OK(nunatak_multimap_for_each_key(map, total_of, &total));
  EXPECT(total == 3003);
  total = 0;
  OK(nunatak_multimap_for_each_key(map, first_of, &total));
  EXPECT(total == 1 || total == 2);
  total = 0;
  OK(nunatak_multimap_for_each_group(map, group_of, &total));
  EXPECT(total == 2005051);
  FAILS(NUNATAK_INVALID, nunatak_multimap_insert_unique(NULL, 1, 10, &is));
  FAILS(NUNATAK_INVALID, nunatak_multimap_insert_unique_many(map, keys, NULL, 4, &count));
  FAILS(NUNATAK_INVALID, nunatak_multimap_for_each_key(map, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_multimap_for_each_group(map, NULL, NULL));
  OK(nunatak_multimap_clear(map));
}

static void multimap_of(nunatak_multimap *map) {
  unique_pairs_of(map);
  OK(nunatak_multimap_insert(map, 1, 10));
  uint64_t keys[3] = {1, 2, 2}, values[3] = {10, 20, 21};
  OK(nunatak_multimap_insert_many(map, keys, values, 3));
  size_t counts[3], count = 0;
  OK(nunatak_multimap_count_many(map, keys, 2, counts));
  EXPECT(counts[0] == 2 && counts[1] == 2 && nunatak_multimap_len(map) == 4);
  OK(nunatak_multimap_get_all(map, 2, values, 1, &count));
  EXPECT(count == 2 && (values[0] == 20 || values[0] == 21));
  uint64_t asked[3] = {2, 9, 1}, all[4] = {0};
  size_t ends[3];
  OK(nunatak_multimap_get_all_many(map, asked, 3, ends, all, 3, &count));
  EXPECT(count == 4 && all[0] + all[1] == 41 && all[2] == 10 && all[3] == 0);
  EXPECT(ends[0] == 2 && ends[1] == 2 && ends[2] == 4);
  OK(nunatak_multimap_get_all_many(map, asked, 3, ends, all, 4, &count));
  EXPECT(count == 4 && all[3] == 10);
  uint64_t total = 0, key = 0, value = 0;
  OK(nunatak_multimap_for_each(map, total_of, &total));
  EXPECT(total == 6061);
  nunatak_iterator *iterator = NULL;
  OK(nunatak_multimap_iterate(map, &iterator));
  for (total = 0; nunatak_iterator_next(iterator, &key, &value);) total += key * 1000 + value;
  nunatak_iterator_free(iterator);
  EXPECT(total == 6061);
  bool is = false;
  OK(nunatak_multimap_remove_one(map, 1, 10, &is));
  EXPECT(is);
  OK(nunatak_multimap_remove_all(map, 2, &count));
  EXPECT(count == 2 && nunatak_multimap_len(map) == 1 && nunatak_multimap_memory(map) > 0);
  OK(nunatak_multimap_remove_all_many(map, asked, 3, counts));
  EXPECT(counts[0] == 0 && counts[1] == 0 && counts[2] == 1 && nunatak_multimap_len(map) == 0);
  FAILS(NUNATAK_INVALID, nunatak_multimap_insert_many(map, keys, NULL, 3));
  FAILS(NUNATAK_INVALID, nunatak_multimap_get_all_many(map, keys, 3, NULL, all, 4, &count));
  FAILS(NUNATAK_INVALID, nunatak_multimap_for_each(map, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_multimap_iterate(NULL, &iterator));
  FAILS(NUNATAK_INVALID, nunatak_multimap_iterate(map, NULL));
}

static void multimaps(const char *folder) {
  nunatak_multimap *map = NULL, *other = NULL;
  OK(nunatak_multimap_new(&map));
  multimap_of(map);
  FAILS(NUNATAK_INVALID, nunatak_multimap_sync(map));
  OK(nunatak_multimap_insert(map, 1, 10));
  OK(nunatak_multimap_clear(map));
  EXPECT(nunatak_multimap_len(map) == 0);
  OK(nunatak_multimap_close(map));

  char path[512], copy[512];
  snprintf(path, sizeof path, "%s/multi.map", folder);
  snprintf(copy, sizeof copy, "%s/multi-copy.map", folder);
  nunatak_file_options options = {.table = NUNATAK_TURBO};
  FAILS(NUNATAK_FILE, nunatak_multimap_open(path, &options, &map));
  options = (nunatak_file_options){.must_exist = true};
  FAILS(NUNATAK_IO, nunatak_multimap_open(path, &options, &map));
  OK(nunatak_multimap_open(path, NULL, &map));
  multimap_of(map);
  OK(nunatak_multimap_insert(map, 3, 30));
  OK(nunatak_multimap_sync(map));
  OK(nunatak_multimap_insert(map, 3, 31));
  options = (nunatak_file_options){.beside = true};
  OK(nunatak_multimap_open(path, &options, &other));
  EXPECT(nunatak_multimap_len(other) == 1 && nunatak_multimap_len(map) == 2);
  FAILS(NUNATAK_FILE, nunatak_multimap_insert(other, 1, 1));
  nunatak_multimap_free(other);
  size_t count = 0;
  OK(nunatak_multimap_verify(map, &count));
  OK(nunatak_multimap_failure(map));
  EXPECT(count == 2);
  OK(nunatak_multimap_backup(map, copy, &count));
  OK(nunatak_multimap_close(map));
  options = (nunatak_file_options){.read_only = true};
  OK(nunatak_multimap_open(copy, &options, &map));
  EXPECT(nunatak_multimap_len(map) == 2);
  nunatak_multimap_free(map);
  size_t doubtful = 1;
  snprintf(path, sizeof path, "%s/salvaged.map", folder);
  OK(nunatak_salvage(copy, path, &count, &doubtful));
  EXPECT(count == 2 && doubtful == 0);
  FAILS(NUNATAK_EXISTS, nunatak_salvage(copy, path, NULL, NULL));
  FAILS(NUNATAK_INVALID, nunatak_salvage(NULL, path, NULL, NULL));
  nunatak_map *words = NULL;
  FAILS(NUNATAK_FILE, nunatak_map_open(copy, NULL, &words));
}

static void figures(void) {
  nunatak_map *map = NULL;
  OK(nunatak_map_new(NUNATAK_DEFAULT, 0, &map));
  char words[2000] = "?";
  size_t len = 0;
  OK(nunatak_map_stats(map, words, sizeof words, &len));
  EXPECT(len > 5 && strlen(words) == len && strstr(words, "Stats"));
  char few[6] = "??????";
  OK(nunatak_map_stats(map, few, sizeof few, &len));
  EXPECT(strlen(few) == 5 && memcmp(few, words, 5) == 0 && len == strlen(words));
  OK(nunatak_map_stats(map, NULL, 0, &len));
  EXPECT(len == strlen(words));
  FAILS(NUNATAK_INVALID, nunatak_map_stats(map, NULL, 1, NULL));
  FAILS(NUNATAK_INVALID, nunatak_blob_map_stats(NULL, words, 1, NULL));
  FAILS(NUNATAK_INVALID, nunatak_multimap_stats(NULL, words, 1, NULL));
  nunatak_map_free(map);
}

static void iterators(void) {
  nunatak_map *map = NULL;
  nunatak_blob_map *strings = NULL;
  OK(nunatak_map_new(NUNATAK_DEFAULT, 0, &map));
  OK(nunatak_blob_map_new(NUNATAK_DEFAULT, 0, &strings));
  char name[16];
  for (uint64_t key = 0; key < 100; ++key) {
    OK(nunatak_map_insert(map, key, key * 2, NULL, NULL));
    snprintf(name, sizeof name, "%d", (int)key);
    OK(nunatak_blob_map_put(strings, text(name), text("value"), NULL));
  }
  nunatak_iterator *one = NULL;
  nunatak_blob_iterator *other = NULL;
  OK(nunatak_map_iterate(map, &one));
  OK(nunatak_blob_map_iterate(strings, &other));
  // They have copies.
  nunatak_map_free(map);
  nunatak_blob_map_free(strings);
  uint64_t key = 0, value = 0, keys = 0, count = 0;
  while (nunatak_iterator_next(one, &key, &value)) {
    EXPECT(value == key * 2);
    keys += key;
    ++count;
  }
  EXPECT(count == 100 && keys == 4950 && !nunatak_iterator_next(one, NULL, NULL));
  nunatak_bytes of_key, of_value;
  for (count = keys = 0; nunatak_blob_iterator_next(other, &of_key, &of_value); ++count) {
    EXPECT(of_value.len == 5 && memcmp(of_value.data, "value", 5) == 0);
    memcpy(name, of_key.data, of_key.len);
    name[of_key.len] = 0;
    keys += (uint64_t)atoi(name);
  }
  EXPECT(count == 100 && keys == 4950 && !nunatak_blob_iterator_next(other, NULL, NULL));
  EXPECT(!nunatak_iterator_next(NULL, &key, &value) && !nunatak_blob_iterator_next(NULL, NULL, NULL));
  nunatak_iterator_free(one);
  nunatak_iterator_free(NULL);
  nunatak_blob_iterator_free(other);
  FAILS(NUNATAK_INVALID, nunatak_map_iterate(NULL, &one));
  FAILS(NUNATAK_INVALID, nunatak_blob_map_iterate(NULL, &other));
}

int main(void) {
  for (int table = NUNATAK_DEFAULT; table <= NUNATAK_TURBO; ++table) {
    map_of(table);
    nunatak_blob_map *map = NULL;
    OK(nunatak_blob_map_new(table, 0, &map));
    blobs(map);
    guards(map);
    nunatak_blob_map_free(map);
  }
  refused();
  figures();
  iterators();
  char folder[] = "/tmp/nunatak-c-XXXXXX";
  EXPECT(mkdtemp(folder));
  files(folder);
  multimaps(folder);
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  EXPECT(system(command) == 0);
  puts("the C interface holds");
  return 0;
}
