// What the tests say of what does not hold.

#ifndef NUNATAK_TESTS_EXPECT_HPP
#define NUNATAK_TESTS_EXPECT_HPP

#include <cstdlib>
#include <iostream>

#define EXPECT(...)                                                                    \
  do {                                                                                 \
    if (!(__VA_ARGS__)) {                                                              \
      std::cerr << __FILE__ << ':' << __LINE__ << ": " << #__VA_ARGS__ << '\n';        \
      std::exit(1);                                                                    \
    }                                                                                  \
  } while (0)

#endif  // NUNATAK_TESTS_EXPECT_HPP
