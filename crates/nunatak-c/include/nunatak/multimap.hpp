// nunatak::multimap: any number of values for a key.

#ifndef NUNATAK_MULTIMAP_HPP
#define NUNATAK_MULTIMAP_HPP

#include "common.hpp"

namespace nunatak {

namespace detail {

// The values of many keys: those of keys[i] are values[ends[i - 1]] to values[ends[i]], without the latter.
template <typename V>
struct groups {
  std::vector<std::size_t> ends;
  std::vector<V> values;

  std::span<const V> operator[](std::size_t i) const {
    const std::size_t start = i == 0 ? 0 : ends[i - 1];
    return std::span<const V>(values).subspan(start, ends[i] - start);
  }
};

// Appends the values of at most a block of keys, which `ask(ends, values, room, count)` copies as the function of C.
template <typename V, typename Ask>
void append(groups<V>& all, std::size_t keys, std::vector<std::uint64_t>& room, Ask&& ask) {
  std::size_t ends[block];
  // Other threads may add values between two calls.
  for (std::size_t count = 0;; room.resize(count * 2)) {
    check(ask(ends, room.data(), room.size(), &count));
    if (count > room.size()) continue;
    const std::size_t start = all.values.size();
    for (std::size_t i = 0; i < keys; ++i) all.ends.push_back(start + ends[i]);
    for (std::size_t i = 0; i < count; ++i) all.values.push_back(from<V>(room[i]));
    return;
  }
}

// A callable that is shown keys, and how many it was shown.
template <typename F>
struct keys_seen {
  detail::call<std::remove_reference_t<F>> call;
  std::size_t count = 0;

  // Shows it a key, and what comes with it; returns whether it wants more.
  template <typename K, typename Shown>
  bool show(K key, Shown shown) noexcept {
    return call.run(false, [&] {
      ++count;
      std::invoke(call.f, std::move(key), std::move(shown));
      return true;
    });
  }

