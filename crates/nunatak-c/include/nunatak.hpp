// Nunatak: concurrent hash maps, in RAM and in files. The C++20 interface, over nunatak.h.
//
//   nunatak::map<std::uint64_t, double> prices;
//   prices.insert_or_assign(7, 1.5);
//   std::optional<double> price = prices.get(7);
//   prices.get(keys, values, present);          // spans: many keys at once, much faster
//
// Threads: every member function but constructors, the destructor, moves and close() may be called by any
// number of threads at a time. Errors are exceptions of the type nunatak::error.
//
// Functions that take a callable run it while the map holds nothing, so it may use the map. It may throw:
// the exception comes out of the call, and the change that it should have decided is not made.
//
// Names are those of boost::concurrent_flat_map where the meaning agrees. What differs: values have at
// most 8 bytes and are shown as copies, so visit() can't change them; use compute(), which stores what the
// callable leaves in the optional.

#ifndef NUNATAK_HPP
#define NUNATAK_HPP

#include "nunatak.h"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace nunatak {

// Why a call has failed.
class error : public std::runtime_error {
public:
  error(nunatak_status status, const char* words) : std::runtime_error(words), status_(status) {}

  nunatak_status status() const noexcept { return status_; }

private:
  nunatak_status status_;
};

namespace detail {

inline void check(nunatak_status status) {
  if (status != NUNATAK_OK) throw error(status, nunatak_last_error());
}

// A callable on its way through C, and the exception that it has thrown.
template <typename F>
struct call {
  F& f;
  std::exception_ptr thrown = nullptr;

  template <typename R, typename G>
  R run(R otherwise, G&& g) noexcept {
    if (thrown) return otherwise;
    try {
      return g();
    } catch (...) {
      thrown = std::current_exception();
      return otherwise;
    }
  }

  void finish(nunatak_status status) {
    if (thrown) std::rethrow_exception(thrown);
    check(status);
  }
};

inline std::string_view view(nunatak_bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data), bytes.len};
}

inline nunatak_bytes bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace detail

// What a map stores in a word.
template <typename T>
concept inline_value = std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && sizeof(T) <= 8;

// What a map compares as a word: types without padding, in which equal values have equal bytes.
template <typename T>
concept inline_key = inline_value<T> && std::has_unique_object_representations_v<T>;

// Where a map in a file is, and how it is opened.
struct file {
  std::string path;
  nunatak_table table = NUNATAK_DEFAULT;
  nunatak_durability durability = NUNATAK_PROCESS;
  std::chrono::milliseconds interval{0};
  std::size_t capacity = 0;
  bool must_exist = false;
  bool read_only = false;
  // Read a copy of the present state of a file that another process may have open and change.
  bool beside = false;
  // Make such copies for other processes: see nunatak_file_options.
  bool answer_readers = false;

  nunatak_file_options options() const noexcept {
    const auto ms = static_cast<std::uint64_t>(std::max<std::chrono::milliseconds::rep>(interval.count(), 0));
    return {table, durability, ms, capacity, must_exist, read_only, beside, answer_readers};
  }
};

// A concurrent map with keys and values of at most 8 bytes.
template <inline_key K, inline_value V>
class map {
public:
  using key_type = K;
  using mapped_type = V;
  using size_type = std::size_t;

  // An empty map in RAM, with room for some entries.
  explicit map(nunatak_table table = NUNATAK_DEFAULT, size_type capacity = 0) {
    nunatak_map* made = nullptr;
    detail::check(nunatak_map_new(table, capacity, &made));
    map_.reset(made);
  }

  // A map in a file.
  explicit map(const file& at) {
    nunatak_map* made = nullptr;
    const nunatak_file_options options = at.options();
    detail::check(nunatak_map_open(at.path.c_str(), &options, &made));
    map_.reset(made);
  }

