// The C++ interface: what Boost's tests of concurrent_flat_map say of the functions of the same names, and
// what is ours.
#include "expect.hpp"

#include <nunatak.hpp>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <thread>
#include <vector>

template <typename F>
nunatak_status status_of(F&& f) {
  try {
    f();
  } catch (const nunatak::error& error) {
    EXPECT(error.what()[0] != 0);
    return error.status();
  }
  return NUNATAK_OK;
}

struct point {
  std::int16_t x, y;
  friend bool operator==(point, point) = default;
  friend auto operator<=>(point, point) = default;
};

template <typename K, typename V, typename MakeK, typename MakeV>
void agrees_with_std(nunatak_table table, MakeK make_key, MakeV make_value) {
  nunatak::map<K, V> map(table);
  std::map<K, V> model;
  std::mt19937 chance(7);
  for (int step = 0; step < 20'000; ++step) {
    const K key = make_key(chance() % 500);
    const V value = make_value(chance() % 1000);
    const auto there = model.find(key);
    const bool is_there = there != model.end();
    switch (chance() % 8) {
      case 0: EXPECT(map.insert_or_assign(key, value) == !is_there); model[key] = value; break;
      case 1: EXPECT(map.try_emplace(key, value) == !is_there); model.emplace(key, value); break;
      case 2: EXPECT(map.erase(key) == (is_there ? 1 : 0)); model.erase(key); break;
      case 3: EXPECT(map.get(key) == (is_there ? std::optional(there->second) : std::nullopt)); break;
      case 4: {
        std::size_t seen = map.visit(key, [&](const K& k, const V& v) { EXPECT(k == key && v == there->second); });
        EXPECT(seen == (is_there ? 1u : 0u));
        break;
      }
      case 5: {
        std::size_t erased = map.erase_if(key, [&](const K&, const V& v) { return v == make_value(3); });
        EXPECT(erased == (is_there && there->second == make_value(3) ? 1u : 0u));
        if (erased) model.erase(key);
        break;
      }
      case 6:
        map.compute(key, [&](std::optional<V>& entry) {
          EXPECT(entry.has_value() == is_there);
          entry = value;
        });
        model[key] = value;
        break;
      case 7:
        EXPECT(map.update(key, value).has_value() == is_there);
        if (is_there) there->second = value;
        break;
    }
    EXPECT(map.size() == model.size());
  }
  std::map<K, V> seen;
  EXPECT(map.visit_all([&](const K& k, const V& v) { seen.emplace(k, v); }) == model.size());
  EXPECT(seen == model);

  std::vector<K> keys;
  for (unsigned i = 0; i < 1000; ++i) keys.push_back(make_key(i % 600));
  std::vector<V> values(keys.size());
  std::vector<std::uint64_t> present((keys.size() + 63) / 64);
  std::size_t count = map.get(std::span<const K>(keys), std::span<V>(values), std::span<std::uint64_t>(present));
  std::size_t expected = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto there = model.find(keys[i]);
    EXPECT((present[i / 64] >> (i % 64) & 1) == (there != model.end()));
    if (there == model.end()) continue;
    EXPECT(values[i] == there->second);
    ++expected;
  }
  EXPECT(count == expected);
  std::size_t visited = map.visit(std::span<const K>(keys), [&](const K& k, const V& v) { EXPECT(model.at(k) == v); });
  EXPECT(visited == expected);

  nunatak::map<K, V> other;
  values.assign(keys.size(), make_value(1));
  EXPECT(other.insert_or_assign(std::span<const K>(keys), std::span<const V>(values)) == 600);
  EXPECT(other.size() == 600);
  EXPECT(other.get(make_key(5)) == make_value(1));
  EXPECT(other.extract(std::span<const K>(keys), std::span<V>(values), std::span<std::uint64_t>(present)) == 600);
  EXPECT(other.empty());
  EXPECT(status_of([&] { map.get(std::span<const K>(keys), std::span<V>(values).first(3), present); }) ==
         NUNATAK_INVALID);
  EXPECT(map.erase_if([](const K&, const V&) { return true; }) == model.size() && map.empty());
}

