// nunatak::set: keys of at most 8 bytes.

#ifndef NUNATAK_SET_HPP
#define NUNATAK_SET_HPP

#include "map.hpp"

namespace nunatak {

// A concurrent set: a map whose values nobody looks at. In memory and in files it is such a map.
template <inline_key K>
class set {
public:
  using key_type = K;
  using value_type = K;
  using size_type = std::size_t;

  explicit set(nunatak_table table = NUNATAK_DEFAULT, size_type capacity = 0) : map_(table, capacity) {}
  explicit set(const file& at) : map_(at) {}

  set(std::initializer_list<K> keys, nunatak_table table = NUNATAK_DEFAULT) : map_(table) {
    for (const K& key : keys) insert(key);
  }

  // Adds a key; returns whether it was absent.
  bool insert(const K& key) { return map_.insert(key, 0); }
  bool emplace(const K& key) { return insert(key); }

  // Adds many keys, with overlapped cache misses; returns how many were absent.
  size_type insert(std::span<const K> keys) {
    const std::uint8_t values[detail::block] = {};
    size_type fresh = 0;
    for (size_type at = 0; at < keys.size(); at += detail::block) {
      const size_type len = std::min(detail::block, keys.size() - at);
      fresh += map_.insert_or_assign(keys.subspan(at, len), std::span<const std::uint8_t>(values, len));
    }
    return fresh;
  }

  bool contains(const K& key) const { return map_.contains(key); }
  size_type count(const K& key) const { return map_.count(key); }

  // Looks many keys up; returns how many are there. Bit i % 64 of present[i / 64] tells whether keys[i] is.
  size_type contains(std::span<const K> keys, std::span<std::uint64_t> present) const {
    if (present.size() < (keys.size() + 63) / 64) throw error(NUNATAK_INVALID, "the span for results is too short");
    std::uint8_t values[detail::block];
    size_type found = 0;
    for (size_type at = 0; at < keys.size(); at += detail::block) {
      const auto part = keys.subspan(at, std::min(detail::block, keys.size() - at));
      found += map_.get(part, std::span<std::uint8_t>(values), present.subspan(at / 64));
    }
    return found;
  }

  // Calls f(key) if the key is there; returns how often it did.
  template <std::invocable<const K&> F>
  size_type visit(const K& key, F&& f) const {
    return map_.visit(key, [&](const K& key, std::uint8_t) { std::invoke(f, key); });
  }

  // Calls f(key) for every key of a consistent cut; returns how many there were.
  template <std::invocable<const K&> F>
  size_type visit_all(F&& f) const {
    return map_.visit_all([&](const K& key, std::uint8_t) { std::invoke(f, key); });
  }

  // Removes a key; returns how many keys that were.
  size_type erase(const K& key) { return map_.erase(key); }

  // Removes every key for which pred(key) holds; returns how many.
  template <std::predicate<const K&> P>
  size_type erase_if(P&& pred) {
    return map_.erase_if([&](const K& key, std::uint8_t) { return std::invoke(pred, key); });
  }

  // The keys of one moment.
  std::vector<K> keys() const {
    std::vector<K> all;
    all.reserve(size());
    for (const auto& [key, value] : map_) all.push_back(key);
    return all;
  }

  friend bool operator==(const set& one, const set& other) { return one.map_ == other.map_; }

  size_type size() const noexcept { return map_.size(); }
  bool empty() const noexcept { return map_.empty(); }
  void clear() { map_.clear(); }
  void reserve(size_type additional) { map_.reserve(additional); }
  size_type memory() const noexcept { return map_.memory(); }

  // Of a set in a file.
  void sync() const { map_.sync(); }
  size_type verify() const { return map_.verify(); }
  std::optional<error> failure() const { return map_.failure(); }
  size_type backup(const std::string& path) const { return map_.backup(path); }
  void close() { map_.close(); }

  nunatak_map* c_map() const noexcept { return map_.c_map(); }

private:
  map<K, std::uint8_t> map_;
};

}  // namespace nunatak

#endif  // NUNATAK_SET_HPP
