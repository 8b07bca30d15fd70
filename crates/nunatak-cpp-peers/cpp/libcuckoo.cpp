// libcuckoo's cuckoohash_map.
#include "huge_pages.hpp"
#include "peer.hpp"

#include <libcuckoo/cuckoohash_map.hh>

#include <functional>
#include <utility>

namespace nunatak_peers {

class Libcuckoo {
    using Map = libcuckoo::cuckoohash_map<Word, Word, std::hash<Word>, std::equal_to<Word>,
                                          HugePages<std::pair<const Word, Word>>>;
    Map map;

public:
    Libcuckoo() = default;
    explicit Libcuckoo(std::size_t capacity) : map(capacity) {}

    std::size_t size() const { return map.size(); }

    template <class See> bool get(Word key, See &&see) const {
        return map.find_fn(key, [&](const Word &value) { see(value); });
    }

    bool insert(Word key, Word value) { return map.insert(key, value); }

    template <class Change> bool insert_or(Word key, Word value, Change &&change) {
        return map.upsert(key, [&](Word &present) { change(present); }, value);
    }

    template <class Change> bool change(Word key, Change &&change) {
        return map.update_fn(key, [&](Word &value) { change(value); });
    }

    template <class See> bool remove(Word key, See &&see) {
        return map.erase_fn(key, [&](Word &value) {
            see(value);
            return true;
        });
    }
};

} // namespace nunatak_peers

extern "C" {
extern const nunatak_peers::Table nunatak_peer_libcuckoo;
constinit const nunatak_peers::Table nunatak_peer_libcuckoo =
    nunatak_peers::Functions<nunatak_peers::Libcuckoo>::table();
}
