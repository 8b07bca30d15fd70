// nunatak::string_multimap: any number of values for a byte string.

#ifndef NUNATAK_STRING_MULTIMAP_HPP
#define NUNATAK_STRING_MULTIMAP_HPP

#include "multimap.hpp"

namespace nunatak {

namespace detail {

template <typename V>
bool next_of_string_values(nunatak_blob_multimap_iterator* rest, std::pair<std::string_view, V>& entry) {
  nunatak_bytes key{};
  std::uint64_t value = 0;
  if (!nunatak_blob_multimap_iterator_next(rest, &key, &value)) return false;
  entry = {view(key), from<V>(value)};
  return true;
}

}  // namespace detail

// A concurrent map in RAM in which a key is a byte string and has any number of values: an index of words, or groups
// by name. Keys are copied into the map.
template <inline_value V>
class string_multimap : public detail::owner<nunatak_blob_multimap, nunatak_blob_multimap_free> {
public:
  using key_type = std::string_view;
  using mapped_type = V;
  using value_type = std::pair<const std::string_view, V>;
  using iterator = detail::iterator_of<std::pair<std::string_view, V>, nunatak_blob_multimap_iterator,
                                       nunatak_blob_multimap_iterator_free, detail::next_of_string_values<V>>;
  using const_iterator = iterator;

  // Of many keys: `ends`, `values`, and groups[i], a span of the values of keys[i].
  using groups = detail::groups<V>;

  string_multimap() {
    nunatak_blob_multimap* made = nullptr;
    detail::check(nunatak_blob_multimap_new(&made));
    map_.reset(made);
  }

  string_multimap(std::initializer_list<value_type> entries) : string_multimap() {
    for (const auto& [key, value] : entries) insert(key, value);
  }

  // Goes over all values with their keys, as they are when begin() is called. Copies share one position, and the key
  // that they show is valid until the next step.
  iterator begin() const {
    nunatak_blob_multimap_iterator* made = nullptr;
    detail::check(nunatak_blob_multimap_iterate(map_.get(), &made));
    return iterator(made);
  }

  std::default_sentinel_t end() const noexcept { return {}; }

  // Adds a value to those of the key; equal values are kept.
  void insert(std::string_view key, const V& value) {
    detail::check(nunatak_blob_multimap_insert(map_.get(), detail::bytes(key), detail::word_of(value)));
  }

  void emplace(std::string_view key, const V& value) { insert(key, value); }

  // Adds values[i] to those of keys[i].
  void insert(std::span<const std::string_view> keys, std::span<const V> values) {
    each_pair(keys, values, [&](const nunatak_bytes* keys, const std::uint64_t* values, size_type len) {
      detail::check(nunatak_blob_multimap_insert_many(map_.get(), keys, values, len));
    });
  }

  // Adds a value to those of the key unless one with the same bytes is there; returns whether it was added. If
  // threads add the same pair at once, one of them adds it.
  bool insert_unique(std::string_view key, const V& value) {
    bool inserted = false;
    detail::check(nunatak_blob_multimap_insert_unique(
      map_.get(), detail::bytes(key), detail::word_of(value), &inserted));
    return inserted;
  }

  // Adds each values[i] that keys[i] does not have, in order; returns how many were added.
  size_type insert_unique(std::span<const std::string_view> keys, std::span<const V> values) {
    size_type all = 0, inserted = 0;
    each_pair(keys, values, [&](const nunatak_bytes* keys, const std::uint64_t* values, size_type len) {
      detail::check(nunatak_blob_multimap_insert_unique_many(map_.get(), keys, values, len, &inserted));
      all += inserted;
    });
    return all;
  }

  size_type count(std::string_view key) const {
    size_type count = 0;
    detail::check(nunatak_blob_multimap_get_all(map_.get(), detail::bytes(key), nullptr, 0, &count));
    return count;
  }

  // How many values each key has.
  std::vector<size_type> count(std::span<const std::string_view> keys) const {
    std::vector<size_type> counts(keys.size());
    each_part(keys, [&](const nunatak_bytes* keys, size_type len, size_type at) {
      detail::check(nunatak_blob_multimap_count_many(map_.get(), keys, len, counts.data() + at));
    });
    return counts;
  }

  bool contains(std::string_view key) const { return count(key) > 0; }

  // The values of a key, in no order.
  std::vector<V> get_all(std::string_view key) const {
    return get_all(std::span<const std::string_view>(&key, 1)).values;
  }

