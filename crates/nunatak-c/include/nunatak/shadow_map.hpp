// nunatak::shadow_map and nunatak::shadow_string_map: maps for transactions.

#ifndef NUNATAK_SHADOW_MAP_HPP
#define NUNATAK_SHADOW_MAP_HPP

#include "map.hpp"
#include "string_map.hpp"

namespace nunatak {

// A concurrent map in RAM in which a key can be inserted hidden, which locks it. When the transaction commits, the key
// is shown with its value; when it aborts, the key is removed.
//
//   nunatak::shadow_map<std::uint64_t, double> accounts;
//   auto account = accounts.shadow_insert(7);
//   if (!account) return account.status();        // NUNATAK_PRESENT or NUNATAK_SHADOWED
//   account.commit(100);
//
// The other functions are those of a map. They treat a hidden key as absent; those that would insert it throw an error
// whose status is NUNATAK_SHADOWED. None of them waits for a hidden key.
template <inline_key K, inline_value V>
class shadow_map : private map<K, V> {
  using base = map<K, V>;

public:
  using typename base::const_iterator, typename base::iterator, typename base::key_type, typename base::mapped_type,
    typename base::size_type, typename base::value_type;

  // A key that was inserted hidden, or why it could not be. It is aborted when this is destroyed. The map must live
  // longer.
  class [[nodiscard]] shadow {
  public:
    shadow(shadow&& other) noexcept
        : map_(std::exchange(other.map_, nullptr)), key_(other.key_), status_(other.status_) {}

    shadow& operator=(shadow&& other) noexcept {
      std::swap(map_, other.map_);
      std::swap(key_, other.key_);
      std::swap(status_, other.status_);
      return *this;
    }

    ~shadow() {
      if (map_) nunatak_map_abort_shadow(map_, detail::word_of(key_));
    }

    // Whether the key is hidden by this: until commit(), abort() or keep().
    explicit operator bool() const noexcept { return map_ != nullptr; }

    // NUNATAK_OK if the key was hidden, NUNATAK_PRESENT or NUNATAK_SHADOWED if not.
    nunatak_status status() const noexcept { return status_; }

    const K& key() const noexcept { return key_; }

    // Shows the key with its value.
    void commit(const V& value) {
      detail::check(nunatak_map_commit_shadow(taken(), detail::word_of(key_), detail::word_of(value)));
    }

    // Removes the key.
    void abort() { detail::check(nunatak_map_abort_shadow(taken(), detail::word_of(key_))); }

    // Leaves the key hidden: commit_shadow() or abort_shadow() of the map ends it, once.
    void keep() { taken(); }

  private:
    friend shadow_map;

    shadow(nunatak_map* map, const K& key, nunatak_status status) : map_(map), key_(key), status_(status) {}

    nunatak_map* taken() {
      if (!map_) throw error(NUNATAK_NOT_SHADOWED, "the key is not hidden by this shadow");
      return std::exchange(map_, nullptr);
    }

    nunatak_map* map_;
    K key_;
    nunatak_status status_;
  };

  // Keys that were inserted hidden together, or why none was.
  struct [[nodiscard]] shadows {
    std::vector<shadow> keys;
    nunatak_status status = NUNATAK_OK;
    // The index of the first key that is present or hidden.
    size_type refused = 0;

    explicit operator bool() const noexcept { return status == NUNATAK_OK; }
  };

  explicit shadow_map(size_type capacity = 0) : base(detail::adopted<nunatak_map>{made(capacity)}) {}

  shadow_map(shadow_map&&) noexcept = default;
  shadow_map& operator=(shadow_map&&) noexcept = default;

  // Inserts a key hidden.
  shadow shadow_insert(const K& key) {
    const nunatak_status status = nunatak_map_shadow_insert(c_map(), detail::word_of(key));
    return shadow(is_hidden(status) ? c_map() : nullptr, key, status);
  }

  // Inserts all keys hidden, in order, or none of them, with overlapped cache misses: for two-phase locking, in an order
  // that all transactions agree on.
  shadows shadow_insert(std::span<const K> keys) {
    std::vector<std::uint64_t> words(keys.size());
    std::transform(keys.begin(), keys.end(), words.begin(), detail::word_of<K>);
    shadows all;
    all.keys.reserve(keys.size());
    all.status = nunatak_map_shadow_insert_many(c_map(), words.data(), words.size(), &all.refused);
    if (is_hidden(all.status))
      for (const K& key : keys) all.keys.push_back(shadow(c_map(), key, NUNATAK_OK));
    return all;
  }

  // Shows a hidden key whose shadow was kept.
  void commit_shadow(const K& key, const V& value) {
    detail::check(nunatak_map_commit_shadow(c_map(), detail::word_of(key), detail::word_of(value)));
  }

  // Removes a hidden key whose shadow was kept.
  void abort_shadow(const K& key) { detail::check(nunatak_map_abort_shadow(c_map(), detail::word_of(key))); }

