#ifndef NUNATAK_H
#define NUNATAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Nunatak: concurrent hash maps, in RAM and in files. The C interface.
//
// Ownership. A function whose name ends in _new, _new_in, _new_shadow, _open, _iterate or _pin makes a map, an iterator or a guard and
// stores its pointer. The caller owns it, and ends it by _free, or a map in a file by _close. After that the pointer must
// not be used: using it is undefined behaviour, as after free(). What a caller passes in is copied. What a
// callback is shown is valid until the callback returns.
//
// Threads. All functions but _free and _close may be called by any number of threads at a time, for the
// same map. An iterator is used by one thread at a time, and a guard by the thread that made it. An operation on one key takes effect at one moment. A batch is its operations in order, and
// other threads' operations come between them. _free and _close must come after all others have
// returned.
//
// Errors. A function returns NUNATAK_OK or why it failed; nunatak_last_error() has the words. It then
// has changed nothing, unless its description says otherwise. A null pointer is NUNATAK_INVALID, except
// where a parameter may be null. No function unwinds. A callback must not unwind either (no C++
// exception, no longjmp): the process would abort.
//
// Forks. The child of a fork must not use maps in RAM that other threads of the parent were using. It
// may read maps in files; changes return NUNATAK_FILE.


// How a call has ended.
typedef enum {
  // It did what it is for. (That a key is absent is no failure.)
  NUNATAK_OK = 0,
  // An argument is null, or outside its documented range.
  NUNATAK_INVALID = 1,
  // The system refused memory, or the capacity exceeds the address space.
  NUNATAK_MEMORY = 2,
  // A file can't be used: it holds no map or another kind, is damaged, in use, full or read-only.
  NUNATAK_FILE = 3,
  // The system refused an operation on a file.
  NUNATAK_IO = 4,
  // A file that was to be created exists.
  NUNATAK_EXISTS = 5,
  // A defect of the library, or memory that was refused in the middle of an operation. The map
  // can still be used and freed.
  NUNATAK_PANIC = 6,
  // The key is hidden by a shadow insert that is neither committed nor aborted.
  NUNATAK_SHADOWED = 7,
  // The key is present, so it can't be hidden.
  NUNATAK_PRESENT = 8,
  // The key is not hidden: it never was, or was committed or aborted before.
  NUNATAK_NOT_SHADOWED = 9,
} nunatak_status;

// Which table a map is made of.
typedef enum {
  // The table that suits most: DLHT in RAM; in files the file's own, or IcebergHT for numbers and
  // TurboHash for byte strings.
  NUNATAK_DEFAULT = 0,
  // DLHT: the fastest. In RAM only.
  NUNATAK_DLHT = 1,
  // IcebergHT: the least memory.
  NUNATAK_ICEBERG = 2,
  // Pea Hash: grows and shrinks in small pieces.
  NUNATAK_PEA = 3,
  // TurboHash: a resize stalls one shard of about 1,000.
  NUNATAK_TURBO = 4,
} nunatak_table;

// What a change of a map in a file survives when its call has returned.
typedef enum {
  // The process; a sync makes it survive a power cut.
  NUNATAK_PROCESS = 0,
  // The process, and a power cut some time later: see the interval.
  NUNATAK_INTERVAL = 1,
  // A power cut.
  NUNATAK_SYNCED = 2,
  // A power cut; the file must be on persistent memory.
  NUNATAK_PERSISTENT_MEMORY = 3,
} nunatak_durability;

// What becomes of a key's value.
typedef enum {
  // It stays, or the key stays absent.
  NUNATAK_KEEP = 0,
  // The new value is stored.
  NUNATAK_PUT = 1,
  // The key is removed.
  NUNATAK_REMOVE = 2,
} nunatak_decision;

// Keeps the values that are found through it. The thread that made it uses and frees it. The map must live
// longer.
typedef struct nunatak_blob_guard nunatak_blob_guard;

// Iterates over the entries that a map of byte strings had when the iterator was made. One thread at a
// time uses it. The map may change meanwhile, and may be freed.
typedef struct nunatak_blob_iterator nunatak_blob_iterator;

// A map whose keys and values are byte strings, in RAM or in a file.
typedef struct nunatak_blob_map nunatak_blob_map;

// A map in which a key is a byte string and has any number of values of 8 bytes, in RAM.
typedef struct nunatak_blob_multimap nunatak_blob_multimap;

// Iterates over the values that a multimap of byte strings had when the iterator was made, with their keys.
// One thread at a time uses it. The map may change meanwhile, and may be freed.
typedef struct nunatak_blob_multimap_iterator nunatak_blob_multimap_iterator;

// Iterates over the entries that a map had when the iterator was made. One thread at a time uses it. The
// map may change meanwhile, and may be freed.
typedef struct nunatak_iterator nunatak_iterator;

