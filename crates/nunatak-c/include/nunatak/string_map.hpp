// nunatak::string_map: byte strings.

#ifndef NUNATAK_STRING_MAP_HPP
#define NUNATAK_STRING_MAP_HPP

#include "common.hpp"

#include <memory_resource>

namespace nunatak {

namespace detail {

inline bool next_of_strings(nunatak_blob_iterator* rest, std::pair<std::string_view, std::string_view>& entry) {
  nunatak_bytes key{}, value{};
  if (!nunatak_blob_iterator_next(rest, &key, &value)) return false;
  entry = {view(key), view(value)};
  return true;
}

// The functions of a memory resource for C.
inline nunatak_allocator allocator_of(std::pmr::memory_resource* memory) noexcept {
  const nunatak_allocate allocate = [](void* context, std::size_t size, std::size_t alignment) noexcept -> void* {
    try {
      return static_cast<std::pmr::memory_resource*>(context)->allocate(size, alignment);
    } catch (...) {
      return nullptr;
    }
  };
  const nunatak_deallocate deallocate = [](void* context, void* place, std::size_t size, std::size_t alignment) noexcept {
    static_cast<std::pmr::memory_resource*>(context)->deallocate(place, size, alignment);
  };
  return {memory, allocate, deallocate};
}

}  // namespace detail

// A concurrent map whose keys and values are byte strings.
class string_map : public detail::handle<nunatak_blob_map, nunatak_blob_map_free, nunatak_blob_map_sync, nunatak_blob_map_verify,
    nunatak_blob_map_failure, nunatak_blob_map_backup, nunatak_blob_map_close> {
public:
  using key_type = std::string_view;
  using mapped_type = std::string_view;
  using value_type = std::pair<const std::string_view, std::string_view>;

  explicit string_map(nunatak_table table = NUNATAK_DEFAULT, size_type capacity = 0) : table_(table) {
    nunatak_blob_map* made = nullptr;
    detail::check(nunatak_blob_map_new(table, capacity, &made));
    map_.reset(made);
  }

  // A map in RAM whose entries are in memory of a resource, which threads must be able to share, such as a
  // std::pmr::synchronized_pool_resource. The resource must live longer than the map. A copy of the map is in memory
  // of its own.
  explicit string_map(std::pmr::memory_resource* memory, nunatak_table table = NUNATAK_DEFAULT, size_type capacity = 0)
      : table_(table) {
    nunatak_blob_map* made = nullptr;
    const nunatak_allocator allocator = detail::allocator_of(memory ? memory : std::pmr::get_default_resource());
    detail::check(nunatak_blob_map_new_in(&allocator, table, capacity, &made));
    map_.reset(made);
  }

  explicit string_map(const file& at) : table_(at.table) {
    nunatak_blob_map* made = nullptr;
    const nunatak_file_options options = at.options();
    detail::check(nunatak_blob_map_open(at.path.c_str(), &options, &made));
    map_.reset(made);
  }

  string_map(std::initializer_list<value_type> entries, nunatak_table table = NUNATAK_DEFAULT) : string_map(table) {
    for (const auto& [key, value] : entries) insert(key, value);
  }

  // A map in RAM with the entries of one moment.
  string_map(const string_map& other) : string_map(other.table_, other.size()) {
    for (const auto& [key, value] : other) insert(key, value);
  }

  string_map(string_map&& other) noexcept = default;

  string_map& operator=(const string_map& other) {
    string_map(other).swap(*this);
    return *this;
  }

  string_map& operator=(string_map&& other) noexcept = default;

  void swap(string_map& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(table_, other.table_);
  }

  friend void swap(string_map& one, string_map& other) noexcept { one.swap(other); }

  // Goes over the entries of one moment, which are copied when begin() is called. Copies share one position, and
  // what they show is valid until the next step.
  using iterator = detail::iterator_of<std::pair<std::string_view, std::string_view>, nunatak_blob_iterator,
                                       nunatak_blob_iterator_free, detail::next_of_strings>;
  using const_iterator = iterator;

  iterator begin() const {
    nunatak_blob_iterator* made = nullptr;
    detail::check(nunatak_blob_map_iterate(map_.get(), &made));
    return iterator(made);
  }

  std::default_sentinel_t end() const noexcept { return {}; }

  // Whether the entries of two moments are equal: one of this map, and a later one of the other.
  friend bool operator==(const string_map& one, const string_map& other) {
    size_type entries = 0;
    for (const auto& [key, value] : one) {
      bool is_equal = false;
      other.visit(key, [&, &expected = value](std::string_view, std::string_view found) { is_equal = found == expected; });
      if (!is_equal) return false;
      ++entries;
    }
    return entries == other.size();
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

  // Keeps the values that are found through it, in the map's own memory. The thread that made it uses it, and the
  // map must live longer. Memory that other threads free waits for it.
  class guard {
  public:
    // The value; it is valid while the guard lives, whatever happens to the key.
    std::optional<std::string_view> get(std::string_view key) const {
      nunatak_bytes value{};
      bool found = false;
      detail::check(nunatak_blob_guard_get(guard_.get(), detail::bytes(key), &value, &found));
      if (!found) return std::nullopt;
      return detail::view(value);
    }

  private:
    friend class string_map;

    struct freed {
      void operator()(nunatak_blob_guard* guard) const noexcept { nunatak_blob_guard_free(guard); }
    };

    std::unique_ptr<nunatak_blob_guard, freed> guard_;
  };

  guard pin() const {
    nunatak_blob_guard* made = nullptr;
    detail::check(nunatak_blob_map_pin(map_.get(), &made));
    guard pinned;
    pinned.guard_.reset(made);
    return pinned;
  }

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

  // Calls f(key, value) for the entries of a consistent cut until it returns false; returns whether it never did.
  template <std::predicate<std::string_view, std::string_view> F>
  bool visit_while(F&& f) const {
    for (const auto& [key, value] : *this)
      if (!std::invoke(f, key, value)) return false;
    return true;
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

  // Removes every entry for which pred(key, value) holds; returns how many.
  template <std::predicate<std::string_view, std::string_view> P>
  size_type erase_if(P&& pred) {
    size_type erased = 0;
    for (const auto& [key, value] : *this) erased += erase_if(key, pred);
    return erased;
  }

  size_type size() const noexcept { return nunatak_blob_map_len(map_.get()); }
  bool empty() const noexcept { return size() == 0; }

  // The table that was asked for.
  nunatak_table table() const noexcept { return table_; }

  void clear() { detail::check(nunatak_blob_map_clear(map_.get())); }
  void reserve(size_type additional) { detail::check(nunatak_blob_map_reserve(map_.get(), additional)); }
  size_type memory() const noexcept { return nunatak_blob_map_memory(map_.get()); }

  // Gives back the memory of removed and replaced entries that no guard can see any more; returns how many bytes wait
  // for guards. A map does so by itself from time to time.
  size_type reclaim() {
    size_type waiting = 0;
    detail::check(nunatak_blob_map_reclaim(map_.get(), &waiting));
    return waiting;
  }

protected:
  explicit string_map(detail::adopted<nunatak_blob_map> of) { map_.reset(of.map); }

private:
  // What a copy is made of.
  nunatak_table table_ = NUNATAK_DEFAULT;
};

}  // namespace nunatak

#endif  // NUNATAK_STRING_MAP_HPP