// After Boost's tests of concurrent maps (insert_tests, erase_tests, visit_tests): many threads do the
// same, and the counts of what succeeded agree.
void threads_agree() {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys = 20'000;
  const auto run = [](auto&& f) {
    std::vector<std::thread> all;
    for (unsigned thread = 0; thread < threads; ++thread) all.emplace_back([&, thread] { f(thread); });
    for (auto& thread : all) thread.join();
  };
  nunatak::map<std::uint64_t, std::uint64_t> map;
  std::atomic<std::uint64_t> inserted{0}, visited{0}, erased{0};
  run([&](unsigned) {
    for (std::uint64_t key = 0; key < keys; ++key)
      if (map.insert_or_visit(key, 1, [&](auto, auto) { ++visited; })) ++inserted;
  });
  EXPECT(inserted == keys && visited == keys * (threads - 1) && map.size() == keys);
  run([&](unsigned) {
    for (std::uint64_t key = 0; key < keys; ++key) map.fetch_add(key, 1);
  });
  EXPECT(map.visit_all([](auto, std::uint64_t value) { EXPECT(value == 1 + threads); }) == keys);
  run([&](unsigned) {
    for (std::uint64_t key = 0; key < keys; ++key)
      map.compute(key, [](std::optional<std::uint64_t>& value) { ++*value; });
  });
  EXPECT(map.get(9) == 1 + 2 * threads);
  run([&](unsigned) {
    for (std::uint64_t key = 0; key < keys; ++key) erased += map.erase(key);
  });
  EXPECT(erased == keys && map.empty());
}

void exceptions_come_out() {
  nunatak::map<int, int> map;
  map.insert(1, 10);
  const auto throws = [](auto&& f) {
    try {
      f();
    } catch (const std::string& text) {
      return text == "on purpose";
    }
    return false;
  };
  const std::string thrown = "on purpose";
  EXPECT(throws([&] { map.compute(1, [&](std::optional<int>& value) { value = 11; throw thrown; }); }));
  EXPECT(throws([&] { map.visit_all([&](int, int) { throw thrown; }); }));
  EXPECT(throws([&] { map.erase_if(1, [&](int, int) -> bool { throw thrown; }); }));
  EXPECT(map.get(1) == 10 && map.size() == 1);
  nunatak::string_map names;
  names.insert("a", "x");
  EXPECT(throws([&] { names.visit("a", [&](auto, auto) { throw thrown; }); }));
  EXPECT(throws([&] { names.compute("a", [&](auto& value) { value = "y"; throw thrown; }); }));
  EXPECT(names.get("a") == "x");
  map.compute(1, [&](std::optional<int>& value) {
    map.insert(2, 20);
    value.reset();
  });
  EXPECT(!map.contains(1) && map.get(2) == 20);
}