// A map with keys and values of 8 bytes, in RAM or in a file.
typedef struct nunatak_map nunatak_map;

// A map of words of 8 bytes in which a key has any number of values, in RAM or in a file.
typedef struct nunatak_multimap nunatak_multimap;

// How a file is opened. All zero is: create it if there is none.
typedef struct {
  // A `nunatak_table`.
  int32_t table;
  // A `nunatak_durability`.
  int32_t durability;
  // Milliseconds between two syncs, if the durability is `NUNATAK_INTERVAL`.
  uint64_t interval_ms;
  // How many entries a new file has room for.
  size_t capacity;
  // Refuse to create the file.
  bool must_exist;
  // Only read. The file must exist.
  bool read_only;
  // Read a copy of the present state of a file, which another process may have open and change. The
  // fields above but the table are ignored.
  bool beside;
  // Make copies for processes that open the file beside this one. Files of IcebergHT and files on
  // persistent memory need that; of others readers see the last sync without it.
  bool answer_readers;
  // The name of the file's schema, or null for none; copied. Only files of byte strings have one. A new file
  // gets the name and the version, an existing file must have them. Programs in Rust open such a file as a
  // `TypedMap` of byte strings.
  const char *schema;
  // The version of the schema.
  uint32_t schema_version;
} nunatak_file_options;

// Decides what becomes of a key's value: returns a `nunatak_decision`. `value` is null if the key is
// absent. For `NUNATAK_PUT` it stores the new value in `new_value`. It may run more than once, when
// other threads change the key. It may use the map.
typedef int32_t (*nunatak_compute)(void *context, const uint64_t *value, uint64_t *new_value);

// Is shown an entry; returns false to see no more. It may use the map.
typedef bool (*nunatak_each)(void *context, uint64_t key, uint64_t value);

// Bytes of the caller's, or bytes that a callback is shown. `data` may be null if `len` is 0.
typedef struct {
  // The first byte.
  const uint8_t *data;
  // How many bytes there are.
  size_t len;
} nunatak_bytes;

// Is shown a value in the map's own memory, valid until it returns.
typedef void (*nunatak_visit)(void *context, nunatak_bytes value);

// Is shown the value of the key with this index, or null if the key is absent.
typedef void (*nunatak_visit_many)(void *context, size_t index, const nunatak_bytes *value);

// Decides what becomes of a key's value: returns a `nunatak_decision`. `value` is null if the key is
// absent. For `NUNATAK_PUT` it stores the new value in `new_value`; the bytes are copied when it has
// returned. It may run more than once.
typedef int32_t (*nunatak_compute_blob)(void *context,
                                        const nunatak_bytes *value,
                                        nunatak_bytes *new_value);

// Is shown an entry; returns false to see no more.
typedef bool (*nunatak_each_blob)(void *context, nunatak_bytes key, nunatak_bytes value);

// Is shown a key with all of its values, which are `len`; returns false to see no more. It may use the map.
typedef bool (*nunatak_each_group)(void *context, uint64_t key, const uint64_t *values, size_t len);

// Is shown a key and one of its values, or how many values it has; returns false to see no more. It may use
// the map.
typedef bool (*nunatak_each_blob_value)(void *context, nunatak_bytes key, uint64_t value);

// Is shown a key with all of its values, which are `len`; returns false to see no more. It may use the map.
typedef bool (*nunatak_each_blob_group)(void *context,
                                        nunatak_bytes key,
                                        const uint64_t *values,
                                        size_t len);

// Returns `size` bytes of memory, aligned to `alignment`, which is a power of two; or null if there are none.
typedef void *(*nunatak_allocate)(void *context, size_t size, size_t alignment);

// Takes memory back, with the size and the alignment that it was asked for.
typedef void (*nunatak_deallocate)(void *context, void *memory, size_t size, size_t alignment);

// An allocator of the caller's, for entries of byte strings. Any threads may call both functions at the same
// time, also those that only look keys up and so find that a removed entry can go. What `allocate` has
// returned stays valid until `deallocate` takes it, and is within the first 2^48 bytes of addresses. Neither
// function may use the map, or unwind. Both may be called until the map is freed.
typedef struct {
  // What both functions get.
  void *context;
  // Must not be null.
  nunatak_allocate allocate;
  // Must not be null.
  nunatak_deallocate deallocate;
} nunatak_allocator;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the words of this thread's last failure; an empty string if there was none. The string is
// valid until the thread's next failure.
const char *nunatak_last_error(void);

// Returns the library's version, such as "0.1.0".
const char *nunatak_version(void);

