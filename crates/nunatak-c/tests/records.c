// The C interface: maps for transactions, entries in memory of the caller's, and files with a schema.
#include <nunatak.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static bool has(const nunatak_blob_map *map, const char *key, const char *expected) {
  char value[64];
  size_t len = 0;
  bool found = false;
  OK(nunatak_blob_map_get(map, text(key), (uint8_t *)value, sizeof value, &len, &found));
  return found && len == strlen(expected) && memcmp(value, expected, len) == 0;
}

static void words_for_transactions(void) {
  nunatak_map *map = NULL, *plain = NULL;
  OK(nunatak_map_new_shadow(100, &map));
  OK(nunatak_map_insert(map, 1, 10, NULL, NULL));
  FAILS(NUNATAK_PRESENT, nunatak_map_shadow_insert(map, 1));
  OK(nunatak_map_shadow_insert(map, 2));
  FAILS(NUNATAK_SHADOWED, nunatak_map_shadow_insert(map, 2));
  bool is = true;
  OK(nunatak_map_get(map, 2, NULL, &is));
  EXPECT(!is && nunatak_map_len(map) == 1);
  FAILS(NUNATAK_SHADOWED, nunatak_map_insert(map, 2, 20, NULL, NULL));
  FAILS(NUNATAK_SHADOWED, nunatak_map_try_insert(map, 2, 20, NULL, NULL));
  FAILS(NUNATAK_SHADOWED, nunatak_map_fetch_add(map, 2, 1, NULL));
  OK(nunatak_map_update(map, 2, 20, NULL, &is));
  EXPECT(!is);
  OK(nunatak_map_remove(map, 2, NULL, &is));
  EXPECT(!is);
  uint64_t value = 0, keys[4] = {3, 4, 2, 5}, values[4] = {30, 40, 20, 50}, present[1] = {0};
  size_t index = 9, count = 0;
  FAILS(NUNATAK_SHADOWED, nunatak_map_shadow_insert_many(map, keys, 4, &index));
  EXPECT(index == 2);
  FAILS(NUNATAK_SHADOWED, nunatak_map_insert_many(map, keys, values, 4, NULL));
  EXPECT(nunatak_map_len(map) == 3);
  FAILS(NUNATAK_SHADOWED, nunatak_map_add_many(map, keys, NULL, 4, NULL));
  OK(nunatak_map_add_many(map, keys, values, 2, &count));
  EXPECT(count == 0);
  OK(nunatak_map_commit_shadow(map, 2, 20));
  FAILS(NUNATAK_NOT_SHADOWED, nunatak_map_commit_shadow(map, 2, 21));
  FAILS(NUNATAK_NOT_SHADOWED, nunatak_map_abort_shadow(map, 2));
  OK(nunatak_map_get_many(map, keys, 4, values, present, &count));
  EXPECT(count == 3 && present[0] == 7 && values[0] == 61 && values[1] == 81 && values[2] == 20);
  OK(nunatak_map_remove_many(map, keys, 3, values, present, &count));
  EXPECT(count == 3 && nunatak_map_len(map) == 1);
  OK(nunatak_map_shadow_insert_many(map, keys, 4, NULL));
  OK(nunatak_map_abort_shadow(map, 5));
  OK(nunatak_map_insert(map, 5, 50, NULL, NULL));
  FAILS(NUNATAK_PRESENT, nunatak_map_shadow_insert_many(map, keys + 3, 1, &index));
  OK(nunatak_map_fetch_add(map, 5, 1, &value));
  EXPECT(value == 51);
  FAILS(NUNATAK_INVALID, nunatak_map_sync(map));
  FAILS(NUNATAK_INVALID, nunatak_map_shadow_insert(NULL, 1));
  FAILS(NUNATAK_INVALID, nunatak_map_shadow_insert_many(map, NULL, 4, NULL));
  OK(nunatak_map_close(map));
  FAILS(NUNATAK_MEMORY, nunatak_map_new_shadow(SIZE_MAX, &map));
  OK(nunatak_map_new(NUNATAK_DEFAULT, 0, &plain));
  FAILS(NUNATAK_INVALID, nunatak_map_shadow_insert(plain, 1));
  nunatak_map_free(plain);
}

