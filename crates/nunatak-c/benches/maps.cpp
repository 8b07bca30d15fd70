// What a call costs, beside other concurrent maps of C++: single operations, and batches.
//
//   cmake -S crates/nunatak-c -B build -DNUNATAK_BENCH=ON -DCMAKE_BUILD_TYPE=Release
//   cmake --build build && build/bench_maps [entries [threads]]
//
// Keys and values of 8 bytes. Threads share one map, and each has its own part of the keys. Maps whose headers are not
// found are left out; -DNUNATAK_BENCH_BOOST=DIRECTORY names the include directory of a Boost from 1.83 on. Every
// operation is checked: how many keys were new, found or removed, and the sum of the values.
#include <nunatak.hpp>

#if __has_include(<boost/unordered/concurrent_flat_map.hpp>)
#include <boost/unordered/concurrent_flat_map.hpp>
#define HAS_BOOST
#endif
#if __has_include(<libcuckoo/cuckoohash_map.hh>)
#include <libcuckoo/cuckoohash_map.hh>
#define HAS_CUCKOO
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef NUNATAK_BENCH_TBB
#include <tbb/concurrent_hash_map.h>
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

using word = std::uint64_t;
using keys_of = std::span<const word>;

// Spreads keys over all bits: maps that hash integers by themselves must not have it easier. No two keys have one hash.
struct hash {
  std::size_t operator()(word key) const noexcept {
    key ^= key >> 32;
    key *= 0xd6e8feb86659fd93;
    key ^= key >> 32;
    key *= 0xd6e8feb86659fd93;
    return key ^ key >> 32;
  }
};

struct measured {
  word sum;
  double nanoseconds;
};

// Runs f for a part of the keys in each thread; returns the sum of its results, and the time from the first thread's
// begin to the last one's end.
template <typename F>
measured in_threads(keys_of keys, std::size_t threads, F&& f) {
  using clock = std::chrono::steady_clock;
  std::vector<clock::time_point> begun(threads), ended(threads);
  std::vector<word> sums(threads);
  std::latch ready(static_cast<std::ptrdiff_t>(threads));
  const auto run = [&](std::size_t thread) {
    const std::size_t first = keys.size() * thread / threads, end = keys.size() * (thread + 1) / threads;
    ready.arrive_and_wait();
    begun[thread] = clock::now();
    sums[thread] = f(keys.subspan(first, end - first));
    ended[thread] = clock::now();
  };
  std::vector<std::thread> others;
  for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
  const std::chrono::duration<double, std::nano> taken =
    *std::max_element(ended.begin(), ended.end()) - *std::min_element(begun.begin(), begun.end());
  return {std::accumulate(sums.begin(), sums.end(), word{0}), taken.count()};
}

struct bench {
  std::vector<word> keys, asked;
  word asked_sum;
  std::size_t threads;

  // The best of some runs, in nanoseconds for each key. Ends the program if a run's sum is not the expected one.
  template <typename F>
  void row(const char* map, const char* operation, keys_of of, word expected, F&& run, int repetitions = 1) const {
    double best = 1e300;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      const auto [sum, nanoseconds] = in_threads(of, threads, run);
      if (sum != expected) {
        std::fprintf(stderr, "%s, %s: the sum is %llu instead of %llu\n", map, operation,
          static_cast<unsigned long long>(sum), static_cast<unsigned long long>(expected));
        std::exit(1);
      }
      best = std::min(best, nanoseconds / static_cast<double>(of.size()));
    }
    std::printf("| %s | %s | %.1f |\n", operation, map, best);
    std::fflush(stdout);
  }

  // Single operations: insert tells whether the key is new, erase whether it was there, get the value.
  template <typename Insert, typename Get, typename Erase>
  void singles(const char* map, Insert&& insert, Get&& get, Erase&& erase, auto&& while_full) const {
    const auto sum_of = [](auto& each) {
      return [&each](keys_of part) {
        word sum = 0;
        for (word key : part) sum += each(key);
        return sum;
      };
    };
    row(map, "insert", keys, keys.size(), sum_of(insert));
    row(map, "get", asked, asked_sum, sum_of(get), 3);
    while_full();
    row(map, "erase", keys, keys.size(), sum_of(erase));
  }
};

