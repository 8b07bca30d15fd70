// What Rust calls of a map: whole loops over arrays of keys, which also check every outcome, and single
// operations for what is not measured.
//
// A map is a class with
//
//   Map(), Map(capacity)                     as the library makes them
//   size()
//   get(key, see)                            calls see with the value; says whether the key is there
//   insert(key, value)                       keeps a present value; says whether the key was absent
//   insert_or(key, value, change)            the same, but calls change with the present value
//   change(key, change)                      calls change with the present value; says whether there is one
//   remove(key, see)                         calls see with the removed value; says whether there was one
//   visit_many(keys, count, see)             optional: calls see with each present key and its value
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

namespace nunatak_peers {

using Word = std::uint64_t;

// What a loop does with a key. The numbers are those of the enum in Rust.
enum class Step : std::uint8_t { Get, Miss, Insert, Update, Modify, Remove, InsertAndRemove };

// A value follows from its key, but for a version in the lowest bits.
constexpr Word VERSION = 0xFF;

constexpr Word value_of(Word key) { return std::rotl(key ^ 0x9E3779B97F4A7C15, 29) & ~VERSION; }

constexpr bool is_value_of(Word value, Word key) { return ((value ^ value_of(key)) & ~VERSION) == 0; }

// The functions of a map. The struct is the same in Rust.
struct Table {
    void *(*create)(std::size_t capacity);
    void (*destroy)(void *map);
    std::size_t (*size)(const void *map);
    bool (*get)(const void *map, Word key, Word *value);
    bool (*insert)(void *map, Word key, Word value, Word *replaced);
    bool (*modify)(void *map, Word key, Word (*change)(void *context, Word value), void *context);
    bool (*remove)(void *map, Word key, Word *removed);
    // These return how many operations went wrong.
    std::size_t (*run)(void *map, Step step, const Word *keys, std::size_t count, Word version);
    std::size_t (*run_each)(void *map, const Step *steps, const Word *keys, std::size_t count, Word version);
    // Null if the map has no operation on many keys.
    std::size_t (*get_many)(const void *map, Step step, const Word *keys, std::size_t count);
};

// Returns whether the operation went right.
template <Step STEP, class Map> inline bool runs(Map &map, Word key, Word version) {
    bool right = true;
    const auto check = [&](Word value) { right = is_value_of(value, key); };
    if constexpr (STEP == Step::Get) {
        return map.get(key, check) && right;
    } else if constexpr (STEP == Step::Miss) {
        return !map.get(key, check);
    } else if constexpr (STEP == Step::Insert) {
        return map.insert(key, value_of(key));
    } else if constexpr (STEP == Step::Update) {
        return map.change(key, [&](Word &value) { value = value_of(key) | (version & VERSION); });
    } else if constexpr (STEP == Step::Modify) {
        return map.change(key, [](Word &value) { value = (value & ~VERSION) | ((value + 1) & VERSION); });
    } else if constexpr (STEP == Step::Remove) {
        return map.remove(key, check) && right;
    } else {
        return map.insert(key, value_of(key)) & map.remove(key, check) && right;
    }
}

// Calls use with the step as a constant.
template <class Use> inline std::size_t with_step(Step step, Use &&use) {
    switch (step) {
    case Step::Get: return use.template operator()<Step::Get>();
    case Step::Miss: return use.template operator()<Step::Miss>();
    case Step::Insert: return use.template operator()<Step::Insert>();
    case Step::Update: return use.template operator()<Step::Update>();
    case Step::Modify: return use.template operator()<Step::Modify>();
    case Step::Remove: return use.template operator()<Step::Remove>();
    case Step::InsertAndRemove: break;
    }
    return use.template operator()<Step::InsertAndRemove>();
}

// All functions are noexcept: an exception (memory has run out) ends the process, as in Rust.
template <class Map> struct Functions {
    static Map &of(void *map) { return *static_cast<Map *>(map); }
    static const Map &of(const void *map) { return *static_cast<const Map *>(map); }

    static void *create(std::size_t capacity) noexcept {
        try {
            return capacity > 0 ? new Map(capacity) : new Map();
        } catch (const std::bad_alloc &) {
            return nullptr;
        }
    }

    static void destroy(void *map) noexcept { delete &of(map); }

    static std::size_t size(const void *map) noexcept { return of(map).size(); }

    static bool get(const void *map, Word key, Word *value) noexcept {
        return of(map).get(key, [&](Word found) { *value = found; });
    }

    static bool insert(void *map, Word key, Word value, Word *replaced) noexcept {
        return of(map).insert_or(key, value, [&](Word &present) {
            *replaced = present;
            present = value;
        });
    }

    static bool modify(void *map, Word key, Word (*change)(void *, Word), void *context) noexcept {
        return of(map).change(key, [&](Word &value) { value = change(context, value); });
    }

    static bool remove(void *map, Word key, Word *removed) noexcept {
        return of(map).remove(key, [&](Word value) { *removed = value; });
    }

    static std::size_t run(void *map, Step step, const Word *keys, std::size_t count, Word version) noexcept {
        return with_step(step, [&]<Step STEP>() {
            std::size_t wrong = 0;
            for (std::size_t at = 0; at < count; at++) wrong += !runs<STEP>(of(map), keys[at], version);
            return wrong;
        });
    }

    static std::size_t run_each(void *map, const Step *steps, const Word *keys, std::size_t count,
                                Word version) noexcept {
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < count; at++) {
            wrong += with_step(steps[at], [&]<Step STEP>() -> std::size_t {
                return !runs<STEP>(of(map), keys[at], version);
            });
        }
        return wrong;
    }

    // The visits come in any order, so the keys are compared by their sum.
    static std::size_t get_many(const void *map, Step step, const Word *keys, std::size_t count) noexcept {
        std::size_t found = 0, wrong = 0;
        Word sum = 0;
        of(map).visit_many(keys, count, [&](Word key, Word value) {
            found++;
            sum += key;
            wrong += !is_value_of(value, key);
        });
        if (step == Step::Miss) return found;
        for (std::size_t at = 0; at < count; at++) sum -= keys[at];
        return wrong + (found != count || sum != 0);
    }

    static constexpr auto pointer_to_get_many() -> decltype(Table::get_many) {
        constexpr bool has_it = requires(const Map &map, const Word *keys, void (*see)(Word, Word)) {
            map.visit_many(keys, std::size_t{}, see);
        };
        if constexpr (has_it) {
            return get_many;
        } else {
            return nullptr;
        }
    }

    static constexpr Table table() {
        return {create, destroy, size, get, insert, modify, remove, run, run_each, pointer_to_get_many()};
    }
};

} // namespace nunatak_peers
