// Counts words, and looks numbers up in batches.
#include <nunatak.hpp>

#include <iostream>
#include <thread>
#include <vector>

int main() {
  nunatak::map<std::uint64_t, double> prices;
  prices.insert_or_assign(7, 1.5);
  std::cout << "7: " << prices.get(7).value_or(0) << '\n';

  nunatak::map<std::uint32_t, std::uint64_t> counts;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (std::uint32_t i = 0; i < 10'000; ++i) counts.fetch_add(i % 10, 1);
    });
  for (auto& thread : threads) thread.join();
  std::cout << "3: " << counts.get(3).value_or(0) << '\n';

  std::vector<std::uint64_t> keys{6, 7, 8};
  prices.visit(std::span<const std::uint64_t>(keys), [](auto key, double price) {
    std::cout << key << " costs " << price << '\n';
  });

  nunatak::string_map names;
  names.insert("nunatak", "stands still");
  names.visit("nunatak", [](auto, std::string_view value) { std::cout << value << '\n'; });
}
