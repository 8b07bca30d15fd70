// The C++ interface: maps for transactions, memory resources, and files with a schema.
#include "expect.hpp"

#include <nunatak.hpp>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory_resource>
#include <thread>

template <typename F>
nunatak_status status_of(F&& f) {
  try {
    f();
  } catch (const nunatak::error& error) {
    return error.status();
  }
  return NUNATAK_OK;
}

void words() {
  using accounts_map = nunatak::shadow_map<std::uint32_t, float>;
  accounts_map accounts(100);
  {
    auto account = accounts.shadow_insert(7);
    EXPECT(account && account.status() == NUNATAK_OK && account.key() == 7 && !accounts.contains(7));
    auto again = accounts.shadow_insert(7);
    EXPECT(!again && again.status() == NUNATAK_SHADOWED);
    EXPECT(status_of([&] { again.commit(1); }) == NUNATAK_NOT_SHADOWED);
    EXPECT(status_of([&] { accounts.insert_or_assign(7, 1); }) == NUNATAK_SHADOWED);
    account.commit(100);
    EXPECT(!account && accounts.get(7) == 100 && status_of([&] { account.abort(); }) == NUNATAK_NOT_SHADOWED);
    EXPECT(accounts.shadow_insert(7).status() == NUNATAK_PRESENT);
  }
  EXPECT(accounts.get(7) == 100);
  // What is not committed is aborted, once, whatever it was moved through.
  {
    auto one = accounts.shadow_insert(8);
    auto other = std::move(one);
    EXPECT(!one && other);
    one = accounts.shadow_insert(9);
    std::swap(one, other);
    EXPECT(one.key() == 8 && other.key() == 9);
  }
  EXPECT(accounts.insert(8, 1) && accounts.insert(9, 1));
  {
    const std::array<std::uint32_t, 3> keys{1, 2, 3}, taken{4, 9, 5};
    auto all = accounts.shadow_insert(std::span<const std::uint32_t>(keys));
    EXPECT(all && all.keys.size() == 3 && accounts.size() == 3);
    auto none = accounts.shadow_insert(std::span<const std::uint32_t>(taken));
    EXPECT(!none && none.keys.empty() && none.refused == 1 && none.status == NUNATAK_PRESENT);
    all.keys[0].commit(10);
    all.keys[1].keep();
  }
  EXPECT(accounts.get(1) == 10 && accounts.insert(3, 30) && accounts.insert(4, 40));
  accounts.commit_shadow(2, 20);
  EXPECT(accounts.get(2) == 20 && status_of([&] { accounts.abort_shadow(2); }) == NUNATAK_NOT_SHADOWED);
  accounts.shadow_insert(6).keep();
  accounts.abort_shadow(6);
  accounts_map moved = std::move(accounts);
  EXPECT(moved.size() == 7 && moved.erase(7) == 1 && moved.try_emplace(6, 60));
  // Of many threads that hide a key one does.
  nunatak::shadow_map<std::uint64_t, std::uint64_t> shared;
  std::atomic<int> won = 0;
  const auto hide = [&] {
    for (std::uint64_t key = 0; key < 2000; ++key)
      if (auto shadow = shared.shadow_insert(key)) {
        ++won;
        shadow.commit(key);
      }
  };
  std::thread other(hide);
  hide();
  other.join();
  EXPECT(won == 2000 && shared.size() == 2000);
}

// Counts what is not given back.
struct counting : std::pmr::memory_resource {
  std::atomic<long> live = 0;
  std::atomic<bool> refuses = false;

  void* do_allocate(std::size_t size, std::size_t alignment) override {
    if (refuses) throw std::bad_alloc();
    ++live;
    return std::pmr::new_delete_resource()->allocate(size, alignment);
  }

  void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override {
    --live;
    std::pmr::new_delete_resource()->deallocate(memory, size, alignment);
  }

  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

void strings() {
  counting memory;
  {
    nunatak::string_map map(&memory, NUNATAK_TURBO);
    EXPECT(map.insert("a key of some length", "a value") && map.insert_or_assign("b", "another") && memory.live == 2);
    const nunatak::string_map copy(map);
    EXPECT(memory.live == 2 && copy == map && map.erase("b") == 1 && map.reclaim() == 0 && memory.live == 1);
    memory.refuses = true;
    EXPECT(status_of([&] { map.insert("c", "1"); }) == NUNATAK_MEMORY && !map.contains("c"));
    memory.refuses = false;
    nunatak::shadow_string_map rows(&memory);
    auto row = rows.shadow_insert("a row", "its columns");
    EXPECT(row && row.key() == "a row" && memory.live == 2 && !rows.contains("a row"));
    EXPECT(rows.shadow_insert("a row", "others").status() == NUNATAK_SHADOWED);
    EXPECT(status_of([&] { rows.insert("a row", "others"); }) == NUNATAK_SHADOWED);
    row.commit();
    EXPECT(rows.get("a row") == "its columns" && rows.shadow_insert("a row", "").status() == NUNATAK_PRESENT);
    (void)rows.shadow_insert("b row", "");
    EXPECT(rows.insert("b row", "1") && rows.size() == 2);
    rows.shadow_insert("c row", "2").keep();
    rows.commit_shadow("c row");
    rows.shadow_insert("d row", "2").keep();
    rows.abort_shadow("d row");
    EXPECT(rows.get("c row") == "2" && !rows.contains("d row") && status_of([&] { rows.commit_shadow("d row"); }) == NUNATAK_NOT_SHADOWED);
    EXPECT(nunatak::shadow_string_map().empty());
  }
  EXPECT(memory.live == 0);
}

void schemas() {
  char name[] = "/tmp/nunatak-cpp-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  const nunatak::file at{.path = folder / "stock.map", .schema = "stock", .schema_version = 2};
  {
    nunatak::string_map stock(at);
    stock.insert("a", "1");
    stock.close();
  }
  EXPECT(nunatak::string_map(at).get("a") == "1");
  EXPECT(status_of([&] { nunatak::string_map other({.path = at.path, .schema = "stock", .schema_version = 3}); }) == NUNATAK_FILE);
  std::filesystem::remove_all(folder);
}

int main() {
  words();
  strings();
  schemas();
  std::cout << "transactions, memory resources and schemas hold\n";
}
