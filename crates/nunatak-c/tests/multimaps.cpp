// The C++ interface: multimaps whose keys are byte strings.
#include "expect.hpp"

#include <nunatak.hpp>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

using map_of_floats = nunatak::string_multimap<float>;
using strings = std::span<const std::string_view>;

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

template <typename V>
std::vector<V> sorted(std::span<const V> values) {
  std::vector<V> all(values.begin(), values.end());
  std::sort(all.begin(), all.end());
  return all;
}

// Keys of all lengths, also some that no block of keys has room for.
std::vector<std::string> names(unsigned count) {
  std::vector<std::string> all;
  for (unsigned i = 0; i < count; ++i) all.push_back(std::to_string(i) + std::string(i % 90, 'x'));
  return all;
}

std::vector<std::string_view> views(const std::vector<std::string>& names, unsigned count) {
  std::vector<std::string_view> all;
  for (unsigned i = 0; i < count; ++i) all.push_back(names[i % names.size()]);
  return all;
}

void single_operations() {
  map_of_floats map{{"a", 1}, {"b", 2}, {"a", 3}};
  EXPECT(map.size() == 3 && !map.empty() && map.count("a") == 2 && map.contains("b") && !map.contains("c"));
  map.insert("a", 0.5);
  map.emplace(std::string("a"), 0.5);
  EXPECT(map.count("a") == 4 && map.erase_one("a", 0.5) && !map.erase_one("a", 0.25) && map.count("a") == 3);
  EXPECT(map.insert_unique("b", 4) && !map.insert_unique("b", 2) && map.count("b") == 2);
  EXPECT(sorted<float>(map.get_all("a")) == std::vector<float>{0.5, 1, 3} && map.get_all("c").empty());
  float total = 0;
  EXPECT(map.visit("a", [&](std::string_view key, float value) {
    EXPECT(key == "a");
    total += value;
  }) == 3);
  EXPECT(total == 4.5f && map.visit("c", [](std::string_view, float) {}) == 0);
  EXPECT(map.erase("b") == 2 && map.erase("b") == 0 && map.size() == 3);
  using namespace std::string_view_literals;
  map.insert("\0"sv, 7);
  map.insert(""sv, 8);
  EXPECT(map.get_all("\0"sv) == std::vector<float>{7} && map.get_all(std::string_view()) == std::vector<float>{8});
  map_of_floats moved(std::move(map));
  EXPECT(moved.count("a") == 3 && status_of([&] { map.count("a"); }) == NUNATAK_INVALID);
  map = std::move(moved);
  EXPECT(map.size() == 5 && map.c_map());
  map.clear();
  EXPECT(map.empty() && map.memory() > 0 && map.begin() == map.end());
}

void batches() {
  map_of_floats map;
  const auto every = names(700);
  const auto keys = views(every, 2000);
  std::vector<float> values;
  for (int i = 0; i < 2000; ++i) values.push_back(float(i));
  map.insert(strings(keys), std::span<const float>(values));
  EXPECT(map.size() == 2000);
  EXPECT(status_of([&] { map.insert(strings(keys), std::span<const float>()); }) == NUNATAK_INVALID);
  EXPECT(status_of([&] { map.insert_unique(strings(keys), std::span<const float>()); }) == NUNATAK_INVALID);
  const std::vector<std::string_view> asked{every[3], "absent", every[699]};
  const auto found = map.get_all(strings(asked));
  EXPECT(sorted(found[0]) == std::vector<float>{3, 703, 1403} && found[1].empty());
  EXPECT(sorted(found[2]) == std::vector<float>{699, 1399} && found.ends.size() == 3 && found.values.size() == 5);
  EXPECT(map.count(strings(asked)) == std::vector<std::size_t>{3, 0, 2});
  const auto all = map.get_all(strings(views(every, 700)));
  const auto counts = map.count(strings(views(every, 700)));
  for (unsigned i = 0; i < 700; ++i) {
    EXPECT(all[i].size() == counts[i] && counts[i] == map.count(every[i]) && counts[i] == (i < 600 ? 3u : 2u));
    for (float value : all[i]) EXPECT(unsigned(value) % 700 == i);
  }
  // More values than there is room for at first.
  for (int i = 0; i < 1000; ++i) map.insert("many", float(i));
  EXPECT(sorted<float>(map.get_all("many"))[999] == 999 && map.get_all("many").size() == 1000);
  double total = 0;
  std::map<std::string, int> seen;
  for (const auto& [key, value] : map) {
    total += value;
    ++seen[std::string(key)];
  }
  EXPECT(total == 1999 * 1000 + 999 * 500 && seen.size() == 701 && seen["many"] == 1000 && seen[every[3]] == 3);
  EXPECT(map.erase("many") == 1000);
  EXPECT(map.insert_unique(strings(keys), std::span<const float>(values)) == 0);
  for (auto& value : values) value = value == 0 ? 0 : -value;
  EXPECT(map.insert_unique(strings(keys), std::span<const float>(values)) == 1999 && map.size() == 3999);
  EXPECT(map.erase(strings(asked)) == 10 && map.erase(strings(views(every, 700))) == 3989 && map.empty());
  EXPECT(map.get_all(strings()).values.empty() && map.count(strings()).empty() && map.erase(strings()) == 0);
}