// What an allocator is asked for. One thread uses it.
typedef struct {
  size_t live, bytes, calls;
  bool refuses, misaligns;
} counts;

static void *allocate(void *context, size_t size, size_t alignment) {
  counts *of = context;
  ++of->calls;
  if (of->refuses) return NULL;
  ++of->live;
  of->bytes += size;
  EXPECT(alignment > 0 && alignment <= 16);
  // The place of misaligned memory is a little behind the beginning.
  char *memory = malloc(size + 4);
  return memory + (of->misaligns ? 4 : 0);
}

static void deallocate(void *context, void *memory, size_t size, size_t alignment) {
  counts *of = context;
  (void)alignment;
  --of->live;
  of->bytes -= size;
  free((char *)memory - (of->misaligns ? 4 : 0));
}

static void memory_of_the_caller(int table) {
  counts of = {0};
  const nunatak_allocator allocator = {&of, allocate, deallocate};
  nunatak_blob_map *map = NULL;
  OK(nunatak_blob_map_new_in(&allocator, table, 10, &map));
  char key[64];
  for (int i = 0; i < 300; ++i) {
    snprintf(key, sizeof key, "a key of more than eight bytes %d", i);
    OK(nunatak_blob_map_put(map, text(key), text("value"), NULL));
    OK(nunatak_blob_map_put(map, text(key), text("another value"), NULL));
  }
  EXPECT(nunatak_blob_map_len(map) == 300 && has(map, key, "another value"));
  size_t waiting = 9;
  OK(nunatak_blob_map_reclaim(map, &waiting));
  EXPECT(waiting == 0 && of.live == 300 && of.calls >= 600 && of.bytes > 300 * 40);
  nunatak_blob_guard *guard = NULL;
  nunatak_bytes value;
  OK(nunatak_blob_map_pin(map, &guard));
  OK(nunatak_blob_guard_get(guard, text(key), &value, NULL));
  OK(nunatak_blob_map_remove(map, text(key), NULL));
  OK(nunatak_blob_map_reclaim(map, &waiting));
  EXPECT(waiting > 0 && of.live == 300 && memcmp(value.data, "another value", value.len) == 0);
  nunatak_blob_guard_free(guard);
  OK(nunatak_blob_map_reclaim(map, NULL));
  EXPECT(of.live == 299);
  of.refuses = true;
  FAILS(NUNATAK_MEMORY, nunatak_blob_map_put(map, text("new"), text("value"), NULL));
  of.refuses = false;
  EXPECT(nunatak_blob_map_len(map) == 299);
  nunatak_blob_map_free(map);
  EXPECT(of.live == 0 && of.bytes == 0);
  of.misaligns = true;
  OK(nunatak_blob_map_new_in(&allocator, table, 0, &map));
  FAILS(NUNATAK_INVALID, nunatak_blob_map_put(map, text("new"), text("value"), NULL));
  EXPECT(of.live == 0 && nunatak_blob_map_len(map) == 0);
  nunatak_blob_map_free(map);
}

