// nunatak::map: keys and values of at most 8 bytes.

#ifndef NUNATAK_MAP_HPP
#define NUNATAK_MAP_HPP

#include "common.hpp"

namespace nunatak {

// A concurrent map with keys and values of at most 8 bytes.
template <inline_key K, inline_value V>
class map : public detail::handle<nunatak_map, nunatak_map_free, nunatak_map_sync, nunatak_map_verify,
    nunatak_map_failure, nunatak_map_backup, nunatak_map_close> {
public:
  using key_type = K;
  using mapped_type = V;
  using value_type = std::pair<const K, V>;
  using iterator = detail::iterator<K, V>;
  using const_iterator = iterator;

  // An empty map in RAM, with room for some entries.
  explicit map(nunatak_table table = NUNATAK_DEFAULT, size_type capacity = 0) : table_(table) {
    nunatak_map* made = nullptr;
    detail::check(nunatak_map_new(table, capacity, &made));
    map_.reset(made);
  }

  // A map in a file.
  explicit map(const file& at) : table_(at.table) {
    nunatak_map* made = nullptr;
    const nunatak_file_options options = at.options();
    detail::check(nunatak_map_open(at.path.c_str(), &options, &made));
    map_.reset(made);
  }

  explicit map(size_type capacity) : map(NUNATAK_DEFAULT, capacity) {}

  template <std::input_iterator I>
  map(I first, I last, nunatak_table table = NUNATAK_DEFAULT) : map(table) {
    insert(first, last);
  }

  map(std::initializer_list<value_type> entries, nunatak_table table = NUNATAK_DEFAULT)
      : map(entries.begin(), entries.end(), table) {}

  // A map in RAM with the entries of one moment.
  map(const map& other) : map(other.table_, other.size()) {
    for (const auto& [key, value] : other) insert(key, value);
  }

  map(map&& other) noexcept = default;

  map& operator=(const map& other) {
    map(other).swap(*this);
    return *this;
  }

  map& operator=(map&& other) noexcept = default;

  map& operator=(std::initializer_list<value_type> entries) {
    map(entries, table_).swap(*this);
    return *this;
  }

  void swap(map& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(table_, other.table_);
  }

  friend void swap(map& one, map& other) noexcept { one.swap(other); }

  // Goes over the entries of one moment, which are copied when begin() is called. The map may change meanwhile.
  iterator begin() const {
    nunatak_iterator* made = nullptr;
    detail::check(nunatak_map_iterate(map_.get(), &made));
    return iterator(made);
  }

  std::default_sentinel_t end() const noexcept { return {}; }

  // Whether the entries of two moments are equal: one of this map, and a later one of the other.
  friend bool operator==(const map& one, const map& other)
    requires std::equality_comparable<V>
  {
    size_type entries = 0;
    for (const auto& [key, value] : one) {
      const std::optional<V> found = other.get(key);
      if (!found || !(*found == value)) return false;
      ++entries;
    }
    return entries == other.size();
  }

  // A copy of the value.
  std::optional<V> get(const K& key) const {
    std::uint64_t word = 0;
    bool found = false;
    detail::check(nunatak_map_get(map_.get(), detail::word_of(key), &word, &found));
    if (!found) return std::nullopt;
    return detail::from<V>(word);
  }

  bool contains(const K& key) const { return get(key).has_value(); }
  size_type count(const K& key) const { return contains(key) ? 1 : 0; }

  // Calls f(key, value) if the key is present; returns how often it did.
  template <std::invocable<const K&, const V&> F>
  size_type visit(const K& key, F&& f) const {
    const std::optional<V> value = get(key);
    if (value) std::invoke(f, key, *value);
    return value ? 1 : 0;
  }

  template <std::invocable<const K&, const V&> F>
  size_type cvisit(const K& key, F&& f) const {
    return visit(key, std::forward<F>(f));
  }

  // Calls f(key, value) for every entry of a consistent cut; returns how many there were.
  template <std::invocable<const K&, const V&> F>
  size_type visit_all(F&& f) const {
    struct state {
      detail::call<F> call;
      size_type count = 0;
    } state{{f}};
    const auto each = [](void* context, std::uint64_t key, std::uint64_t value) -> bool {
      auto& state = *static_cast<struct state*>(context);
      return state.call.run(false, [&] {
        ++state.count;
        std::invoke(state.call.f, detail::from<K>(key), detail::from<V>(value));
        return true;
      });
    };
    state.call.finish(nunatak_map_for_each(map_.get(), each, &state));
    return state.count;
  }

  template <std::invocable<const K&, const V&> F>
  size_type cvisit_all(F&& f) const {
    return visit_all(std::forward<F>(f));
  }

  // Calls f(key, value) for the entries of a consistent cut until it returns false; returns whether it never did.
  template <std::predicate<const K&, const V&> F>
  bool visit_while(F&& f) const {
    for (const auto& [key, value] : *this)
      if (!std::invoke(f, key, value)) return false;
    return true;
  }

  template <std::predicate<const K&, const V&> F>
  bool cvisit_while(F&& f) const {
    return visit_while(std::forward<F>(f));
  }

  // Stores a value if the key is absent; returns whether it did.
  bool insert(const K& key, const V& value) {
    bool inserted = false;
    detail::check(nunatak_map_try_insert(map_.get(), detail::word_of(key), detail::word_of(value), nullptr, &inserted));
    return inserted;
  }

  bool insert(const value_type& entry) { return insert(entry.first, entry.second); }

  // Stores the entries whose keys are absent; returns how many those were.
  template <std::input_iterator I>
  size_type insert(I first, I last) {
    size_type fresh = 0;
    for (; first != last; ++first) fresh += insert(first->first, first->second);
    return fresh;
  }

  size_type insert(std::initializer_list<value_type> entries) { return insert(entries.begin(), entries.end()); }

  bool emplace(const K& key, const V& value) { return insert(key, value); }
  bool try_emplace(const K& key, const V& value) { return insert(key, value); }

  // Stores a value; returns whether the key was absent.
  bool insert_or_assign(const K& key, const V& value) {
    bool replaced = false;
    detail::check(nunatak_map_insert(map_.get(), detail::word_of(key), detail::word_of(value), nullptr, &replaced));
    return !replaced;
  }

  // Stores a value if the key is absent; otherwise calls f(key, value) with the present one. Returns
  // whether it stored.
  template <std::invocable<const K&, const V&> F>
  bool insert_or_visit(const K& key, const V& value, F&& f) {
    std::uint64_t present = 0;
    bool inserted = false;
    detail::check(nunatak_map_try_insert(map_.get(), detail::word_of(key), detail::word_of(value), &present, &inserted));
    if (!inserted) std::invoke(f, key, detail::from<V>(present));
    return inserted;
  }

  template <std::invocable<const K&, const V&> F>
  bool insert_or_cvisit(const K& key, const V& value, F&& f) {
    return insert_or_visit(key, value, std::forward<F>(f));
  }

  template <std::invocable<const K&, const V&> F>
  bool try_emplace_or_visit(const K& key, const V& value, F&& f) {
    return insert_or_visit(key, value, std::forward<F>(f));
  }

  // Moves the entries of another map here whose keys are absent; returns how many those were. For a moment
  // other threads see an entry in both maps. If one changes it in the other map meanwhile, it stays there, too.
  size_type merge(map& source) {
    if (this == &source) return 0;
    size_type moved = 0;
    for (const auto& [key, value] : source) {
      if (!insert(key, value)) continue;
      source.erase_if(key, [&, bytes = detail::word_of(value)](const K&, const V& present) {
        return detail::word_of(present) == bytes;
      });
      ++moved;
    }
    return moved;
  }

  // Replaces a value if the key is present; returns the one before.
  std::optional<V> update(const K& key, const V& value) {
    std::uint64_t previous = 0;
    bool updated = false;
    detail::check(nunatak_map_update(map_.get(), detail::word_of(key), detail::word_of(value), &previous, &updated));
    if (!updated) return std::nullopt;
    return detail::from<V>(previous);
  }

  // Replaces a value whose bytes are those of `expected`, which otherwise becomes what is there.
  bool compare_exchange(const K& key, V& expected, const V& desired) {
    std::uint64_t word = detail::word_of(expected);
    bool exchanged = false;
    detail::check(nunatak_map_compare_exchange(map_.get(), detail::word_of(key), &word, detail::word_of(desired), &exchanged));
    if (!exchanged) expected = detail::from<V>(word);
    return exchanged;
  }

  // Lets f change an optional: what it leaves there is stored, or the key is removed. f may run more than
  // once, when other threads change the key.
  template <std::invocable<std::optional<V>&> F>
  void compute(const K& key, F&& f) {
    detail::call<F> state{f};
    const auto change = [](void* context, const std::uint64_t* value, std::uint64_t* result) -> std::int32_t {
      auto& state = *static_cast<detail::call<F>*>(context);
      return state.run(static_cast<std::int32_t>(NUNATAK_KEEP), [&] {
        std::optional<V> entry;
        if (value) entry = detail::from<V>(*value);
        std::invoke(state.f, entry);
        if (!entry) return static_cast<std::int32_t>(value ? NUNATAK_REMOVE : NUNATAK_KEEP);
        *result = detail::word_of(*entry);
        return static_cast<std::int32_t>(NUNATAK_PUT);
      });
    };
    state.finish(nunatak_map_compute(map_.get(), detail::word_of(key), change, &state));
  }

  // Adds to a value of 8 bytes, wrapping around; an absent key counts as zero. Returns the sum.
  V fetch_add(const K& key, const V& amount)
    requires(std::integral<V> && sizeof(V) == 8)
  {
    std::uint64_t sum = 0;
    detail::check(nunatak_map_fetch_add(map_.get(), detail::word_of(key), detail::word_of(amount), &sum));
    return detail::from<V>(sum);
  }

  // Removes a key; returns how many keys that were.
  size_type erase(const K& key) { return extract(key) ? 1 : 0; }

  // Removes a key and returns its value.
  std::optional<V> extract(const K& key) {
    std::uint64_t word = 0;
    bool removed = false;
    detail::check(nunatak_map_remove(map_.get(), detail::word_of(key), &word, &removed));
    if (!removed) return std::nullopt;
    return detail::from<V>(word);
  }

  // Removes a key if pred(key, value) holds for its value; returns how many keys that were.
  template <std::predicate<const K&, const V&> P>
  size_type erase_if(const K& key, P&& pred) {
    bool erased = false;
    compute(key, [&](std::optional<V>& value) {
      erased = value && std::invoke(pred, key, *value);
      if (erased) value.reset();
    });
    return erased ? 1 : 0;
  }

  // Removes every entry for which pred(key, value) holds; returns how many.
  template <std::predicate<const K&, const V&> P>
  size_type erase_if(P&& pred) {
    size_type erased = 0;
    visit_all([&](const K& key, const V&) { erased += erase_if(key, pred); });
    return erased;
  }

  // Looks many keys up, with overlapped cache misses; returns how many are present. Bit i % 64 of
  // present[i / 64] tells whether keys[i] is. Values of absent keys are left alone.
  size_type get(std::span<const K> keys, std::span<V> values, std::span<std::uint64_t> present) const {
    return batch(keys, values, present, nunatak_map_get_many);
  }

  // Removes many keys, with the results of get().
  size_type extract(std::span<const K> keys, std::span<V> values, std::span<std::uint64_t> present) {
    return batch(keys, values, present, nunatak_map_remove_many);
  }

  // Calls f(key, value) for each key that is present, in order; returns how many are.
  template <std::invocable<const K&, const V&> F>
  size_type visit(std::span<const K> keys, F&& f) const {
    V values[detail::block];
    std::uint64_t present[detail::block / 64];
    size_type count = 0;
    for (size_type at = 0; at < keys.size(); at += detail::block) {
      const auto part = keys.subspan(at, std::min(detail::block, keys.size() - at));
      count += get(part, std::span<V>(values), std::span<std::uint64_t>(present));
      for (size_type i = 0; i < part.size(); ++i)
        if (present[i / 64] >> (i % 64) & 1) std::invoke(f, part[i], std::as_const(values[i]));
    }
    return count;
  }

  // Stores values[i] under keys[i], in order; returns how many keys were new.
  size_type insert_or_assign(std::span<const K> keys, std::span<const V> values) {
    if (keys.size() != values.size()) throw error(NUNATAK_INVALID, "the spans differ in length");
    size_type fresh = 0;
    std::uint64_t of_keys[detail::block], of_values[detail::block];
    const size_type step = detail::is_word<K> && detail::is_word<V> ? std::max(keys.size(), detail::block) : detail::block;
    for (size_type at = 0; at < keys.size(); at += step) {
      const size_type len = std::min(step, keys.size() - at);
      size_type some = 0;
      detail::check(nunatak_map_insert_many(
        map_.get(), detail::words(keys.subspan(at, len), of_keys), detail::words(values.subspan(at, len), of_values), len, &some));
      fresh += some;
    }
    return fresh;
  }

  size_type size() const noexcept { return nunatak_map_len(map_.get()); }
  bool empty() const noexcept { return size() == 0; }

  // The table that was asked for.
  nunatak_table table() const noexcept { return table_; }

  void clear() { detail::check(nunatak_map_clear(map_.get())); }
  void reserve(size_type additional) { detail::check(nunatak_map_reserve(map_.get(), additional)); }
  void shrink_to_fit() { detail::check(nunatak_map_shrink_to_fit(map_.get())); }
  size_type memory() const noexcept { return nunatak_map_memory(map_.get()); }
  double load_factor() const noexcept { return nunatak_map_load_factor(map_.get()); }

protected:
  explicit map(detail::adopted<nunatak_map> of) { map_.reset(of.map); }

private:
  template <typename C>
  size_type batch(std::span<const K> keys, std::span<V> values, std::span<std::uint64_t> present, C c) const {
    if (values.size() < keys.size() || present.size() < (keys.size() + 63) / 64)
      throw error(NUNATAK_INVALID, "the spans for results are too short");
    std::uint64_t of_keys[detail::block], of_values[detail::block];
    const size_type step = detail::is_word<K> && detail::is_word<V> ? std::max(keys.size(), detail::block) : detail::block;
    size_type count = 0;
    for (size_type at = 0; at < keys.size(); at += step) {
      const auto part = keys.subspan(at, std::min(step, keys.size() - at));
      std::uint64_t* const bits = present.data() + at / 64;
      size_type some = 0;
      if constexpr (detail::is_word<V>) {
        detail::check(c(map_.get(), detail::words(part, of_keys), part.size(), values.data() + at, bits, &some));
      } else {
        detail::check(c(map_.get(), detail::words(part, of_keys), part.size(), of_values, bits, &some));
        for (size_type i = 0; i < part.size(); ++i)
          if (bits[i / 64] >> (i % 64) & 1) values[at + i] = detail::from<V>(of_values[i]);
      }
      count += some;
    }
    return count;
  }

  // What a copy is made of.
  nunatak_table table_ = NUNATAK_DEFAULT;
};

// Removes every entry for which pred(key, value) holds; returns how many.
template <typename K, typename V, typename P>
std::size_t erase_if(map<K, V>& map, P&& pred) {
  return map.erase_if(std::forward<P>(pred));
}

}  // namespace nunatak

#endif  // NUNATAK_MAP_HPP