// Makes a new file of what can be read in a damaged one, of any kind of map. `sure` gets how many entries are
// as they were stored, and `doubtful` how many may be old or wrong. Both may be null.
nunatak_status nunatak_salvage(const char *damaged,
                               const char *new_path,
                               size_t *sure,
                               size_t *doubtful);

// Makes an empty map in RAM with room for `capacity` entries; it grows by itself. `table_number` is a
// `nunatak_table`.
nunatak_status nunatak_map_new(int32_t table_number,
                               size_t capacity,
                               nunatak_map **map);

// Opens a map in a file, or creates it. `options` may be null. One map at a time may have a file open
// to change it.
nunatak_status nunatak_map_open(const char *path,
                                const nunatak_file_options *options,
                                nunatak_map **map);

// Frees a map; null is allowed. A map in a file is closed, and what that says is lost: use
// `nunatak_map_close` to hear it.
void nunatak_map_free(nunatak_map *map);

// Syncs and closes a map in a file, and frees the map, whatever the result is. Null is allowed.
nunatak_status nunatak_map_close(nunatak_map *map);

// Looks a key up. `value` is stored only if the key is present. Both places may be null.
nunatak_status nunatak_map_get(const nunatak_map *map, uint64_t key, uint64_t *value, bool *found);

// Stores a value. `previous` gets the value that it replaced, and `replaced` whether there was one.
// Both may be null.
nunatak_status nunatak_map_insert(const nunatak_map *map,
                                  uint64_t key,
                                  uint64_t value,
                                  uint64_t *previous,
                                  bool *replaced);

// Stores a value if the key is absent. Otherwise `present` gets the value that is there. Both places
// may be null.
nunatak_status nunatak_map_try_insert(const nunatak_map *map,
                                      uint64_t key,
                                      uint64_t value,
                                      uint64_t *present,
                                      bool *inserted);

// Replaces a value if the key is present. `previous` gets the value before. Both places may be null.
nunatak_status nunatak_map_update(const nunatak_map *map,
                                  uint64_t key,
                                  uint64_t value,
                                  uint64_t *previous,
                                  bool *updated);

// Replaces a value if it is `*expected`. Otherwise `*expected` becomes the value that is there, if the
// key is present. `exchanged` may be null.
nunatak_status nunatak_map_compare_exchange(const nunatak_map *map,
                                            uint64_t key,
                                            uint64_t *expected,
                                            uint64_t new_value,
                                            bool *exchanged);

// Adds to a value, wrapping around; an absent key counts as zero. `sum` gets the result, and may be
// null.
nunatak_status nunatak_map_fetch_add(const nunatak_map *map,
                                     uint64_t key,
                                     uint64_t amount,
                                     uint64_t *sum);

// Keeps, replaces or removes a value as a callback decides.
nunatak_status nunatak_map_compute(const nunatak_map *map,
                                   uint64_t key,
                                   nunatak_compute change,
                                   void *context);

// Removes a key. `value` gets its value. Both places may be null.
nunatak_status nunatak_map_remove(const nunatak_map *map,
                                  uint64_t key,
                                  uint64_t *value,
                                  bool *removed);

// Looks many keys up; their cache misses overlap. `values` has room for `len` values; those of absent
// keys are left alone. Bit `i % 64` of `present[i / 64]` tells whether `keys[i]` is present: there are
// `(len + 63) / 64` words. `count` gets how many are present, and may be null.
nunatak_status nunatak_map_get_many(const nunatak_map *map,
                                    const uint64_t *keys,
                                    size_t len,
                                    uint64_t *values,
                                    uint64_t *present,
                                    size_t *count);

// Stores `values[i]` under `keys[i]`, in order. `fresh` gets how many keys were new, and may be null.
// If it fails, the entries before some point are stored.
nunatak_status nunatak_map_insert_many(const nunatak_map *map,
                                       const uint64_t *keys,
                                       const uint64_t *values,
                                       size_t len,
                                       size_t *fresh);

// Adds `amounts[i]` to the value of `keys[i]`, in order; an absent key counts as zero. `amounts` may
// be null: then it adds one to each. `fresh` gets how many keys were new, and may be null.
nunatak_status nunatak_map_add_many(const nunatak_map *map,
                                    const uint64_t *keys,
                                    const uint64_t *amounts,
                                    size_t len,
                                    size_t *fresh);

// Removes many keys, in order, with the results of `nunatak_map_get_many`.
nunatak_status nunatak_map_remove_many(const nunatak_map *map,
                                       const uint64_t *keys,
                                       size_t len,
                                       uint64_t *values,
                                       uint64_t *present,
                                       size_t *count);

// Shows every entry of a snapshot to a callback. The snapshot is a consistent cut, and takes memory for
// all entries.
nunatak_status nunatak_map_for_each(const nunatak_map *map,
                                    nunatak_each each,
                                    void *context);

