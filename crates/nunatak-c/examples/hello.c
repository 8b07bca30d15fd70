// A map of numbers in RAM, and one of byte strings in a file.
#include <nunatak.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(nunatak_status status) {
  if (status != NUNATAK_OK) {
    fprintf(stderr, "%s\n", nunatak_last_error());
    exit(1);
  }
}

static nunatak_bytes text(const char *text) {
  return (nunatak_bytes){(const uint8_t *)text, strlen(text)};
}

int main(int argc, char **argv) {
  nunatak_map *map = NULL;
  check(nunatak_map_new(NUNATAK_DEFAULT, 0, &map));
  check(nunatak_map_insert(map, 7, 49, NULL, NULL));
  uint64_t value = 0;
  bool found = false;
  check(nunatak_map_get(map, 7, &value, &found));
  printf("7: %" PRIu64 "\n", found ? value : 0);

  uint64_t keys[3] = {6, 7, 8}, values[3] = {0}, present[1];
  check(nunatak_map_get_many(map, keys, 3, values, present, NULL));
  printf("present: %" PRIu64 "\n", present[0]);
  nunatak_map_free(map);

  if (argc > 1) {
    nunatak_blob_map *file = NULL;
    nunatak_file_options options = {.durability = NUNATAK_SYNCED};
    check(nunatak_blob_map_open(argv[1], &options, &file));
    check(nunatak_blob_map_put(file, text("nunatak"), text("stands still"), NULL));
    char buffer[64];
    size_t len = 0;
    check(nunatak_blob_map_get(file, text("nunatak"), (uint8_t *)buffer, sizeof buffer, &len, &found));
    printf("nunatak: %.*s\n", (int)len, buffer);
    check(nunatak_blob_map_close(file));
  }
  return 0;
}