void each_key_once() {
  map_of_floats map;
  const auto every = names(500);
  for (unsigned i = 0; i < 1000; ++i) map.insert(every[i % 500], float(i));
  map.insert(every[1], 0.5);
  auto distinct = map.distinct_keys();
  std::sort(distinct.begin(), distinct.end());
  auto expected = every;
  std::sort(expected.begin(), expected.end());
  EXPECT(distinct == expected);
  std::size_t counted = 0;
  EXPECT(map.visit_keys([&](std::string_view key, std::size_t count) {
    EXPECT(count == (key == every[1] ? 3 : 2));
    counted += count;
  }) == 500);
  EXPECT(counted == 1001);
  // The callable may use the map.
  EXPECT(map.visit_groups([&](std::string_view key, std::span<const float> group) {
    const unsigned i = unsigned(std::stoi(std::string(key)));
    float sum = 0;
    for (float value : group) sum += value;
    EXPECT(group.size() == map.count(key) && sum == float(2 * i + 500) + (i == 1 ? 0.5f : 0));
    EXPECT(map.erase(key) == group.size());
  }) == 500);
  EXPECT(map.empty());
  map.insert("a", 1);
  map.insert("b", 1);
  for (const bool groups : {false, true}) {
    unsigned shown = 0;
    const auto show = [&](std::string_view, auto) {
      ++shown;
      throw 7;
    };
    try {
      groups ? map.visit_groups(show) : map.visit_keys(show);
      EXPECT(false);
    } catch (int thrown) {
      EXPECT(thrown == 7 && shown == 1);
    }
  }
}

void agrees_with_std() {
  nunatak::string_multimap<std::uint64_t> map;
  std::map<std::string, std::vector<std::uint64_t>> model;
  std::mt19937 chance(7);
  const auto every = names(60);
  std::size_t size = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::string& key = every[chance() % every.size()];
    const std::uint64_t value = std::uint64_t{chance() % 5} << 40;
    auto& values = model[key];
    const auto there = std::find(values.begin(), values.end(), value);
    const bool is_there = there != values.end();
    switch (chance() % 8) {
      case 0: EXPECT(map.insert_unique(key, value) == !is_there); if (!is_there) values.push_back(value); break;
      case 1: EXPECT(map.erase_one(key, value) == is_there); if (is_there) values.erase(there); break;
      case 2: if (chance() % 8 == 0) { EXPECT(map.erase(key) == values.size()); values.clear(); } break;
      case 3: EXPECT(map.count(key) == values.size() && map.contains(key) == !values.empty()); break;
      case 4: EXPECT(sorted<std::uint64_t>(map.get_all(key)) == sorted<std::uint64_t>(values)); break;
      default: map.insert(key, value); values.push_back(value);
    }
  }
  for (const auto& [key, values] : model) size += values.size();
  EXPECT(map.size() == size && size > 100);
  EXPECT(map.visit_groups([&](std::string_view key, std::span<const std::uint64_t> group) {
    EXPECT(sorted(group) == sorted<std::uint64_t>(model[std::string(key)]));
  }) > 50);
}

void threads_agree() {
  nunatak::string_multimap<std::uint32_t> map;
  const auto every = names(100);
  std::atomic<std::size_t> added{0};
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint32_t i = 0; i < 5000; ++i) {
        if (map.insert_unique(every[i % 100], i)) ++added;
        map.insert("shared", thread);
        EXPECT(map.erase_one("shared", thread));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT(added == 5000 && map.size() == 5000 && !map.contains("shared") && map.distinct_keys().size() == 100);
}

int main() {
  single_operations();
  batches();
  each_key_once();
  agrees_with_std();
  threads_agree();
  std::cout << "multimaps of byte strings hold\n";
}