// Returns how many entries there are; 0 for a null pointer.
size_t nunatak_map_len(const nunatak_map *map);

// Removes every entry.
nunatak_status nunatak_map_clear(const nunatak_map *map);

// Makes room for more entries.
nunatak_status nunatak_map_reserve(const nunatak_map *map, size_t additional);

// Gives memory back that the entries do not need.
nunatak_status nunatak_map_shrink_to_fit(const nunatak_map *map);

// Returns how many bytes of memory the map occupies; 0 for a null pointer.
size_t nunatak_map_memory(const nunatak_map *map);

// Returns entries divided by slots; 0 for a null pointer.
double nunatak_map_load_factor(const nunatak_map *map);

// Makes every change so far survive a power cut.
nunatak_status nunatak_map_sync(const nunatak_map *map);

// Reads the whole file. `entries` gets how many it has, and may be null.
nunatak_status nunatak_map_verify(const nunatak_map *map, size_t *entries);

// Says whether the file accepts no more changes, and why: returns the first error after which it does
// not, also of a sync in the background, or `NUNATAK_OK` if there was none.
nunatak_status nunatak_map_failure(const nunatak_map *map);

// Stores a consistent cut as a new file. `entries` gets how many it has, and may be null.
nunatak_status nunatak_map_backup(const nunatak_map *map, const char *new_path, size_t *entries);

// Makes an empty map in RAM with room for `capacity` entries; it grows by itself. `table_number` is a
// `nunatak_table`; the default is TurboHash.
nunatak_status nunatak_blob_map_new(int32_t table_number,
                                    size_t capacity,
                                    nunatak_blob_map **map);

// Opens a map in a file, or creates it. `options` may be null.
nunatak_status nunatak_blob_map_open(const char *path,
                                     const nunatak_file_options *options,
                                     nunatak_blob_map **map);

// Frees a map; null is allowed. A map in a file is closed, and what that says is lost.
void nunatak_blob_map_free(nunatak_blob_map *map);

// Syncs and closes a map in a file, and frees the map, whatever the result is. Null is allowed.
nunatak_status nunatak_blob_map_close(nunatak_blob_map *map);

// Looks a key up and copies its value to `buffer`, as much as `room` takes. `len` gets the length of
// the whole value: if it exceeds `room`, call again with more. `len` and `found` may be null.
nunatak_status nunatak_blob_map_get(const nunatak_blob_map *map,
                                    nunatak_bytes key,
                                    uint8_t *buffer,
                                    size_t room,
                                    size_t *len,
                                    bool *found);

// Looks a key up and shows its value to a callback, without copying it. `found` may be null.
nunatak_status nunatak_blob_map_visit(const nunatak_blob_map *map,
                                      nunatak_bytes key,
                                      nunatak_visit visit,
                                      void *context,
                                      bool *found);

// Looks many keys up, in order, and shows a callback what was found for each. Cache misses overlap.
nunatak_status nunatak_blob_map_visit_many(const nunatak_blob_map *map,
                                           const nunatak_bytes *keys,
                                           size_t len,
                                           nunatak_visit_many visit,
                                           void *context);

// Stores a value. `replaced` gets whether there was one, and may be null.
nunatak_status nunatak_blob_map_put(const nunatak_blob_map *map,
                                    nunatak_bytes key,
                                    nunatak_bytes value,
                                    bool *replaced);

// Stores a value if the key is absent. `inserted` may be null.
nunatak_status nunatak_blob_map_try_insert(const nunatak_blob_map *map,
                                           nunatak_bytes key,
                                           nunatak_bytes value,
                                           bool *inserted);

// Stores many values, in order. `fresh` gets how many keys were new, and may be null. If it fails, the
// entries before some point are stored.
nunatak_status nunatak_blob_map_put_many(const nunatak_blob_map *map,
                                         const nunatak_bytes *keys,
                                         const nunatak_bytes *values,
                                         size_t len,
                                         size_t *fresh);

// Keeps, replaces or removes a value as a callback decides.
nunatak_status nunatak_blob_map_compute(const nunatak_blob_map *map,
                                        nunatak_bytes key,
                                        nunatak_compute_blob change,
                                        void *context);

// Removes a key. `removed` gets whether it was present, and may be null.
nunatak_status nunatak_blob_map_remove(const nunatak_blob_map *map,
                                       nunatak_bytes key,
                                       bool *removed);

// Shows every entry of a snapshot to a callback.
nunatak_status nunatak_blob_map_for_each(const nunatak_blob_map *map,
                                         nunatak_each_blob each,
                                         void *context);

// Returns how many entries there are; 0 for a null pointer.
size_t nunatak_blob_map_len(const nunatak_blob_map *map);

