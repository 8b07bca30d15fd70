// What a call costs, beside other concurrent maps of C++: single operations, and batches.
//
//   cmake -S crates/nunatak-c -B build -DNUNATAK_BENCH=ON -DCMAKE_BUILD_TYPE=Release
//   cmake --build build && build/bench_maps [entries]
//
// Maps whose headers are not installed are left out. One thread; keys and values of 8 bytes.
#include <nunatak.hpp>

#if __has_include(<boost/unordered/concurrent_flat_map.hpp>)
#include <boost/unordered/concurrent_flat_map.hpp>
#define HAS_BOOST
#endif
#if __has_include(<libcuckoo/cuckoohash_map.hh>)
#include <libcuckoo/cuckoohash_map.hh>
#define HAS_CUCKOO
#endif
#ifdef NUNATAK_BENCH_TBB
#include <tbb/concurrent_hash_map.h>
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

using word = std::uint64_t;

// Spreads keys over all bits: maps that hash integers by themselves must not have it easier.
struct hash {
  std::size_t operator()(word key) const noexcept {
    key ^= key >> 32;
    key *= 0xd6e8feb86659fd93;
    key ^= key >> 32;
    key *= 0xd6e8feb86659fd93;
    return key ^ key >> 32;
  }
};

static volatile word sink;

// The best of three runs, in nanoseconds for each key.
template <typename F>
void row(const char* map, const char* operation, std::size_t count, F&& run, int repetitions = 3) {
  double best = 1e300;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto began = std::chrono::steady_clock::now();
    sink = run();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - began;
    best = std::min(best, taken.count() / count);
  }
  std::printf("| %s | %s | %.1f |\n", operation, map, best);
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  std::vector<word> keys(count), asked(count);
  std::mt19937_64 chance(1);
  for (auto& key : keys) key = chance();
  for (auto& key : asked) key = keys[chance() % count];
  std::printf("%zu entries, nanoseconds for each key\n\n| operation | map | ns |\n|---|---|--:|\n", count);

  for (auto [table, name] : {std::pair{NUNATAK_DLHT, "nunatak dlht"}, std::pair{NUNATAK_ICEBERG, "nunatak iceberg"}}) {
    nunatak::map<word, word> map(table);
    row(name, "insert", count, [&] {
      for (word key : keys) map.insert_or_assign(key, key);
      return map.size();
    }, 1);
    row(name, "get", count, [&] {
      word sum = 0;
      for (word key : asked) sum += map.get(key).value_or(0);
      return sum;
    });
    row(name, "batched get", count, [&] {
      word sum = 0;
      map.visit(std::span<const word>(asked), [&](word, word value) { sum += value; });
      return sum;
    });
    row(name, "erase", count, [&] {
      word sum = 0;
      for (word key : keys) sum += map.erase(key);
      return sum;
    }, 1);
    row(name, "batched insert", count, [&] {
      nunatak::map<word, word> other(table);
      return other.insert_or_assign(std::span<const word>(keys), std::span<const word>(keys));
    }, 1);
  }
#ifdef HAS_BOOST
  {
    boost::concurrent_flat_map<word, word, hash> map;
    row("boost", "insert", count, [&] {
      for (word key : keys) map.insert_or_assign(key, key);
      return map.size();
    }, 1);
    row("boost", "get", count, [&] {
      word sum = 0;
      for (word key : asked) map.cvisit(key, [&](const auto& entry) { sum += entry.second; });
      return sum;
    });
    row("boost", "batched get", count, [&] {
      word sum = 0;
      constexpr std::size_t bulk = 256;
      for (std::size_t at = 0; at < asked.size(); at += bulk)
        map.cvisit(asked.begin() + at, asked.begin() + std::min(asked.size(), at + bulk),
                   [&](const auto& entry) { sum += entry.second; });
      return sum;
    });
    row("boost", "erase", count, [&] {
      word sum = 0;
      for (word key : keys) sum += map.erase(key);
      return sum;
    }, 1);
  }
#endif
#ifdef HAS_CUCKOO
  {
    libcuckoo::cuckoohash_map<word, word, hash> map;
    row("libcuckoo", "insert", count, [&] {
      for (word key : keys) map.insert_or_assign(key, key);
      return map.size();
    }, 1);
    row("libcuckoo", "get", count, [&] {
      word sum = 0, value = 0;
      for (word key : asked)
        if (map.find(key, value)) sum += value;
      return sum;
    });
    row("libcuckoo", "erase", count, [&] {
      word sum = 0;
      for (word key : keys) sum += map.erase(key);
      return sum;
    }, 1);
  }
#endif
#ifdef NUNATAK_BENCH_TBB
  {
    struct compare {
      static std::size_t hash(word key) { return ::hash{}(key); }
      static bool equal(word one, word other) { return one == other; }
    };
    using table = tbb::concurrent_hash_map<word, word, compare>;
    table map;
    row("oneTBB", "insert", count, [&] {
      for (word key : keys) map.insert({key, key});
      return map.size();
    }, 1);
    row("oneTBB", "get", count, [&] {
      word sum = 0;
      for (word key : asked) {
        table::const_accessor found;
        if (map.find(found, key)) sum += found->second;
      }
      return sum;
    });
    row("oneTBB", "erase", count, [&] {
      word sum = 0;
      for (word key : keys) sum += map.erase(key);
      return sum;
    }, 1);
  }
#endif
}