void strings(nunatak::string_map& map) {
  EXPECT(map.insert("a", "1") && !map.insert("a", "2") && map.get("a") == "1");
  EXPECT(!map.insert_or_assign("a", "3") && map.insert_or_assign("", "") && map.get("") == "");
  EXPECT(map.visit("a", [](auto key, auto value) { EXPECT(key == "a" && value == "3"); }) == 1);
  EXPECT(map.visit("b", [](auto, auto) { std::abort(); }) == 0 && map.count("b") == 0);
  map.compute("a", [](std::optional<std::string>& value) { *value += std::string(10'000, 'x'); });
  EXPECT(map.get("a")->size() == 10'001);
  const std::vector<std::string_view> keys{"b", "a", ""};
  std::vector<std::size_t> lengths;
  EXPECT(map.visit(std::span<const std::string_view>(keys), [&](auto, auto value) { lengths.push_back(value.size()); }) == 2);
  EXPECT(lengths == std::vector<std::size_t>{10'001, 0});
  EXPECT(map.erase_if("a", [](auto, std::string_view value) { return value.empty(); }) == 0);
  EXPECT(map.erase_if("", [](auto, std::string_view value) { return value.empty(); }) == 1);
  EXPECT(map.visit_all([](auto key, auto) { EXPECT(key == "a"); }) == 1 && map.size() == 1);
  {
    map.insert_or_assign("a", "in place");
    const auto guard = map.pin();
    const auto value = guard.get("a");
    EXPECT(value == "in place" && !guard.get("b"));
    map.insert_or_assign("a", "replaced");
    EXPECT(value == "in place" && guard.get("a") == "replaced");
  }
  EXPECT(map.erase("a") == 1 && map.erase("a") == 0 && map.empty());
}

void sets() {
  nunatak::set<point> set{{1, 2}, {3, 4}, {1, 2}};
  EXPECT(set.size() == 2 && set.contains({1, 2}) && !set.contains({2, 1}) && set.count({3, 4}) == 1);
  EXPECT(!set.insert({1, 2}) && set.insert({5, 6}) && set.emplace({7, 8}) && set.erase({7, 8}) == 1);
  std::vector<point> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back({std::int16_t(i), 2});
  EXPECT(set.insert(std::span<const point>(keys)) == 999 && set.size() == 1002);
  keys.push_back({-1, -1});
  std::vector<std::uint64_t> present((keys.size() + 63) / 64);
  EXPECT(set.contains(std::span<const point>(keys), std::span(present)) == 1000);
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT((present[i / 64] >> (i % 64) & 1) == (i < 1000));
  EXPECT(status_of([&] { set.contains(std::span<const point>(keys), std::span(present).first(15)); }) == NUNATAK_INVALID);
  EXPECT(set.erase_if([](point key) { return key.y == 2; }) == 1000);
  std::size_t seen = 0;
  EXPECT(set.visit_all([&](point) { ++seen; }) == 2 && seen == 2 && set.visit({3, 4}, [&](point) { ++seen; }) == 1);
  auto left = set.keys();
  std::sort(left.begin(), left.end());
  EXPECT(left == std::vector<point>{{3, 4}, {5, 6}} && set == nunatak::set<point>{{5, 6}, {3, 4}});
  set.clear();
  EXPECT(set.empty() && set.memory() > 0);
}

void unique_pairs_of(nunatak::multimap<std::uint32_t, float>& map) {
  EXPECT(map.insert_unique(1, 0.5) && !map.insert_unique(1, 0.5) && map.insert_unique(1, 0.25));
  std::vector<std::uint32_t> keys;
  std::vector<float> values;
  for (unsigned i = 0; i < 2000; ++i) {
    keys.push_back(i % 500);
    values.push_back(float(i % 1000));
  }
  EXPECT(map.insert_unique(std::span<const std::uint32_t>(keys), std::span<const float>(values)) == 1000);
  EXPECT(map.size() == 1002);
  EXPECT(status_of([&] { map.insert_unique(std::span<const std::uint32_t>(keys), std::span<const float>()); }) == NUNATAK_INVALID);
  auto distinct = map.distinct_keys();
  std::sort(distinct.begin(), distinct.end());
  EXPECT(distinct == std::vector<std::uint32_t>(keys.begin(), keys.begin() + 500));
  std::size_t counted = 0;
  EXPECT(map.visit_keys([&](std::uint32_t key, std::size_t count) {
    EXPECT(count == (key == 1 ? 4 : 2));
    counted += count;
  }) == 500);
  EXPECT(counted == 1002);
  EXPECT(map.visit_groups([&](std::uint32_t key, std::span<const float> group) {
    EXPECT(group.size() == map.count(key));
    float sum = 0;
    for (float value : group) sum += value;
    EXPECT(sum == float(2 * key + 500) + (key == 1 ? 0.75f : 0));
  }) == 500);
  unsigned shown = 0;
  try {
    map.visit_groups([&](std::uint32_t, std::span<const float>) {
      ++shown;
      throw 7;
    });
    EXPECT(false);
  } catch (int thrown) {
    EXPECT(thrown == 7 && shown == 1);
  }
  map.clear();
}

void multimap_of(nunatak::multimap<std::uint32_t, float>& map) {
  map.insert(1, 0.5);
  map.emplace(1, 0.5);
  EXPECT(map.count(1) == 2 && map.contains(1) && !map.contains(2) && map.erase_one(1, 0.5) && !map.erase_one(1, 0.25));
  std::vector<std::uint32_t> keys;
  std::vector<float> values;
  for (int i = 0; i < 2000; ++i) {
    keys.push_back(i % 700);
    values.push_back(float(i));
  }
  map.insert(std::span<const std::uint32_t>(keys), std::span<const float>(values));
  EXPECT(map.size() == 2001 && map.count(1) == 4);
  EXPECT(status_of([&] { map.insert(std::span<const std::uint32_t>(keys), std::span<const float>()); }) == NUNATAK_INVALID);
  const std::vector<std::uint32_t> asked{3, 10'000, 699};
  const auto found = map.get_all(std::span<const std::uint32_t>(asked));
  const auto sorted = [](std::span<const float> part) {
    std::vector<float> all(part.begin(), part.end());
    std::sort(all.begin(), all.end());
    return all;
  };
  EXPECT(sorted(found[0]) == std::vector<float>{3, 703, 1403} && found[1].empty() && sorted(found[2]) == std::vector<float>{699, 1399});
  std::vector<std::uint32_t> every;
  for (unsigned i = 0; i < 700; ++i) every.push_back(i);
  const auto all = map.get_all(std::span<const std::uint32_t>(every));
  for (unsigned i = 0; i < 700; ++i) {
    EXPECT(all[i].size() == map.count(i));
    for (float value : all[i]) EXPECT(value == 0.5 || unsigned(value) % 700 == i);
  }
  // More values than there is room for at first.
  for (int i = 0; i < 1000; ++i) map.insert(5000, float(i));
  EXPECT(map.get_all(5000).size() == 1000 && sorted(map.get_all(5000))[999] == 999);
  std::size_t visited = 0;
  EXPECT(map.visit(3, [&](std::uint32_t key, float) { visited += key; }) == 3 && visited == 9);
  double total = 0;
  for (const auto& [key, value] : map) total += value;
  EXPECT(total == 0.5 + 1999 * 1000 + 999 * 500);
  EXPECT(map.erase(5000) == 1000 && map.erase(5000) == 0);
  EXPECT(map.erase(std::span<const std::uint32_t>(asked)) == 5 && map.size() == 1996);
  map.clear();
  EXPECT(map.empty() && map.memory() > 0);
}

void files() {
  const auto folder = std::filesystem::temp_directory_path() / ("nunatak-cpp-" + std::to_string(std::rand()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "file.map", text = folder / "text.map";
  {
    nunatak::map<std::uint64_t, double> map(nunatak::file{.path = path});
    EXPECT(map.insert(1, 0.5) && map.verify() == 1 && map.backup(folder / "copy.map") == 1);
    map.sync();
    EXPECT(!map.failure());
    EXPECT(status_of([&] { nunatak::map<std::uint64_t, double> other(nunatak::file{.path = path}); }) == NUNATAK_FILE);
    map.close();
    EXPECT(status_of([&] { map.get(1); }) == NUNATAK_INVALID);
  }
  nunatak::map<std::uint64_t, double> again(nunatak::file{.path = path, .read_only = true});
  EXPECT(again.get(1) == 0.5 && status_of([&] { again.clear(); }) == NUNATAK_FILE);
  nunatak::map<std::uint64_t, double> moved(std::move(again));
  EXPECT(moved.contains(1));
  nunatak::string_map names(nunatak::file{.path = text});
  strings(names);
  names.insert("a", "1");
  names.sync();
  nunatak::string_map beside(nunatak::file{.path = text, .beside = true});
  EXPECT(beside.get("a") == "1" && status_of([&] { beside.clear(); }) == NUNATAK_FILE);
  const nunatak::string_map copy(names);
  EXPECT(copy == names && status_of([&] { copy.sync(); }) == NUNATAK_INVALID);
  names.close();
  EXPECT(status_of([&] { nunatak::string_map other(names); }) == NUNATAK_INVALID);
  nunatak::multimap<std::uint32_t, float> many(nunatak::file{.path = folder / "many.map"});
  unique_pairs_of(many);
  multimap_of(many);
  many.insert(1, 2);
  many.sync();
  EXPECT(many.verify() == 1 && many.backup(folder / "many-copy.map") == 1);
  many.close();
  EXPECT(status_of([&] { many.insert(1, 2); }) == NUNATAK_INVALID);
  nunatak::set<std::uint64_t> set(nunatak::file{.path = folder / "set.map"});
  EXPECT(set.insert(7) && set.verify() == 1 && set.backup(folder / "set-copy.map") == 1);
  set.sync();
  // Another program cuts the file.
  const auto whole = std::filesystem::file_size(folder / "set.map");
  std::filesystem::resize_file(folder / "set.map", whole - 4096);
  EXPECT(!set.failure() && status_of([&] { set.sync(); }) == NUNATAK_FILE);
  const auto why = set.failure();
  EXPECT(why && why->status() == NUNATAK_FILE && std::string(why->what()).find("bytes") != std::string::npos);
  std::filesystem::resize_file(folder / "set.map", whole);
  set = nunatak::set<std::uint64_t>(nunatak::file{.path = folder / "other.map"});
  set.insert(7);
  set.close();
  EXPECT(nunatak::set<std::uint64_t>(nunatak::file{.path = folder / "other.map"}).contains(7));
  std::filesystem::remove_all(folder);
}

static_assert(!nunatak::inline_key<double>);
static_assert(!nunatak::inline_value<std::string>);
static_assert(nunatak::inline_key<point>);

int main() {
  for (auto table : {NUNATAK_DLHT, NUNATAK_ICEBERG, NUNATAK_PEA, NUNATAK_TURBO}) {
    const auto word = [](unsigned i) { return std::uint64_t{i} << 40 | i; };
    agrees_with_std<std::uint64_t, std::uint64_t>(table, word, word);
    agrees_with_std<int, float>(table, [](unsigned i) { return -int(i); }, [](unsigned i) { return i / 2.f; });
    const auto place = [](unsigned i) { return point{std::int16_t(i), std::int16_t(-int(i))}; };
    agrees_with_std<point, std::uint64_t>(table, place, word);
    agrees_with_std<std::uint64_t, char>(table, word, [](unsigned i) { return char(i); });
    nunatak::string_map names(table);
    strings(names);
  }
  threads_agree();
  exceptions_come_out();
  sets();
  nunatak::multimap<std::uint32_t, float> many{{9, 1}};
  EXPECT(many.erase(9) == 1);
  unique_pairs_of(many);
  multimap_of(many);
  files();
  EXPECT(status_of([] { nunatak::map<int, int> map(NUNATAK_DLHT, SIZE_MAX); }) == NUNATAK_MEMORY);
  nunatak::map<int, int> map;
  map.insert(1, 10);
  int expected = 9;
  EXPECT(!map.compare_exchange(1, expected, 11) && expected == 10 && map.compare_exchange(1, expected, 11));
  EXPECT(map.extract(1) == 11 && !map.extract(1));
  std::cout << "the C++ interface holds\n";
}