// Removes every entry.
nunatak_status nunatak_blob_map_clear(const nunatak_blob_map *map);

// Makes room for more entries.
nunatak_status nunatak_blob_map_reserve(const nunatak_blob_map *map, size_t additional);

// Returns how many bytes of memory the map occupies; 0 for a null pointer.
size_t nunatak_blob_map_memory(const nunatak_blob_map *map);

// Makes every change so far survive a power cut.
nunatak_status nunatak_blob_map_sync(const nunatak_blob_map *map);

// Reads the whole file. `entries` gets how many it has, and may be null.
nunatak_status nunatak_blob_map_verify(const nunatak_blob_map *map, size_t *entries);

// Says whether the file accepts no more changes, and why: returns the first error after which it does
// not, also of a sync in the background, or `NUNATAK_OK` if there was none.
nunatak_status nunatak_blob_map_failure(const nunatak_blob_map *map);

// Stores a consistent cut as a new file. `entries` gets how many it has, and may be null.
nunatak_status nunatak_blob_map_backup(const nunatak_blob_map *map,
                                       const char *new_path,
                                       size_t *entries);

// Makes an empty map.
nunatak_status nunatak_multimap_new(nunatak_multimap **map);

// Opens a map in a file, or creates it. `options` may be null; their table is NUNATAK_DEFAULT or
// NUNATAK_PEA.
nunatak_status nunatak_multimap_open(const char *path,
                                     const nunatak_file_options *options,
                                     nunatak_multimap **map);

// Frees a map; null is allowed. A map in a file is closed, and what that says is lost: use
// `nunatak_multimap_close` to hear it.
void nunatak_multimap_free(nunatak_multimap *map);

// Syncs and closes a map in a file, and frees the map, whatever the result is. Null is allowed.
nunatak_status nunatak_multimap_close(nunatak_multimap *map);

// Adds a value to those of the key; equal values are kept.
nunatak_status nunatak_multimap_insert(const nunatak_multimap *map, uint64_t key, uint64_t value);

// Adds `values[i]` to those of `keys[i]`.
nunatak_status nunatak_multimap_insert_many(const nunatak_multimap *map,
                                            const uint64_t *keys,
                                            const uint64_t *values,
                                            size_t len);

// Adds a value to those of the key unless an equal one is there. `inserted` gets whether it was added, and
// may be null. If threads add the same pair at once, one of them adds it.
nunatak_status nunatak_multimap_insert_unique(const nunatak_multimap *map,
                                              uint64_t key,
                                              uint64_t value,
                                              bool *inserted);

// Adds each `values[i]` that `keys[i]` does not have, in order. `inserted` gets how many were added, and may
// be null.
nunatak_status nunatak_multimap_insert_unique_many(const nunatak_multimap *map,
                                                   const uint64_t *keys,
                                                   const uint64_t *values,
                                                   size_t len,
                                                   size_t *inserted);

// Copies the values of a key to `values`, as many as `room` takes. `count` gets how many the key has:
// if it exceeds `room`, call again with more.
nunatak_status nunatak_multimap_get_all(const nunatak_multimap *map,
                                        uint64_t key,
                                        uint64_t *values,
                                        size_t room,
                                        size_t *count);

// Copies the values of many keys to `values`, side by side, as many as `room` takes. Those of `keys[i]` end
// before `values[ends[i]]` and begin where those of the key before end. `count` gets how many there are of
// all keys: if it exceeds `room`, call again with more.
nunatak_status nunatak_multimap_get_all_many(const nunatak_multimap *map,
                                             const uint64_t *keys,
                                             size_t len,
                                             size_t *ends,
                                             uint64_t *values,
                                             size_t room,
                                             size_t *count);

// Counts the values of many keys.
nunatak_status nunatak_multimap_count_many(const nunatak_multimap *map,
                                           const uint64_t *keys,
                                           size_t len,
                                           size_t *counts);

// Removes one value that is equal to this one. `removed` gets whether there was one, and may be null.
nunatak_status nunatak_multimap_remove_one(const nunatak_multimap *map,
                                           uint64_t key,
                                           uint64_t value,
                                           bool *removed);

// Removes all values of a key. `count` gets how many there were, and may be null.
nunatak_status nunatak_multimap_remove_all(const nunatak_multimap *map,
                                           uint64_t key,
                                           size_t *count);

// Returns how many values there are; 0 for a null pointer.
size_t nunatak_multimap_len(const nunatak_multimap *map);

// Removes all values of many keys. `removed[i]` gets how many `keys[i]` had.
nunatak_status nunatak_multimap_remove_all_many(const nunatak_multimap *map,
                                                const uint64_t *keys,
                                                size_t len,
                                                size_t *removed);