  // The values of many keys, with overlapped cache misses.
  groups get_all(std::span<const std::string_view> keys) const {
    groups all;
    all.ends.reserve(keys.size());
    std::vector<std::uint64_t> room(detail::block);
    each_part(keys, [&](const nunatak_bytes* keys, size_type len, size_type) {
      detail::append(all, len, room, [&](auto... results) {
        return nunatak_blob_multimap_get_all_many(map_.get(), keys, len, results...);
      });
    });
    return all;
  }

  // Calls f(key, value) for each value of the key; returns how many there are.
  template <std::invocable<std::string_view, const V&> F>
  size_type visit(std::string_view key, F&& f) const {
    const std::vector<V> values = get_all(key);
    for (const V& value : values) std::invoke(f, key, value);
    return values.size();
  }

  // Calls f(key, count) once for each key, with how many values it has at one moment; returns how many keys there
  // are. Keys that come or go meanwhile may be left out. The key is valid until f returns.
  template <std::invocable<std::string_view, size_type> F>
  size_type visit_keys(F&& f) const {
    detail::keys_seen<F> seen{{f}};
    const nunatak_each_blob_value each = [](void* context, nunatak_bytes key, std::uint64_t count) {
      return static_cast<detail::keys_seen<F>*>(context)->show(detail::view(key), static_cast<size_type>(count));
    };
    seen.call.finish(nunatak_blob_multimap_for_each_key(map_.get(), each, &seen));
    return seen.count;
  }

  // Calls f(key, values) once for each key, with a span of all values that it has at one moment; returns how many
  // keys there are. Keys that come or go meanwhile may be left out. Both are valid until f returns.
  template <std::invocable<std::string_view, std::span<const V>> F>
  size_type visit_groups(F&& f) const {
    detail::keys_seen<F> seen{{f}};
    const nunatak_each_blob_group each = [](void* context, nunatak_bytes key, const std::uint64_t* words, size_type len) {
      return static_cast<detail::keys_seen<F>*>(context)->template show_group<V>(detail::view(key), words, len);
    };
    seen.call.finish(nunatak_blob_multimap_for_each_group(map_.get(), each, &seen));
    return seen.count;
  }

  // The keys, each once, in no order.
  std::vector<std::string> distinct_keys() const {
    std::vector<std::string> keys;
    visit_keys([&](std::string_view key, size_type) { keys.emplace_back(key); });
    return keys;
  }

  // Removes all values of a key; returns how many there were.
  size_type erase(std::string_view key) {
    size_type count = 0;
    detail::check(nunatak_blob_multimap_remove_all(map_.get(), detail::bytes(key), &count));
    return count;
  }

  // Removes all values of many keys; returns how many there were.
  size_type erase(std::span<const std::string_view> keys) {
    size_type all = 0, removed[detail::block];
    each_part(keys, [&](const nunatak_bytes* keys, size_type len, size_type) {
      detail::check(nunatak_blob_multimap_remove_all_many(map_.get(), keys, len, removed));
      for (size_type i = 0; i < len; ++i) all += removed[i];
    });
    return all;
  }

  // Removes one value whose bytes are those of this one; returns whether there was one.
  bool erase_one(std::string_view key, const V& value) {
    bool removed = false;
    detail::check(
      nunatak_blob_multimap_remove_one(map_.get(), detail::bytes(key), detail::word_of(value), &removed));
    return removed;
  }

  size_type size() const noexcept { return nunatak_blob_multimap_len(map_.get()); }
  bool empty() const noexcept { return size() == 0; }
  void clear() { detail::check(nunatak_blob_multimap_clear(map_.get())); }
  size_type memory() const noexcept { return nunatak_blob_multimap_memory(map_.get()); }

private:
  // Calls f(keys, len, start) for parts of at most a block.
  template <typename F>
  static void each_part(std::span<const std::string_view> keys, F&& f) {
    nunatak_bytes of_keys[detail::block];
    detail::each_part(keys, [&](std::span<const std::string_view> part, size_type at) {
      std::transform(part.begin(), part.end(), of_keys, detail::bytes);
      f(of_keys, part.size(), at);
    });
  }

  // Calls f(keys, values, len) for parts of at most a block.
  template <typename F>
  static void each_pair(std::span<const std::string_view> keys, std::span<const V> values, F&& f) {
    if (keys.size() != values.size()) throw error(NUNATAK_INVALID, "the spans differ in length");
    std::uint64_t of_values[detail::block];
    each_part(keys, [&](const nunatak_bytes* of_keys, size_type len, size_type at) {
      f(of_keys, detail::words(values.subspan(at, len), of_values), len);
    });
  }
};

}  // namespace nunatak

#endif  // NUNATAK_STRING_MULTIMAP_HPP
