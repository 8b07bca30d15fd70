// Boost's concurrent_flat_map: Boost 1.83 or later; with its bulk visit: 1.84 or later.
#include "huge_pages.hpp"
#include "peer.hpp"

#include <boost/unordered/concurrent_flat_map.hpp>
#include <boost/version.hpp>

#include <functional>
#include <utility>

namespace nunatak_peers {

class Boost {
    using Map = boost::concurrent_flat_map<Word, Word, boost::hash<Word>, std::equal_to<Word>,
                                           HugePages<std::pair<const Word, Word>>>;
    Map map;

public:
    Boost() = default;
    explicit Boost(std::size_t capacity) : map(capacity) {}

    std::size_t size() const { return map.size(); }

    template <class See> bool get(Word key, See &&see) const {
        return map.cvisit(key, [&](const auto &entry) { see(entry.second); }) != 0;
    }

    bool insert(Word key, Word value) { return map.emplace(key, value); }

    template <class Change> bool insert_or(Word key, Word value, Change &&change) {
        return map.emplace_or_visit(key, value, [&](auto &entry) { change(entry.second); });
    }

    template <class Change> bool change(Word key, Change &&change) {
        return map.visit(key, [&](auto &entry) { change(entry.second); }) != 0;
    }

    template <class See> bool remove(Word key, See &&see) {
        return map.erase_if(key, [&](auto &entry) {
            see(entry.second);
            return true;
        }) != 0;
    }

#if BOOST_VERSION >= 108400
    template <class See> void visit_many(const Word *keys, std::size_t count, See &&see) const {
        map.cvisit(keys, keys + count, [&](const auto &entry) { see(entry.first, entry.second); });
    }
#endif
};

} // namespace nunatak_peers

extern "C" {
extern const nunatak_peers::Table nunatak_peer_boost;
constinit const nunatak_peers::Table nunatak_peer_boost =
    nunatak_peers::Functions<nunatak_peers::Boost>::table();
}