void of_nunatak(const bench& bench, nunatak_table table, const char* name) {
  {
    nunatak::map<word, word> map(table);
    bench.singles(
      name, [&](word key) { return map.insert_or_assign(key, key); }, [&](word key) { return map.get(key).value_or(0); },
      [&](word key) { return map.erase(key); },
      [&] {
        bench.row(name, "batched get", bench.asked, bench.asked_sum, [&](keys_of part) {
          word sum = 0;
          map.visit(part, [&](word, word value) { sum += value; });
          return sum;
        }, 3);
      });
  }
  nunatak::map<word, word> other(table);
  bench.row(name, "batched insert", bench.keys, bench.keys.size(),
    [&](keys_of part) { return other.insert_or_assign(part, part); });
}

#ifdef HAS_BOOST
void of_boost(const bench& bench) {
  boost::concurrent_flat_map<word, word, hash> map;
  bench.singles(
    "boost", [&](word key) { return map.insert_or_assign(key, key); },
    [&](word key) {
      word found = 0;
      map.cvisit(key, [&](const auto& entry) { found = entry.second; });
      return found;
    },
    [&](word key) { return map.erase(key); },
    [&] {
      bench.row("boost", "batched get", bench.asked, bench.asked_sum, [&](keys_of part) {
        word sum = 0;
        constexpr std::size_t bulk = 256;
        for (std::size_t at = 0; at < part.size(); at += bulk) {
          const auto some = part.subspan(at, std::min(bulk, part.size() - at));
          map.cvisit(some.begin(), some.end(), [&](const auto& entry) { sum += entry.second; });
        }
        return sum;
      }, 3);
    });
}
#endif

#ifdef HAS_CUCKOO
void of_cuckoo(const bench& bench) {
  libcuckoo::cuckoohash_map<word, word, hash> map;
  bench.singles(
    "libcuckoo", [&](word key) { return map.insert_or_assign(key, key); },
    [&](word key) {
      word value = 0;
      return map.find(key, value) ? value : 0;
    },
    [&](word key) { return map.erase(key); }, [] {});
}
#endif

#ifdef NUNATAK_BENCH_TBB
void of_tbb(const bench& bench) {
  struct compare {
    static std::size_t hash(word key) { return ::hash{}(key); }
    static bool equal(word one, word other) { return one == other; }
  };
  using table = tbb::concurrent_hash_map<word, word, compare>;
  table map;
  bench.singles(
    "oneTBB", [&](word key) { return map.insert({key, key}); },
    [&](word key) {
      table::const_accessor found;
      return map.find(found, key) ? found->second : 0;
    },
    [&](word key) { return map.erase(key); }, [] {});
}
#endif

// Touches as much memory as a growing map may need, and frees it. A hypervisor that takes free pages back returns them slowly
// (3.4 s a GiB instead of 0.1), and the first map would wait for it.
void back_free_memory([[maybe_unused]] std::size_t entries) {
#ifdef __linux__
  const std::size_t page = 4096, bytes = entries * 256;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  // Maps in huge pages must find backed ones.
  madvise(memory, bytes, MADV_HUGEPAGE);
  for (std::size_t at = 0; at < bytes; at += page) static_cast<volatile char*>(memory)[at] = 1;
  munmap(memory, bytes);
#endif
}

// A number above zero.
std::size_t number(const char* text) {
  char* end = nullptr;
  const auto number = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != 0 || number == 0) {
    std::fprintf(stderr, "usage: bench_maps [entries [threads]]\n");
    std::exit(2);
  }
  return number;
}

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? number(argv[1]) : 10'000'000;
  bench bench{std::vector<word>(count), std::vector<word>(count), 0, argc > 2 ? number(argv[2]) : 1};
  // Different keys in no order, and none of them zero.
  for (std::size_t at = 0; at < count; ++at) bench.keys[at] = hash{}(at + 1);
  std::mt19937_64 chance(1);
  for (auto& key : bench.asked) key = bench.keys[chance() % count];
  bench.asked_sum = std::accumulate(bench.asked.begin(), bench.asked.end(), word{0});
  std::printf("%zu entries, %zu threads, nanoseconds for each key\n\n| operation | map | ns |\n|---|---|--:|\n", count, bench.threads);
  back_free_memory(count);
  of_nunatak(bench, NUNATAK_DLHT, "nunatak dlht");
  back_free_memory(count);
  of_nunatak(bench, NUNATAK_ICEBERG, "nunatak iceberg");
#ifdef HAS_BOOST
  back_free_memory(count);
  of_boost(bench);
#endif
#ifdef HAS_CUCKOO
  back_free_memory(count);
  of_cuckoo(bench);
#endif
#ifdef NUNATAK_BENCH_TBB
  back_free_memory(count);
  of_tbb(bench);
#endif
}