  // A copy of the value.
  std::optional<V> get(const K& key) const {
    std::uint64_t word = 0;
    bool found = false;
    detail::check(nunatak_map_get(map_.get(), word_of(key), &word, &found));
    if (!found) return std::nullopt;
    return from<V>(word);
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
        std::invoke(state.call.f, from<K>(key), from<V>(value));
        return true;
      });
    };
    state.call.finish(nunatak_map_for_each(map_.get(), each, &state));
    return state.count;
  }

  // Stores a value if the key is absent; returns whether it did.
  bool insert(const K& key, const V& value) {
    bool inserted = false;
    detail::check(nunatak_map_try_insert(map_.get(), word_of(key), word_of(value), nullptr, &inserted));
    return inserted;
  }

  bool insert(const std::pair<const K, V>& entry) { return insert(entry.first, entry.second); }
  bool emplace(const K& key, const V& value) { return insert(key, value); }
  bool try_emplace(const K& key, const V& value) { return insert(key, value); }

  // Stores a value; returns whether the key was absent.
  bool insert_or_assign(const K& key, const V& value) {
    bool replaced = false;
    detail::check(nunatak_map_insert(map_.get(), word_of(key), word_of(value), nullptr, &replaced));
    return !replaced;
  }

  // Stores a value if the key is absent; otherwise calls f(key, value) with the present one. Returns
  // whether it stored.
  template <std::invocable<const K&, const V&> F>
  bool insert_or_visit(const K& key, const V& value, F&& f) {
    std::uint64_t present = 0;
    bool inserted = false;
    detail::check(nunatak_map_try_insert(map_.get(), word_of(key), word_of(value), &present, &inserted));
    if (!inserted) std::invoke(f, key, from<V>(present));
    return inserted;
  }

  // Replaces a value if the key is present; returns the one before.
  std::optional<V> update(const K& key, const V& value) {
    std::uint64_t previous = 0;
    bool updated = false;
    detail::check(nunatak_map_update(map_.get(), word_of(key), word_of(value), &previous, &updated));
    if (!updated) return std::nullopt;
    return from<V>(previous);
  }

  // Replaces a value whose bytes are those of `expected`, which otherwise becomes what is there.
  bool compare_exchange(const K& key, V& expected, const V& desired) {
    std::uint64_t word = word_of(expected);
    bool exchanged = false;
    detail::check(nunatak_map_compare_exchange(map_.get(), word_of(key), &word, word_of(desired), &exchanged));
    if (!exchanged) expected = from<V>(word);
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
        if (value) entry = from<V>(*value);
        std::invoke(state.f, entry);
        if (!entry) return static_cast<std::int32_t>(value ? NUNATAK_REMOVE : NUNATAK_KEEP);
        *result = word_of(*entry);
        return static_cast<std::int32_t>(NUNATAK_PUT);
      });
    };
    state.finish(nunatak_map_compute(map_.get(), word_of(key), change, &state));
  }

  // Adds to a value of 8 bytes, wrapping around; an absent key counts as zero. Returns the sum.
  V fetch_add(const K& key, const V& amount)
    requires(std::integral<V> && sizeof(V) == 8)
  {
    std::uint64_t sum = 0;
    detail::check(nunatak_map_fetch_add(map_.get(), word_of(key), word_of(amount), &sum));
    return from<V>(sum);
  }

  // Removes a key; returns how many keys that were.
  size_type erase(const K& key) { return extract(key) ? 1 : 0; }

  // Removes a key and returns its value.
  std::optional<V> extract(const K& key) {
    std::uint64_t word = 0;
    bool removed = false;
    detail::check(nunatak_map_remove(map_.get(), word_of(key), &word, &removed));
    if (!removed) return std::nullopt;
    return from<V>(word);
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
    V values[block];
    std::uint64_t present[block / 64];
    size_type count = 0;
    for (size_type at = 0; at < keys.size(); at += block) {
      const auto part = keys.subspan(at, std::min(block, keys.size() - at));
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
    std::uint64_t of_keys[block], of_values[block];
    const size_type step = is_word<K> && is_word<V> ? std::max(keys.size(), block) : block;
    for (size_type at = 0; at < keys.size(); at += step) {
      const size_type len = std::min(step, keys.size() - at);
      size_type some = 0;
      detail::check(nunatak_map_insert_many(
        map_.get(), words(keys.subspan(at, len), of_keys), words(values.subspan(at, len), of_values), len, &some));
      fresh += some;
    }
    return fresh;
  }

  size_type size() const noexcept { return nunatak_map_len(map_.get()); }
  bool empty() const noexcept { return size() == 0; }
  void clear() { detail::check(nunatak_map_clear(map_.get())); }
  void reserve(size_type additional) { detail::check(nunatak_map_reserve(map_.get(), additional)); }
  void shrink_to_fit() { detail::check(nunatak_map_shrink_to_fit(map_.get())); }
  size_type memory() const noexcept { return nunatak_map_memory(map_.get()); }
  double load_factor() const noexcept { return nunatak_map_load_factor(map_.get()); }

  // Of a map in a file.
  void sync() const { detail::check(nunatak_map_sync(map_.get())); }

  size_type verify() const {
    size_type entries = 0;
    detail::check(nunatak_map_verify(map_.get(), &entries));
    return entries;
  }

  size_type backup(const std::string& path) const {
    size_type entries = 0;
    detail::check(nunatak_map_backup(map_.get(), path.c_str(), &entries));
    return entries;
  }

  // Closes the file. Afterwards the map can only be destroyed or assigned to; other calls throw.
  void close() { detail::check(nunatak_map_close(map_.release())); }

  nunatak_map* c_map() const noexcept { return map_.get(); }

private:
  template <typename T>
  static std::uint64_t word_of(const T& value) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    return word;
  }

  template <typename T>
  static T from(std::uint64_t word) noexcept {
    T value{};
    std::memcpy(&value, &word, sizeof(T));
    return value;
  }

  template <typename T>
  static constexpr bool is_word = std::is_same_v<T, std::uint64_t>;

  // How many keys are converted at a time, if they are not words as they are.
  static constexpr size_type block = 256;

  // The words of a span: the span itself if it consists of words, otherwise at most a block in `room`.
  template <typename T>
  static const std::uint64_t* words(std::span<const T> items, std::uint64_t* room) noexcept {
    if constexpr (is_word<T>) {
      return items.data();
    } else {
      for (size_type i = 0; i < items.size(); ++i) room[i] = word_of(items[i]);
      return room;
    }
  }

  template <typename C>
  size_type batch(std::span<const K> keys, std::span<V> values, std::span<std::uint64_t> present, C c) const {
    if (values.size() < keys.size() || present.size() < (keys.size() + 63) / 64)
      throw error(NUNATAK_INVALID, "the spans for results are too short");
    std::uint64_t of_keys[block], of_values[block];
    const size_type step = is_word<K> && is_word<V> ? std::max(keys.size(), block) : block;
    size_type count = 0;
    for (size_type at = 0; at < keys.size(); at += step) {
      const auto part = keys.subspan(at, std::min(step, keys.size() - at));
      std::uint64_t* const bits = present.data() + at / 64;
      size_type some = 0;
      if constexpr (is_word<V>) {
        detail::check(c(map_.get(), words(part, of_keys), part.size(), values.data() + at, bits, &some));
      } else {
        detail::check(c(map_.get(), words(part, of_keys), part.size(), of_values, bits, &some));
        for (size_type i = 0; i < part.size(); ++i)
          if (bits[i / 64] >> (i % 64) & 1) values[at + i] = from<V>(of_values[i]);
      }
      count += some;
    }
    return count;
  }

  struct freed {
    void operator()(nunatak_map* map) const noexcept { nunatak_map_free(map); }
  };

  std::unique_ptr<nunatak_map, freed> map_;
};

