// The properties that Boost's tests of concurrent_flat_map check, of the functions of the same names: written anew
// for this wrapper, group by group. Values are shown as copies here and callables may use the map, so what Boost
// says of references and of reentrancy does not apply.
#include "expect.hpp"

#include <nunatak.hpp>

#include <atomic>
#include <iostream>
#include <map>
#include <random>
#include <thread>
#include <vector>

// Keys and values of a type: numbers as they are, and numbers as text.
template <typename M>
struct items {
  using key = typename M::key_type;
  using value = typename M::mapped_type;
  static key key_of(unsigned number) { return static_cast<key>(number); }
  static value value_of(unsigned number) { return static_cast<value>(number); }
};

// Lives as long as the program, since a string_map's keys are views.
static const std::string& text_of(unsigned number) {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> made(1 << 14);
    for (unsigned i = 0; i < made.size(); ++i) made[i] = "a text that is number " + std::to_string(i);
    return made;
  }();
  return texts[number % texts.size()];
}

template <>
struct items<nunatak::string_map> {
  using key = std::string;
  using value = std::string;
  static std::string_view key_of(unsigned number) { return text_of(number); }
  static std::string_view value_of(unsigned number) { return text_of(number + 7); }
};

template <typename M>
using model_of = std::map<typename items<M>::key, typename items<M>::value>;

using numbers = std::vector<unsigned>;

// Numbers of which some come several times.
static numbers random_numbers(unsigned count, unsigned below) {
  std::mt19937 chance(count + below);
  numbers made(count);
  for (auto& number : made) number = chance() % below;
  return made;
}

// Runs f for all of them, in several threads that begin together, each its part.
template <typename F>
void in_threads(const numbers& all, F f) {
  constexpr unsigned count = 4;
  std::atomic<unsigned> ready = 0;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < count; ++thread)
    threads.emplace_back([&, thread] {
      ++ready;
      while (ready < count) std::this_thread::yield();
      for (std::size_t at = thread; at < all.size(); at += count) f(all[at]);
    });
  for (auto& thread : threads) thread.join();
}

template <typename M>
model_of<M> model(const numbers& all) {
  model_of<M> made;
  for (unsigned number : all)
    made.emplace(items<M>::key_of(number), items<M>::value_of(number));
  return made;
}

template <typename M>
M filled(const numbers& all, nunatak_table table) {
  M map(table);
  for (unsigned number : all) map.insert(items<M>::key_of(number), items<M>::value_of(number));
  return map;
}

template <typename M>
void expect_same(const M& map, const model_of<M>& expected) {
  EXPECT(map.size() == expected.size() && map.empty() == expected.empty());
  model_of<M> found;
  for (const auto& [key, value] : map)
    EXPECT(found.emplace(typename items<M>::key(key), typename items<M>::value(value)).second);
  EXPECT(found == expected);
  std::size_t visited = map.visit_all([&](const auto& key, const auto& value) {
    EXPECT(expected.at(typename items<M>::key(key)) == value);
  });
  EXPECT(visited == expected.size());
}

template <typename M>
void constructors(nunatak_table table) {
  using of = items<M>;
  const numbers all = random_numbers(3000, 2000);
  const auto expected = model<M>(all);
  expect_same(M(), {});
  expect_same(M(table, 1000), {});
  const M map = filled<M>(all, table);
  expect_same(map, expected);
  M copy(map);
  expect_same(copy, expected);
  EXPECT(copy == map && map == copy && copy.table() == table);
  copy.erase(of::key_of(all[0]));
  EXPECT(copy != map && map != copy && map.contains(of::key_of(all[0])));
  M moved(std::move(copy));
  EXPECT(moved.size() == expected.size() - 1);
  M list{{of::key_of(1), of::value_of(1)}, {of::key_of(2), of::value_of(2)}, {of::key_of(1), of::value_of(3)}};
  expect_same(list, model<M>({1, 2}));
  // Assignments.
  moved = map;
  expect_same(moved, expected);
  moved = *&moved;
  expect_same(moved, expected);
  list = std::move(moved);
  expect_same(list, expected);
  // Swaps.
  M other(table);
  other.insert(of::key_of(5), of::value_of(5));
  list = M(NUNATAK_DEFAULT);
  for (const auto& [key, value] : map) list.insert(key, value);
  const auto of_list = list.table();
  swap(list, other);
  expect_same(other, expected);
  EXPECT(list.table() == table && other.table() == of_list);
  list.swap(other);
  expect_same(list, expected);
  expect_same(other, model<M>({5}));
  list.clear();
  expect_same(list, {});
  list.insert(of::key_of(5), of::value_of(5));
  EXPECT(list == other);
  list.insert_or_assign(of::key_of(5), of::value_of(6));
  EXPECT(list != other);
}