// Shows every value of a snapshot with its key to a callback. The snapshot is a consistent cut, and takes
// memory for all values.
nunatak_status nunatak_multimap_for_each(const nunatak_multimap *map,
                                         nunatak_each each,
                                         void *context);

// Shows every key once to a callback, with how many values it has at one moment. Keys that come or go
// meanwhile may be left out. The keys are copied in parts, so it takes little memory and reads few values.
nunatak_status nunatak_multimap_for_each_key(const nunatak_multimap *map,
                                             nunatak_each each,
                                             void *context);

// Shows every key once to a callback, with all values that it has at one moment. Keys that come or go
// meanwhile may be left out. The values are copied in parts.
nunatak_status nunatak_multimap_for_each_group(const nunatak_multimap *map,
                                               nunatak_each_group each,
                                               void *context);

// Removes every value.
nunatak_status nunatak_multimap_clear(const nunatak_multimap *map);

// Returns how many bytes of memory the map occupies; 0 for a null pointer.
size_t nunatak_multimap_memory(const nunatak_multimap *map);

// Makes every change so far survive a power cut.
nunatak_status nunatak_multimap_sync(const nunatak_multimap *map);

// Reads the whole file. `count` gets how many values it has, and may be null.
nunatak_status nunatak_multimap_verify(const nunatak_multimap *map, size_t *count);

// Says whether the file accepts no more changes, and why: returns the first error after which it does
// not, also of a sync in the background, or `NUNATAK_OK` if there was none.
nunatak_status nunatak_multimap_failure(const nunatak_multimap *map);

// Stores a consistent cut as a new file. `count` gets how many values it has, and may be null.
nunatak_status nunatak_multimap_backup(const nunatak_multimap *map,
                                       const char *new_path,
                                       size_t *count);

// Makes an empty map.
nunatak_status nunatak_blob_multimap_new(nunatak_blob_multimap **map);

// Frees a map; null is allowed.
void nunatak_blob_multimap_free(nunatak_blob_multimap *map);

// Adds a value to those of the key; equal values are kept. The map copies a key that it does not have yet.
// A key has fewer than 2^32 bytes; a longer one is NUNATAK_INVALID.
nunatak_status nunatak_blob_multimap_insert(const nunatak_blob_multimap *map,
                                            nunatak_bytes key,
                                            uint64_t value);

// Adds `values[i]` to those of `keys[i]`, in order. If it fails, the values before some point are stored.
nunatak_status nunatak_blob_multimap_insert_many(const nunatak_blob_multimap *map,
                                                 const nunatak_bytes *keys,
                                                 const uint64_t *values,
                                                 size_t len);

// Adds a value to those of the key unless an equal one is there. `inserted` gets whether it was added, and
// may be null. If threads add the same pair at once, one of them adds it.
nunatak_status nunatak_blob_multimap_insert_unique(const nunatak_blob_multimap *map,
                                                   nunatak_bytes key,
                                                   uint64_t value,
                                                   bool *inserted);

// Adds each `values[i]` that `keys[i]` does not have, in order. `inserted` gets how many were added, and may
// be null. If it fails, the values before some point are stored.
nunatak_status nunatak_blob_multimap_insert_unique_many(const nunatak_blob_multimap *map,
                                                        const nunatak_bytes *keys,
                                                        const uint64_t *values,
                                                        size_t len,
                                                        size_t *inserted);

// Copies the values of a key to `values`, as many as `room` takes. `count` gets how many the key has:
// if it exceeds `room`, call again with more. With a `room` of 0 they are counted and not read.
nunatak_status nunatak_blob_multimap_get_all(const nunatak_blob_multimap *map,
                                             nunatak_bytes key,
                                             uint64_t *values,
                                             size_t room,
                                             size_t *count);

// Copies the values of many keys to `values`, side by side, as many as `room` takes. Those of `keys[i]` end
// before `values[ends[i]]` and begin where those of the key before end. `count` gets how many there are of
// all keys: if it exceeds `room`, call again with more.
nunatak_status nunatak_blob_multimap_get_all_many(const nunatak_blob_multimap *map,
                                                  const nunatak_bytes *keys,
                                                  size_t len,
                                                  size_t *ends,
                                                  uint64_t *values,
                                                  size_t room,
                                                  size_t *count);

// Counts the values of many keys.
nunatak_status nunatak_blob_multimap_count_many(const nunatak_blob_multimap *map,
                                                const nunatak_bytes *keys,
                                                size_t len,
                                                size_t *counts);

// Removes one value that is equal to this one. `removed` gets whether there was one, and may be null.
nunatak_status nunatak_blob_multimap_remove_one(const nunatak_blob_multimap *map,
                                                nunatak_bytes key,
                                                uint64_t value,
                                                bool *removed);