  // Shows it a key and all of its values.
  template <typename V, typename K>
  bool show_group(K key, const std::uint64_t* words, std::size_t len) noexcept {
    return call.run(false, [&] {
      ++count;
      std::vector<V> values(len);
      std::transform(words, words + len, values.begin(), from<V>);
      std::invoke(call.f, std::move(key), std::span<const V>(values));
      return true;
    });
  }
};

}  // namespace detail

// A concurrent map in which a key has any number of values: an index, or a graph.
template <inline_key K, inline_value V>
class multimap : public detail::handle<nunatak_multimap, nunatak_multimap_free, nunatak_multimap_sync, nunatak_multimap_verify,
    nunatak_multimap_failure, nunatak_multimap_backup, nunatak_multimap_close> {
public:
  using key_type = K;
  using mapped_type = V;
  using value_type = std::pair<const K, V>;
  using iterator = detail::iterator<K, V>;
  using const_iterator = iterator;

  // Of many keys: `ends`, `values`, and groups[i], a span of the values of keys[i].
  using groups = detail::groups<V>;

  multimap() {
    nunatak_multimap* made = nullptr;
    detail::check(nunatak_multimap_new(&made));
    map_.reset(made);
  }

  explicit multimap(const file& at) {
    nunatak_multimap* made = nullptr;
    const nunatak_file_options options = at.options();
    detail::check(nunatak_multimap_open(at.path.c_str(), &options, &made));
    map_.reset(made);
  }

  multimap(std::initializer_list<value_type> entries) : multimap() {
    for (const auto& [key, value] : entries) insert(key, value);
  }

  // Goes over all values with their keys, as they are when begin() is called.
  iterator begin() const {
    nunatak_iterator* made = nullptr;
    detail::check(nunatak_multimap_iterate(map_.get(), &made));
    return iterator(made);
  }

  std::default_sentinel_t end() const noexcept { return {}; }

  // Adds a value to those of the key; equal values are kept.
  void insert(const K& key, const V& value) {
    detail::check(nunatak_multimap_insert(map_.get(), detail::word_of(key), detail::word_of(value)));
  }

  void emplace(const K& key, const V& value) { insert(key, value); }

  // Adds values[i] to those of keys[i].
  void insert(std::span<const K> keys, std::span<const V> values) {
    if (keys.size() != values.size()) throw error(NUNATAK_INVALID, "the spans differ in length");
    std::uint64_t of_keys[detail::block], of_values[detail::block];
    detail::each_part(keys, [&](std::span<const K> part, size_type at) {
      const auto some = values.subspan(at, part.size());
      detail::check(nunatak_multimap_insert_many(
        map_.get(), detail::words(part, of_keys), detail::words(some, of_values), part.size()));
    });
  }

  // Adds a value to those of the key unless one with the same bytes is there; returns whether it was added. If
  // threads add the same pair at once, one of them adds it.
  bool insert_unique(const K& key, const V& value) {
    bool inserted = false;
    detail::check(
      nunatak_multimap_insert_unique(map_.get(), detail::word_of(key), detail::word_of(value), &inserted));
    return inserted;
  }

  // Adds each values[i] that keys[i] does not have, in order; returns how many were added.
  size_type insert_unique(std::span<const K> keys, std::span<const V> values) {
    if (keys.size() != values.size()) throw error(NUNATAK_INVALID, "the spans differ in length");
    std::uint64_t of_keys[detail::block], of_values[detail::block];
    size_type all = 0, inserted = 0;
    detail::each_part(keys, [&](std::span<const K> part, size_type at) {
      const auto some = values.subspan(at, part.size());
      detail::check(nunatak_multimap_insert_unique_many(
        map_.get(), detail::words(part, of_keys), detail::words(some, of_values), part.size(), &inserted));
      all += inserted;
    });
    return all;
  }

  size_type count(const K& key) const {
    size_type count = 0;
    detail::check(nunatak_multimap_get_all(map_.get(), detail::word_of(key), nullptr, 0, &count));
    return count;
  }

  bool contains(const K& key) const { return count(key) > 0; }

  // The values of a key, in no order.
  std::vector<V> get_all(const K& key) const { return get_all(std::span<const K>(&key, 1)).values; }

  // The values of many keys, with overlapped cache misses.
  groups get_all(std::span<const K> keys) const {
    groups all;
    all.ends.reserve(keys.size());
    std::uint64_t of_keys[detail::block];
    std::vector<std::uint64_t> room(detail::block);
    detail::each_part(keys, [&](std::span<const K> part, size_type) {
      const std::uint64_t* const asked = detail::words(part, of_keys);
      detail::append(all, part.size(), room, [&](auto... results) {
        return nunatak_multimap_get_all_many(map_.get(), asked, part.size(), results...);
      });
    });
    return all;
  }

  // Calls f(key, value) for each value of the key; returns how many there are.
  template <std::invocable<const K&, const V&> F>
  size_type visit(const K& key, F&& f) const {
    const std::vector<V> values = get_all(key);
    for (const V& value : values) std::invoke(f, key, value);
    return values.size();
  }

  // Calls f(key, count) once for each key, with how many values it has at one moment; returns how many keys there
  // are. Keys that come or go meanwhile may be left out.
  template <std::invocable<const K&, size_type> F>
  size_type visit_keys(F&& f) const {
    detail::keys_seen<F> seen{{f}};
    const nunatak_each each = [](void* context, std::uint64_t key, std::uint64_t count) {
      return static_cast<detail::keys_seen<F>*>(context)->show(detail::from<K>(key), static_cast<size_type>(count));
    };
    seen.call.finish(nunatak_multimap_for_each_key(map_.get(), each, &seen));
    return seen.count;
  }

  // Calls f(key, values) once for each key, with a span of all values that it has at one moment; returns how many
  // keys there are. Keys that come or go meanwhile may be left out.
  template <std::invocable<const K&, std::span<const V>> F>
  size_type visit_groups(F&& f) const {
    detail::keys_seen<F> seen{{f}};
    const nunatak_each_group each = [](void* context, std::uint64_t key, const std::uint64_t* words, size_type len) {
      return static_cast<detail::keys_seen<F>*>(context)->template show_group<V>(detail::from<K>(key), words, len);
    };
    seen.call.finish(nunatak_multimap_for_each_group(map_.get(), each, &seen));
    return seen.count;
  }

  // The keys, each once, in no order.
  std::vector<K> distinct_keys() const {
    std::vector<K> keys;
    visit_keys([&](const K& key, size_type) { keys.push_back(key); });
    return keys;
  }

  // Removes all values of a key; returns how many there were.
  size_type erase(const K& key) {
    size_type count = 0;
    detail::check(nunatak_multimap_remove_all(map_.get(), detail::word_of(key), &count));
    return count;
  }

  // Removes all values of many keys; returns how many there were.
  size_type erase(std::span<const K> keys) {
    size_type all = 0, removed[detail::block];
    std::uint64_t of_keys[detail::block];
    detail::each_part(keys, [&](std::span<const K> part, size_type) {
      detail::check(nunatak_multimap_remove_all_many(
        map_.get(), detail::words(part, of_keys), part.size(), removed));
      for (size_type i = 0; i < part.size(); ++i) all += removed[i];
    });
    return all;
  }

  // Removes one value whose bytes are those of this one; returns whether there was one.
  bool erase_one(const K& key, const V& value) {
    bool removed = false;
    detail::check(
      nunatak_multimap_remove_one(map_.get(), detail::word_of(key), detail::word_of(value), &removed));
    return removed;
  }

  size_type size() const noexcept { return nunatak_multimap_len(map_.get()); }
  bool empty() const noexcept { return size() == 0; }
  void clear() { detail::check(nunatak_multimap_clear(map_.get())); }
  size_type memory() const noexcept { return nunatak_multimap_memory(map_.get()); }
};

}  // namespace nunatak

#endif  // NUNATAK_MULTIMAP_HPP