// A concurrent map whose keys and values are byte strings.
class string_map {
public:
  using key_type = std::string_view;
  using mapped_type = std::string_view;
  using size_type = std::size_t;

  explicit string_map(nunatak_table table = NUNATAK_DEFAULT, size_type capacity = 0) {
    nunatak_blob_map* made = nullptr;
    detail::check(nunatak_blob_map_new(table, capacity, &made));
    map_.reset(made);
  }

  explicit string_map(const file& at) {
    nunatak_blob_map* made = nullptr;
    const nunatak_file_options options = at.options();
    detail::check(nunatak_blob_map_open(at.path.c_str(), &options, &made));
    map_.reset(made);
  }

  // A copy of the value.
  std::optional<std::string> get(std::string_view key) const {
    std::optional<std::string> value;
    visit(key, [&](std::string_view, std::string_view found) { value.emplace(found); });
    return value;
  }

  bool contains(std::string_view key) const {
    return visit(key, [](std::string_view, std::string_view) {}) == 1;
  }

  size_type count(std::string_view key) const { return contains(key) ? 1 : 0; }

  // Calls f(key, value) with the value in the map's own memory, if the key is present; returns how often.
  template <std::invocable<std::string_view, std::string_view> F>
  size_type visit(std::string_view key, F&& f) const {
    struct state {
      detail::call<F> call;
      std::string_view key;
    } state{{f}, key};
    bool found = false;
    const auto visit = [](void* context, nunatak_bytes value) {
      auto& state = *static_cast<struct state*>(context);
      state.call.run(0, [&] {
        std::invoke(state.call.f, state.key, detail::view(value));
        return 0;
      });
    };
    state.call.finish(nunatak_blob_map_visit(map_.get(), detail::bytes(key), visit, &state, &found));
    return found ? 1 : 0;
  }

  // Calls f(key, value) for each key that is present, in order; returns how many are.
  template <std::invocable<std::string_view, std::string_view> F>
  size_type visit(std::span<const std::string_view> keys, F&& f) const {
    struct state {
      detail::call<F> call;
      std::span<const std::string_view> keys;
      size_type count = 0;
    } state{{f}, keys};
    std::vector<nunatak_bytes> asked(keys.size());
    for (size_type i = 0; i < keys.size(); ++i) asked[i] = detail::bytes(keys[i]);
    const auto visit = [](void* context, size_type index, const nunatak_bytes* value) {
      auto& state = *static_cast<struct state*>(context);
      if (!value) return;
      state.call.run(0, [&] {
        ++state.count;
        std::invoke(state.call.f, state.keys[index], detail::view(*value));
        return 0;
      });
    };
    state.call.finish(nunatak_blob_map_visit_many(map_.get(), asked.data(), asked.size(), visit, &state));
    return state.count;
  }

