// oneTBB's concurrent_hash_map. Its nodes, of one entry each, are in a pool of oneTBB, whose memory is in huge
// pages.
#define TBB_PREVIEW_MEMORY_POOL 1

#include "huge_pages.hpp"
#include "peer.hpp"

#include <tbb/concurrent_hash_map.h>
#include <tbb/memory_pool.h>

#include <utility>

namespace nunatak_peers {

// A pool asks for memory by multiples of this.
struct Unit {
    char bytes[std::size_t{2} << 20];
};

class Tbb {
    using Pool = tbb::memory_pool<HugePages<Unit>>;
    using Allocator = tbb::memory_pool_allocator<std::pair<const Word, Word>>;
    using Map = tbb::concurrent_hash_map<Word, Word, tbb::tbb_hash_compare<Word>, Allocator>;

    // Before the map, which frees into it.
    Pool pool;
    Map map;

public:
    Tbb() : map(Allocator(pool)) {}
    explicit Tbb(std::size_t capacity) : map(capacity, Allocator(pool)) {}

    std::size_t size() const { return map.size(); }

    template <class See> bool get(Word key, See &&see) const {
        Map::const_accessor entry;
        if (!map.find(entry, key)) return false;
        see(entry->second);
        return true;
    }

    bool insert(Word key, Word value) { return map.insert(Map::value_type(key, value)); }

    template <class Change> bool insert_or(Word key, Word value, Change &&change) {
        Map::accessor entry;
        if (map.insert(entry, Map::value_type(key, value))) return true;
        change(entry->second);
        return false;
    }

    template <class Change> bool change(Word key, Change &&change) {
        Map::accessor entry;
        if (!map.find(entry, key)) return false;
        change(entry->second);
        return true;
    }

    // By the accessor, since erase(key) does not tell the value.
    template <class See> bool remove(Word key, See &&see) {
        Map::accessor entry;
        if (!map.find(entry, key)) return false;
        see(entry->second);
        return map.erase(entry);
    }
};

} // namespace nunatak_peers

extern "C" {
extern const nunatak_peers::Table nunatak_peer_tbb;
constinit const nunatak_peers::Table nunatak_peer_tbb = nunatak_peers::Functions<nunatak_peers::Tbb>::table();
}