// Removes all values of a key. `count` gets how many there were, and may be null.
nunatak_status nunatak_blob_multimap_remove_all(const nunatak_blob_multimap *map,
                                                nunatak_bytes key,
                                                size_t *count);

// Removes all values of many keys, in order. `removed[i]` gets how many `keys[i]` had.
nunatak_status nunatak_blob_multimap_remove_all_many(const nunatak_blob_multimap *map,
                                                     const nunatak_bytes *keys,
                                                     size_t len,
                                                     size_t *removed);

// Shows every value of a snapshot with its key to a callback. The snapshot is a consistent cut, and takes
// memory for all values.
nunatak_status nunatak_blob_multimap_for_each(const nunatak_blob_multimap *map,
                                              nunatak_each_blob_value each,
                                              void *context);

// Shows every key once to a callback, with how many values it has at one moment. Keys that come or go
// meanwhile may be left out. The keys are copied in parts, so it takes little memory and reads few values.
nunatak_status nunatak_blob_multimap_for_each_key(const nunatak_blob_multimap *map,
                                                  nunatak_each_blob_value each,
                                                  void *context);

// Shows every key once to a callback, with all values that it has at one moment. Keys that come or go
// meanwhile may be left out. The values are copied in parts.
nunatak_status nunatak_blob_multimap_for_each_group(const nunatak_blob_multimap *map,
                                                    nunatak_each_blob_group each,
                                                    void *context);

// Returns how many values there are; 0 for a null pointer.
size_t nunatak_blob_multimap_len(const nunatak_blob_multimap *map);

// Removes every value. Values that other threads add meanwhile may stay.
nunatak_status nunatak_blob_multimap_clear(const nunatak_blob_multimap *map);

// Returns how many bytes of memory the map occupies, keys included; 0 for a null pointer.
size_t nunatak_blob_multimap_memory(const nunatak_blob_multimap *map);

// Makes an iterator over a consistent cut, which takes memory for all entries.
nunatak_status nunatak_map_iterate(const nunatak_map *map, nunatak_iterator **iterator);

// Makes an iterator over a consistent cut: over each value with its key.
nunatak_status nunatak_multimap_iterate(const nunatak_multimap *map, nunatak_iterator **iterator);

// Stores the next entry and returns true, or returns false after the last. Both places may be null.
bool nunatak_iterator_next(nunatak_iterator *iterator, uint64_t *key, uint64_t *value);

// Frees an iterator; null is allowed.
void nunatak_iterator_free(nunatak_iterator *iterator);

// Makes an iterator over a consistent cut, which takes memory for all entries.
nunatak_status nunatak_blob_map_iterate(const nunatak_blob_map *map,
                                        nunatak_blob_iterator **iterator);

// Stores the next entry and returns true, or returns false after the last. The bytes are valid until the
// next call for the iterator. Both places may be null.
bool nunatak_blob_iterator_next(nunatak_blob_iterator *iterator,
                                nunatak_bytes *key,
                                nunatak_bytes *value);

// Frees an iterator; null is allowed.
void nunatak_blob_iterator_free(nunatak_blob_iterator *iterator);

// Makes an iterator over a consistent cut: over each value with its key. It takes memory for a copy of the
// key of each value.
nunatak_status nunatak_blob_multimap_iterate(const nunatak_blob_multimap *map,
                                             nunatak_blob_multimap_iterator **iterator);

// Stores the next value with its key and returns true, or returns false after the last. The key's bytes are
// valid until the next call for the iterator. Both places may be null.
bool nunatak_blob_multimap_iterator_next(nunatak_blob_multimap_iterator *iterator,
                                         nunatak_bytes *key,
                                         uint64_t *value);

// Frees an iterator; null is allowed.
void nunatak_blob_multimap_iterator_free(nunatak_blob_multimap_iterator *iterator);

// Makes a guard. Memory that other threads free waits for it, so free it soon.
nunatak_status nunatak_blob_map_pin(const nunatak_blob_map *map, nunatak_blob_guard **guard);

// Looks a key up. `value` gets the bytes in the map's own memory: they are valid until the guard is freed,
// whatever happens to the key. It is stored only if the key is present. Both places may be null.
nunatak_status nunatak_blob_guard_get(const nunatak_blob_guard *guard,
                                      nunatak_bytes key,
                                      nunatak_bytes *value,
                                      bool *found);

// Frees a guard; null is allowed.
void nunatak_blob_guard_free(nunatak_blob_guard *guard);