  // Calls f(key, value) for every entry of a consistent cut; returns how many there were.
  template <std::invocable<std::string_view, std::string_view> F>
  size_type visit_all(F&& f) const {
    struct state {
      detail::call<F> call;
      size_type count = 0;
    } state{{f}};
    const auto each = [](void* context, nunatak_bytes key, nunatak_bytes value) -> bool {
      auto& state = *static_cast<struct state*>(context);
      return state.call.run(false, [&] {
        ++state.count;
        std::invoke(state.call.f, detail::view(key), detail::view(value));
        return true;
      });
    };
    state.call.finish(nunatak_blob_map_for_each(map_.get(), each, &state));
    return state.count;
  }

  // Stores a value if the key is absent; returns whether it did.
  bool insert(std::string_view key, std::string_view value) {
    bool inserted = false;
    detail::check(
      nunatak_blob_map_try_insert(map_.get(), detail::bytes(key), detail::bytes(value), &inserted));
    return inserted;
  }

  bool emplace(std::string_view key, std::string_view value) { return insert(key, value); }
  bool try_emplace(std::string_view key, std::string_view value) { return insert(key, value); }

  // Stores a value; returns whether the key was absent.
  bool insert_or_assign(std::string_view key, std::string_view value) {
    bool replaced = false;
    detail::check(nunatak_blob_map_put(map_.get(), detail::bytes(key), detail::bytes(value), &replaced));
    return !replaced;
  }

  // Lets f change an optional: what it leaves there is stored, or the key is removed. f may run more than
  // once.
  template <std::invocable<std::optional<std::string>&> F>
  void compute(std::string_view key, F&& f) {
    struct state {
      detail::call<F> call;
      std::optional<std::string> entry;
    } state{{f}, std::nullopt};
    const auto change = [](void* context, const nunatak_bytes* value, nunatak_bytes* result) -> std::int32_t {
      auto& state = *static_cast<struct state*>(context);
      return state.call.run(static_cast<std::int32_t>(NUNATAK_KEEP), [&] {
        state.entry.reset();
        if (value) state.entry.emplace(detail::view(*value));
        std::invoke(state.call.f, state.entry);
        if (!state.entry) return static_cast<std::int32_t>(value ? NUNATAK_REMOVE : NUNATAK_KEEP);
        *result = detail::bytes(*state.entry);
        return static_cast<std::int32_t>(NUNATAK_PUT);
      });
    };
    state.call.finish(nunatak_blob_map_compute(map_.get(), detail::bytes(key), change, &state));
  }

  // Removes a key; returns how many keys that were.
  size_type erase(std::string_view key) {
    bool removed = false;
    detail::check(nunatak_blob_map_remove(map_.get(), detail::bytes(key), &removed));
    return removed ? 1 : 0;
  }

  // Removes a key if pred(key, value) holds for its value; returns how many keys that were.
  template <std::predicate<std::string_view, std::string_view> P>
  size_type erase_if(std::string_view key, P&& pred) {
    bool erased = false;
    compute(key, [&](std::optional<std::string>& value) {
      erased = value && std::invoke(pred, key, std::string_view(*value));
      if (erased) value.reset();
    });
    return erased ? 1 : 0;
  }

  size_type size() const noexcept { return nunatak_blob_map_len(map_.get()); }
  bool empty() const noexcept { return size() == 0; }
  void clear() { detail::check(nunatak_blob_map_clear(map_.get())); }
  void reserve(size_type additional) { detail::check(nunatak_blob_map_reserve(map_.get(), additional)); }
  size_type memory() const noexcept { return nunatak_blob_map_memory(map_.get()); }

  // Of a map in a file.
  void sync() const { detail::check(nunatak_blob_map_sync(map_.get())); }

  size_type verify() const {
    size_type entries = 0;
    detail::check(nunatak_blob_map_verify(map_.get(), &entries));
    return entries;
  }

  size_type backup(const std::string& path) const {
    size_type entries = 0;
    detail::check(nunatak_blob_map_backup(map_.get(), path.c_str(), &entries));
    return entries;
  }

  // Closes the file. Afterwards the map can only be destroyed or assigned to; other calls throw.
  void close() { detail::check(nunatak_blob_map_close(map_.release())); }

  nunatak_blob_map* c_map() const noexcept { return map_.get(); }

private:
  struct freed {
    void operator()(nunatak_blob_map* map) const noexcept { nunatak_blob_map_free(map); }
  };

  std::unique_ptr<nunatak_blob_map, freed> map_;
};

}  // namespace nunatak

#endif  // NUNATAK_HPP
