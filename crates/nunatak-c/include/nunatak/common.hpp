// What the classes of nunatak.hpp share.

#ifndef NUNATAK_COMMON_HPP
#define NUNATAK_COMMON_HPP

#include "../nunatak.h"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
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

// A map of the C library for a class to own.
template <typename C>
struct adopted {
  C* map;
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
  // The name of the schema and its version: see nunatak_file_options. An empty name is none.
  std::string schema = {};
  std::uint32_t schema_version = 0;

  // Valid as long as this.
  nunatak_file_options options() const noexcept {
    const auto ms = static_cast<std::uint64_t>(std::max<std::chrono::milliseconds::rep>(interval.count(), 0));
    return {table, durability, ms, capacity, must_exist, read_only, beside, answer_readers,
            schema.empty() ? nullptr : schema.c_str(), schema_version};
  }
};

namespace detail {

template <typename T>
std::uint64_t word_of(const T& value) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}

template <typename T>
T from(std::uint64_t word) noexcept {
  T value{};
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

// How many keys are converted at a time, if they are not words as they are.
inline constexpr std::size_t block = 256;

template <typename T>
inline constexpr bool is_word = std::is_same_v<T, std::uint64_t>;

// The words of a span: the span itself if it consists of words, otherwise at most a block in `room`.
template <typename T>
const std::uint64_t* words(std::span<const T> items, std::uint64_t* room) noexcept {
  if constexpr (is_word<T>) {
    return items.data();
  } else {
    for (std::size_t i = 0; i < items.size(); ++i) room[i] = word_of(items[i]);
    return room;
  }
}

// Goes over the entries that a map had when the iterator was made. Copies share one position. `Next(rest, entry)`
// reads the next entry, if there is one.
template <typename Entry, typename Rest, auto Free, auto Next>
class iterator_of {
public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Entry;
  using difference_type = std::ptrdiff_t;

  iterator_of() = default;
  explicit iterator_of(Rest* rest) : rest_(rest, Free) { ++*this; }

  const value_type& operator*() const noexcept { return entry_; }
  const value_type* operator->() const noexcept { return &entry_; }

  iterator_of& operator++() {
    if (!Next(rest_.get(), entry_)) rest_.reset();
    return *this;
  }

  void operator++(int) { ++*this; }

  friend bool operator==(const iterator_of& at, std::default_sentinel_t) noexcept { return !at.rest_; }

private:
  std::shared_ptr<Rest> rest_;
  value_type entry_{};
};

template <typename K, typename V>
bool next_of_words(nunatak_iterator* rest, std::pair<K, V>& entry) {
  std::uint64_t key = 0, value = 0;
  if (!nunatak_iterator_next(rest, &key, &value)) return false;
  entry = {from<K>(key), from<V>(value)};
  return true;
}

template <typename K, typename V>
using iterator = iterator_of<std::pair<K, V>, nunatak_iterator, nunatak_iterator_free, next_of_words<K, V>>;

// Calls f(part, start) for parts of at most a block.
template <typename T, typename F>
void each_part(std::span<const T> items, F&& f) {
  for (std::size_t at = 0; at < items.size(); at += block)
    f(items.subspan(at, std::min(block, items.size() - at)), at);
}

// A map of the C library.
template <typename C, auto Free>
class owner {
public:
  using size_type = std::size_t;

  C* c_map() const noexcept { return map_.get(); }

protected:
  owner() = default;
  ~owner() = default;
  owner(owner&&) noexcept = default;
  owner& operator=(owner&&) noexcept = default;

  struct freed {
    void operator()(C* map) const noexcept { Free(map); }
  };

  std::unique_ptr<C, freed> map_;
};

// What maps in files can do besides.
template <typename C, auto Free, auto Sync, auto Verify, auto Failure, auto Backup, auto Close>
class handle : public owner<C, Free> {
public:
  using size_type = std::size_t;

  // Of a map in a file.
  void sync() const { check(Sync(map_.get())); }

  // Reads all of the file; returns how many entries there are.
  size_type verify() const {
    size_type entries = 0;
    check(Verify(map_.get(), &entries));
    return entries;
  }

  // The first error after which the file accepts no more changes, also of a sync in the background.
  std::optional<error> failure() const {
    const nunatak_status status = Failure(map_.get());
    if (status == NUNATAK_OK) return std::nullopt;
    return error(status, nunatak_last_error());
  }

  // Copies the entries of one moment to a new file; returns how many there are.
  size_type backup(const std::string& path) const {
    size_type entries = 0;
    check(Backup(map_.get(), path.c_str(), &entries));
    return entries;
  }

  // Closes the file. Afterwards the map can only be destroyed or assigned to; other calls throw.
  void close() { check(Close(map_.release())); }

protected:
  handle() = default;
  ~handle() = default;
  handle(handle&&) noexcept = default;
  handle& operator=(handle&&) noexcept = default;

  using owner<C, Free>::map_;
};

}  // namespace detail

}  // namespace nunatak

#endif  // NUNATAK_COMMON_HPP