  using base::begin, base::c_map, base::clear, base::compare_exchange, base::compute, base::contains, base::count, base::cvisit,
    base::cvisit_all, base::cvisit_while, base::emplace, base::empty, base::end, base::erase, base::erase_if, base::extract,
    base::fetch_add, base::get, base::insert, base::insert_or_assign, base::insert_or_cvisit, base::insert_or_visit,
    base::load_factor, base::memory, base::reserve, base::shrink_to_fit, base::size, base::try_emplace,
    base::try_emplace_or_visit, base::update, base::visit, base::visit_all, base::visit_while;

private:
  static nunatak_map* made(size_type capacity) {
    nunatak_map* map = nullptr;
    detail::check(nunatak_map_new_shadow(capacity, &map));
    return map;
  }

  static bool is_hidden(nunatak_status status) {
    if (status != NUNATAK_PRESENT && status != NUNATAK_SHADOWED) detail::check(status);
    return status == NUNATAK_OK;
  }
};

// As shadow_map, for byte strings. A hidden entry is stored with its value, so that a commit needs no memory.
class shadow_string_map : private string_map {
public:
  using string_map::const_iterator, string_map::guard, string_map::iterator, string_map::key_type, string_map::mapped_type,
    string_map::size_type, string_map::value_type;

  // An entry that was inserted hidden, or why it could not be. It is aborted when this is destroyed. The map must live
  // longer.
  class [[nodiscard]] shadow {
  public:
    shadow(shadow&& other) noexcept
        : map_(std::exchange(other.map_, nullptr)), key_(std::move(other.key_)), status_(other.status_) {}

    shadow& operator=(shadow&& other) noexcept {
      std::swap(map_, other.map_);
      std::swap(key_, other.key_);
      std::swap(status_, other.status_);
      return *this;
    }

    ~shadow() {
      if (map_) nunatak_blob_map_abort_shadow(map_, detail::bytes(key_));
    }

    // Whether the entry is hidden by this: until commit(), abort() or keep().
    explicit operator bool() const noexcept { return map_ != nullptr; }

    // NUNATAK_OK if the entry was hidden, NUNATAK_PRESENT or NUNATAK_SHADOWED if not.
    nunatak_status status() const noexcept { return status_; }

    std::string_view key() const noexcept { return key_; }

    // Shows the entry.
    void commit() { detail::check(nunatak_blob_map_commit_shadow(taken(), detail::bytes(key_))); }

    // Removes the entry.
    void abort() { detail::check(nunatak_blob_map_abort_shadow(taken(), detail::bytes(key_))); }

    // Leaves the entry hidden: commit_shadow() or abort_shadow() of the map ends it, once.
    void keep() { taken(); }

  private:
    friend shadow_string_map;

    shadow(nunatak_blob_map* map, std::string key, nunatak_status status)
        : map_(map), key_(std::move(key)), status_(status) {}

    nunatak_blob_map* taken() {
      if (!map_) throw error(NUNATAK_NOT_SHADOWED, "the key is not hidden by this shadow");
      return std::exchange(map_, nullptr);
    }

    nunatak_blob_map* map_;
    std::string key_;
    nunatak_status status_;
  };

  explicit shadow_string_map(size_type capacity = 0) : string_map(made(nullptr, capacity)) {}

  // Entries are in memory of a resource: see string_map.
  explicit shadow_string_map(std::pmr::memory_resource* memory, size_type capacity = 0)
      : string_map(made(memory, capacity)) {}

  shadow_string_map(shadow_string_map&&) noexcept = default;
  shadow_string_map& operator=(shadow_string_map&&) noexcept = default;

  // Inserts an entry hidden.
  shadow shadow_insert(std::string_view key, std::string_view value) {
    std::string kept(key);
    const nunatak_status status = nunatak_blob_map_shadow_insert(c_map(), detail::bytes(key), detail::bytes(value));
    if (status != NUNATAK_PRESENT && status != NUNATAK_SHADOWED) detail::check(status);
    return shadow(status == NUNATAK_OK ? c_map() : nullptr, std::move(kept), status);
  }

  // Shows a hidden entry whose shadow was kept.
  void commit_shadow(std::string_view key) { detail::check(nunatak_blob_map_commit_shadow(c_map(), detail::bytes(key))); }

  // Removes a hidden entry whose shadow was kept.
  void abort_shadow(std::string_view key) { detail::check(nunatak_blob_map_abort_shadow(c_map(), detail::bytes(key))); }

  using string_map::begin, string_map::c_map, string_map::clear, string_map::compute, string_map::contains, string_map::count,
    string_map::emplace, string_map::empty, string_map::end, string_map::erase, string_map::erase_if, string_map::get,
    string_map::insert, string_map::insert_or_assign, string_map::memory, string_map::pin, string_map::reclaim,
    string_map::reserve, string_map::size, string_map::try_emplace, string_map::visit, string_map::visit_all,
    string_map::visit_while;

private:
  static detail::adopted<nunatak_blob_map> made(std::pmr::memory_resource* memory, size_type capacity) {
    nunatak_blob_map* map = nullptr;
    const nunatak_allocator allocator = detail::allocator_of(memory);
    detail::check(nunatak_blob_map_new_shadow(memory ? &allocator : nullptr, capacity, &map));
    return {map};
  }
};

}  // namespace nunatak

#endif  // NUNATAK_SHADOW_MAP_HPP