static void strings_for_transactions(void) {
  counts of = {0};
  const nunatak_allocator allocator = {&of, allocate, deallocate}, half = {&of, allocate, NULL};
  for (int own = 0; own < 2; ++own) {
    nunatak_blob_map *map = NULL;
    OK(nunatak_blob_map_new_shadow(own ? &allocator : NULL, 0, &map));
    OK(nunatak_blob_map_shadow_insert(map, text("a"), text("1")));
    FAILS(NUNATAK_SHADOWED, nunatak_blob_map_shadow_insert(map, text("a"), text("2")));
    FAILS(NUNATAK_SHADOWED, nunatak_blob_map_put(map, text("a"), text("2"), NULL));
    EXPECT(!has(map, "a", "1") && nunatak_blob_map_len(map) == 0);
    OK(nunatak_blob_map_commit_shadow(map, text("a")));
    EXPECT(has(map, "a", "1"));
    FAILS(NUNATAK_NOT_SHADOWED, nunatak_blob_map_commit_shadow(map, text("a")));
    FAILS(NUNATAK_PRESENT, nunatak_blob_map_shadow_insert(map, text("a"), text("2")));
    OK(nunatak_blob_map_shadow_insert(map, text("b"), text("2")));
    OK(nunatak_blob_map_abort_shadow(map, text("b")));
    FAILS(NUNATAK_NOT_SHADOWED, nunatak_blob_map_abort_shadow(map, text("b")));
    OK(nunatak_blob_map_put(map, text("b"), text("3"), NULL));
    OK(nunatak_blob_map_shadow_insert(map, text("never ended"), text("4")));
    EXPECT(of.live == (own ? 3u : 0u));
    nunatak_blob_map_free(map);
    EXPECT(of.live == 0);
  }
  nunatak_blob_map *map = NULL;
  FAILS(NUNATAK_INVALID, nunatak_blob_map_new_shadow(&half, 0, &map));
  FAILS(NUNATAK_INVALID, nunatak_blob_map_new_in(&half, NUNATAK_DEFAULT, 0, &map));
  FAILS(NUNATAK_INVALID, nunatak_blob_map_new_in(NULL, NUNATAK_DEFAULT, 0, &map));
  OK(nunatak_blob_map_new(NUNATAK_DEFAULT, 0, &map));
  FAILS(NUNATAK_INVALID, nunatak_blob_map_shadow_insert(map, text("a"), text("1")));
  nunatak_blob_map_free(map);
}

static void schemas(const char *folder) {
  char path[300], other[300];
  snprintf(path, sizeof path, "%s/stock.map", folder);
  snprintf(other, sizeof other, "%s/other.map", folder);
  nunatak_file_options options = {.schema = "stock", .schema_version = 3};
  nunatak_blob_map *map = NULL;
  OK(nunatak_blob_map_open(path, &options, &map));
  OK(nunatak_blob_map_put(map, text("a"), text("1"), NULL));
  OK(nunatak_blob_map_close(map));
  OK(nunatak_blob_map_open(path, &options, &map));
  EXPECT(has(map, "a", "1"));
  OK(nunatak_blob_map_put(map, text("b"), text("2"), NULL));
  OK(nunatak_blob_map_close(map));
  options.schema_version = 4;
  FAILS(NUNATAK_FILE, nunatak_blob_map_open(path, &options, &map));
  EXPECT(strstr(nunatak_last_error(), "`stock` version 3") != NULL);
  // Without the schema it can be read only.
  FAILS(NUNATAK_FILE, nunatak_blob_map_open(path, NULL, &map));
  options = (nunatak_file_options){.read_only = true};
  OK(nunatak_blob_map_open(path, &options, &map));
  EXPECT(has(map, "b", "2"));
  nunatak_blob_map_free(map);
  options = (nunatak_file_options){.beside = true, .schema = "stock", .schema_version = 3};
  OK(nunatak_blob_map_open(path, &options, &map));
  EXPECT(has(map, "a", "1"));
  nunatak_blob_map_free(map);
  options = (nunatak_file_options){.must_exist = true, .schema = "stock"};
  FAILS(NUNATAK_IO, nunatak_blob_map_open(other, &options, &map));
  options = (nunatak_file_options){.table = NUNATAK_PEA, .schema = "stock"};
  FAILS(NUNATAK_INVALID, nunatak_blob_map_open(other, &options, &map));
  options = (nunatak_file_options){.schema = "two\nlines"};
  FAILS(NUNATAK_INVALID, nunatak_blob_map_open(other, &options, &map));
  options = (nunatak_file_options){.schema = "\xff"};
  FAILS(NUNATAK_INVALID, nunatak_blob_map_open(other, &options, &map));
  nunatak_map *words = NULL;
  options = (nunatak_file_options){.schema = "stock"};
  FAILS(NUNATAK_INVALID, nunatak_map_open(other, &options, &words));
  EXPECT(access(other, F_OK) != 0);
}

int main(void) {
  words_for_transactions();
  for (int table = NUNATAK_DEFAULT; table <= NUNATAK_TURBO; ++table) memory_of_the_caller(table);
  strings_for_transactions();
  char folder[] = "/tmp/nunatak-c-XXXXXX";
  EXPECT(mkdtemp(folder));
  schemas(folder);
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  EXPECT(system(command) == 0);
  puts("transactions, allocators and schemas hold");
  return 0;
}