template <typename M>
void inserts(nunatak_table table) {
  using of = items<M>;
  const numbers all = random_numbers(4000, 1500);
  const auto expected = model<M>(all);
  const auto run = [&](auto insert) {
    M map(table);
    std::atomic<std::size_t> fresh = 0;
    in_threads(all, [&](unsigned number) { fresh += insert(map, number); });
    EXPECT(fresh == expected.size());
    expect_same(map, expected);
  };
  run([](M& map, unsigned n) { return map.insert(of::key_of(n), of::value_of(n)); });
  run([](M& map, unsigned n) { return map.emplace(of::key_of(n), of::value_of(n)); });
  run([](M& map, unsigned n) { return map.try_emplace(of::key_of(n), of::value_of(n)); });
  run([](M& map, unsigned n) { return map.insert_or_assign(of::key_of(n), of::value_of(n)); });
  // A present value stays, except for insert_or_assign.
  M map = filled<M>(all, table);
  for (unsigned number : all) {
    EXPECT(!map.insert(of::key_of(number), of::value_of(number + 1)));
    EXPECT(!map.try_emplace(of::key_of(number), of::value_of(number + 1)));
  }
  expect_same(map, expected);
  in_threads(all, [&](unsigned n) { EXPECT(!map.insert_or_assign(of::key_of(n), of::value_of(n + 1))); });
  for (const auto& [key, value] : expected)
    EXPECT(map.visit(key, [&, &was = value](const auto&, const auto& now) { EXPECT(now != was); }) == 1);
  EXPECT(map.size() == expected.size());
}

template <typename M>
void visits(nunatak_table table) {
  using of = items<M>;
  const numbers all = random_numbers(4000, 1000);
  const M map = filled<M>(all, table);
  const auto expected = model<M>(all);
  std::atomic<std::size_t> present = 0, called = 0;
  in_threads(random_numbers(8000, 2000), [&](unsigned n) {
    const std::size_t found = map.visit(of::key_of(n), [&](const auto& key, const auto& value) {
      EXPECT(key == of::key_of(n) && value == of::value_of(n));
      ++called;
    });
    EXPECT(found == expected.count(typename of::key(of::key_of(n))));
    EXPECT(map.contains(of::key_of(n)) == (found == 1) && map.count(of::key_of(n)) == found);
    present += found;
  });
  EXPECT(present == called && called > 0);
  // Until it returns false.
  std::size_t steps = 0;
  EXPECT(map.visit_while([&](const auto&, const auto&) { return ++steps < 4000; }) && steps == expected.size());
  steps = 0;
  EXPECT(!map.visit_while([&](const auto&, const auto&) { return ++steps < 5; }) && steps == 5);
  // An exception comes out, and the map is as it was.
  struct thrown {};
  for (int kind = 0; kind < 3; ++kind) {
    bool caught = false;
    try {
      if (kind == 0) map.visit(of::key_of(all[0]), [](const auto&, const auto&) { throw thrown(); });
      if (kind == 1) map.visit_all([](const auto&, const auto&) { throw thrown(); });
      if (kind == 2) map.visit_while([](const auto&, const auto&) -> bool { throw thrown(); });
    } catch (const thrown&) {
      caught = true;
    }
    EXPECT(caught);
  }
  expect_same(map, expected);
}

template <typename M>
void erases(nunatak_table table) {
  using of = items<M>;
  const numbers all = random_numbers(4000, 1000);
  const auto expected = model<M>(all);
  M map = filled<M>(all, table);
  std::atomic<std::size_t> erased = 0;
  in_threads(all, [&](unsigned n) { erased += map.erase(of::key_of(n)); });
  EXPECT(erased == expected.size());
  expect_same(map, {});
  EXPECT(map.erase(of::key_of(1)) == 0);
  // By a predicate, of one key and of all.
  map = filled<M>(all, table);
  erased = 0;
  in_threads(all, [&](unsigned n) {
    const auto is_wanted = [&](const auto& key, const auto& value) {
      EXPECT(key == of::key_of(n) && value == of::value_of(n));
      return n % 2 == 0;
    };
    erased += map.erase_if(of::key_of(n), is_wanted);
  });
  numbers odd;
  for (unsigned number : all)
    if (number % 2) odd.push_back(number);
  expect_same(map, model<M>(odd));
  EXPECT(erased == expected.size() - map.size());
  const auto rest = map.size();
  EXPECT(map.erase_if([](const auto&, const auto&) { return false; }) == 0 && map.size() == rest);
  EXPECT(map.erase_if([](const auto&, const auto&) { return true; }) == rest && map.empty());
  struct thrown {};
  map = filled<M>(odd, table);
  bool caught = false;
  try {
    map.erase_if(of::key_of(odd[0]), [](const auto&, const auto&) -> bool { throw thrown(); });
  } catch (const thrown&) {
    caught = true;
  }
  EXPECT(caught);
  expect_same(map, model<M>(odd));
}

