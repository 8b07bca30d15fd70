// The map that many programs in C++ write themselves: Abseil's flat_hash_map in shards, each behind a mutex.
#include "huge_pages.hpp"
#include "peer.hpp"

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <mutex>
#include <utility>

namespace nunatak_peers {

class AbslSharded {
    using Map = absl::flat_hash_map<Word, Word, absl::Hash<Word>, std::equal_to<Word>,
                                    HugePages<std::pair<const Word, Word>>>;

    static constexpr std::size_t SHARD_BITS = 8, SHARDS = std::size_t{1} << SHARD_BITS;

    // Two cache lines, since x86-64 fetches them in pairs.
    struct alignas(128) Shard {
        mutable std::mutex lock;
        Map map;
    };

    std::unique_ptr<Shard[]> shards = std::make_unique<Shard[]>(SHARDS);

    // The tables hash by themselves, so this hash is not theirs.
    template <class Shards> static auto &shard(Shards &shards, Word key) {
        return shards[key * 0x9E3779B97F4A7C15 >> (64 - SHARD_BITS)];
    }

public:
    AbslSharded() = default;

    explicit AbslSharded(std::size_t capacity) {
        // The shards are not equally full: a sixteenth more, and a constant that matters for small shards.
        const std::size_t mean = capacity / SHARDS;
        for (std::size_t at = 0; at < SHARDS; at++) shards[at].map.reserve(mean + mean / 16 + 16);
    }

    std::size_t size() const {
        std::size_t all = 0;
        for (std::size_t at = 0; at < SHARDS; at++) {
            const std::lock_guard guard(shards[at].lock);
            all += shards[at].map.size();
        }
        return all;
    }

    template <class See> bool get(Word key, See &&see) const {
        const Shard &own = shard(shards, key);
        const std::lock_guard guard(own.lock);
        const auto found = own.map.find(key);
        if (found == own.map.end()) return false;
        see(found->second);
        return true;
    }

    bool insert(Word key, Word value) {
        Shard &own = shard(shards, key);
        const std::lock_guard guard(own.lock);
        return own.map.try_emplace(key, value).second;
    }

    template <class Change> bool insert_or(Word key, Word value, Change &&change) {
        Shard &own = shard(shards, key);
        const std::lock_guard guard(own.lock);
        const auto [entry, is_new] = own.map.try_emplace(key, value);
        if (!is_new) change(entry->second);
        return is_new;
    }

    template <class Change> bool change(Word key, Change &&change) {
        Shard &own = shard(shards, key);
        const std::lock_guard guard(own.lock);
        const auto found = own.map.find(key);
        if (found == own.map.end()) return false;
        change(found->second);
        return true;
    }

    template <class See> bool remove(Word key, See &&see) {
        Shard &own = shard(shards, key);
        const std::lock_guard guard(own.lock);
        const auto found = own.map.find(key);
        if (found == own.map.end()) return false;
        see(found->second);
        own.map.erase(found);
        return true;
    }
};

} // namespace nunatak_peers

extern "C" {
extern const nunatak_peers::Table nunatak_peer_absl;
constinit const nunatak_peers::Table nunatak_peer_absl =
    nunatak_peers::Functions<nunatak_peers::AbslSharded>::table();
}