// Makes an empty map in RAM with room for `capacity` entries, each of which is in memory of `allocator`: the
// value, and the key if it has more than 8 bytes. The table grows in memory of its own. `table_number` is a
// `nunatak_table`; the default is DLHT. The allocator's functions and context are copied.
//
// Memory of removed and replaced entries goes back when no guard can see them any more: in portions, or by
// `nunatak_blob_map_reclaim`. If `allocate` returns null, the insert fails with `NUNATAK_MEMORY`; if memory is
// not aligned or not within the first 2^48 bytes, it is given back, and the insert fails with
// `NUNATAK_INVALID`.
nunatak_status nunatak_blob_map_new_in(const nunatak_allocator *allocator,
                                       int32_t table_number,
                                       size_t capacity,
                                       nunatak_blob_map **map);

// Gives back the memory of removed and replaced entries that no guard can see any more. `waiting` gets how
// many bytes wait for guards, and may be null. A map does so by itself from time to time.
nunatak_status nunatak_blob_map_reclaim(const nunatak_blob_map *map,
                                        size_t *waiting);

// Makes an empty map in RAM for transactions, with room for `capacity` entries; its table is DLHT. A key can
// be inserted hidden, which locks it. When the transaction commits, the key is shown with its value; when it
// aborts, the key is removed.
//
// All functions of a `nunatak_map` may be used. They treat a hidden key as absent; those that would insert it
// return `NUNATAK_SHADOWED` and never wait, so no deadlock comes of it. A batch of inserts stops at the first
// hidden key: the entries before it are stored.
nunatak_status nunatak_map_new_shadow(size_t capacity,
                                      nunatak_map **map);

// Inserts a key hidden. Returns `NUNATAK_PRESENT` if the key is present, and `NUNATAK_SHADOWED` if it is
// hidden already. The map must be one of `nunatak_map_new_shadow`, here and for the functions that follow.
nunatak_status nunatak_map_shadow_insert(const nunatak_map *map,
                                         uint64_t key);

// Inserts all keys hidden, in order, or none of them: for two-phase locking, in an order that all
// transactions agree on. Returns what `nunatak_map_shadow_insert` would for the first key that is present or
// hidden; `refused` gets its index, and may be null.
nunatak_status nunatak_map_shadow_insert_many(const nunatak_map *map,
                                              const uint64_t *keys,
                                              size_t len,
                                              size_t *refused);

// Shows a hidden key with its value. Any thread may do it, once. Returns `NUNATAK_NOT_SHADOWED` if the key is
// not hidden.
nunatak_status nunatak_map_commit_shadow(const nunatak_map *map,
                                         uint64_t key,
                                         uint64_t value);

// Removes a hidden key. Returns `NUNATAK_NOT_SHADOWED` if the key is not hidden.
nunatak_status nunatak_map_abort_shadow(const nunatak_map *map, uint64_t key);

// As `nunatak_map_new_shadow`, for byte strings, each entry of which is in memory of `allocator`; null stands
// for the program's. A hidden entry is stored with its value, so that a commit needs no memory.
nunatak_status nunatak_blob_map_new_shadow(const nunatak_allocator *allocator,
                                           size_t capacity,
                                           nunatak_blob_map **map);

// Inserts an entry hidden. Returns what `nunatak_map_shadow_insert` does. The map must be one of
// `nunatak_blob_map_new_shadow`, here and for the functions that follow.
nunatak_status nunatak_blob_map_shadow_insert(const nunatak_blob_map *map,
                                              nunatak_bytes key,
                                              nunatak_bytes value);

// Shows a hidden entry. Any thread may do it, once. Returns `NUNATAK_NOT_SHADOWED` if the key is not hidden.
nunatak_status nunatak_blob_map_commit_shadow(const nunatak_blob_map *map,
                                              nunatak_bytes key);

// Removes a hidden entry. Returns `NUNATAK_NOT_SHADOWED` if the key is not hidden.
nunatak_status nunatak_blob_map_abort_shadow(const nunatak_blob_map *map, nunatak_bytes key);

// Copies the figures of the table, as text for people, to `text`, as much as `room` takes with a zero at its
// end. `len` gets the length of the whole text, and may be null. Reads the whole table.
nunatak_status nunatak_map_stats(const nunatak_map *map,
                                 char *text,
                                 size_t room,
                                 size_t *len);

// As `nunatak_map_stats`.
nunatak_status nunatak_blob_map_stats(const nunatak_blob_map *map,
                                      char *text,
                                      size_t room,
                                      size_t *len);

// As `nunatak_map_stats`.
nunatak_status nunatak_multimap_stats(const nunatak_multimap *map,
                                      char *text,
                                      size_t room,
                                      size_t *len);

// As `nunatak_map_stats`.
nunatak_status nunatak_blob_multimap_stats(const nunatak_blob_multimap *map,
                                           char *text,
                                           size_t room,
                                           size_t *len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NUNATAK_H */