// Threads insert, erase and visit the same keys: each key's inserts and erases that took effect alternate.
template <typename M>
void all_at_once(nunatak_table table) {
  using of = items<M>;
  M map(table);
  constexpr unsigned keys = 64;
  std::atomic<int> balance[keys] = {};
  in_threads(random_numbers(20'000, keys * 4), [&](unsigned number) {
    const unsigned key = number % keys;
    switch (number / keys) {
      case 0: balance[key] += map.insert(of::key_of(key), of::value_of(key)); break;
      case 1: balance[key] -= static_cast<int>(map.erase(of::key_of(key))); break;
      case 2: balance[key] -= static_cast<int>(map.erase_if(of::key_of(key), [](const auto&, const auto&) { return true; })); break;
      default:
        map.visit(of::key_of(key), [&](const auto&, const auto& value) { EXPECT(value == of::value_of(key)); });
    }
  });
  for (unsigned key = 0; key < keys; ++key)
    EXPECT(balance[key] == static_cast<int>(map.count(of::key_of(key))));
}

template <typename M>
void every(nunatak_table table) {
  constructors<M>(table);
  inserts<M>(table);
  visits<M>(table);
  erases<M>(table);
  all_at_once<M>(table);
}

// What Boost has and only maps of numbers have here.
static void of_numbers(nunatak_table table) {
  using M = nunatak::map<std::uint64_t, std::uint32_t>;
  const numbers all = random_numbers(4000, 1500);
  const auto expected = model<M>(all);
  // Ranges.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> entries(expected.begin(), expected.end());
  M map(entries.begin(), entries.end(), table);
  expect_same(map, expected);
  EXPECT(map.insert(entries.begin(), entries.end()) == 0);
  EXPECT(map.insert({{1 << 20, 1}, {1 << 21, 2}, {1 << 20, 3}}) == 2 && map.size() == expected.size() + 2);
  map = {{7, 8}};
  EXPECT(map.size() == 1 && map.get(7) == 8);
  // insert_or_visit and its kin: either they insert, or they show what is there.
  const auto run = [&](auto insert) {
    M map(table);
    std::atomic<std::size_t> inserted = 0, visited = 0;
    in_threads(all, [&](unsigned n) {
      bool is_new = insert(map, n, [&](std::uint64_t key, std::uint32_t value) {
        EXPECT(key == n && value == n);
        ++visited;
      });
      inserted += is_new;
    });
    EXPECT(inserted == expected.size() && inserted + visited == all.size());
    expect_same(map, expected);
  };
  run([](M& map, unsigned n, auto f) { return map.insert_or_visit(n, n, f); });
  run([](M& map, unsigned n, auto f) { return map.insert_or_cvisit(n, n, f); });
  run([](M& map, unsigned n, auto f) { return map.try_emplace_or_visit(n, n, f); });
  // A bulk visit shows the keys that are there, in order.
  const std::vector<std::uint64_t> asked{5, 1 << 30, 5, entries.back().first};
  map = M(entries.begin(), entries.end(), table);
  std::vector<std::uint64_t> seen;
  const std::size_t found = map.visit(std::span<const std::uint64_t>(asked), [&](std::uint64_t key, std::uint32_t value) {
    EXPECT(value == expected.at(key));
    seen.push_back(key);
  });
  EXPECT(found == seen.size() && found == 1 + 2 * expected.count(5) && seen.back() == asked[3]);
  // Merges: what is absent here comes, and the rest stays there.
  M one(table), other(table);
  for (std::uint32_t n = 0; n < 2000; ++n) (n % 3 ? one : other).insert(n, n);
  for (std::uint32_t n = 0; n < 100; ++n) other.insert_or_assign(n, 7);
  const std::size_t before = one.size() + other.size();
  const std::size_t moved = one.merge(other);
  EXPECT(one.size() == 2000 && one.size() + other.size() == before && moved > 500);
  other.visit_all([&](std::uint64_t key, std::uint32_t value) { EXPECT(value == 7 && one.get(key) == key); });
  EXPECT(one.get(0) == 7 && one.merge(one) == 0 && one.size() == 2000);
  // Two threads merge into one map, and each entry comes once.
  M third(table), source(table);
  for (std::uint32_t n = 0; n < 3000; ++n) source.insert(n, n);
  std::atomic<std::size_t> all_moved = 0;
  in_threads({0, 1, 2, 3}, [&](unsigned) { all_moved += third.merge(source); });
  EXPECT(all_moved == 3000 && third.size() == 3000 && source.empty());
  EXPECT(nunatak::erase_if(third, [](std::uint64_t key, std::uint32_t) { return key < 1000; }) == 1000);
  third.reserve(10'000);
  EXPECT(third.size() == 2000);
}

int main() {
  for (nunatak_table table : {NUNATAK_DLHT, NUNATAK_ICEBERG, NUNATAK_PEA, NUNATAK_TURBO}) {
    every<nunatak::map<std::int16_t, float>>(table);
    every<nunatak::string_map>(table);
    of_numbers(table);
  }
  std::cout << "Boost's properties hold\n";
}
