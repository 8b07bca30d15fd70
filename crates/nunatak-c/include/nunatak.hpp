// Nunatak: concurrent hash maps, in RAM and in files. The C++20 interface, over nunatak.h.
//
//   nunatak::map<std::uint64_t, double> prices;
//   prices.insert_or_assign(7, 1.5);
//   std::optional<double> price = prices.get(7);
//   prices.get(keys, values, present);          // spans: many keys at once, much faster
//
// Threads: every member function but constructors, the destructor, moves and close() may be called by any
// number of threads at a time. Errors are exceptions of the type nunatak::error.
//
// Functions that take a callable run it while the map holds nothing, so it may use the map. It may throw:
// the exception comes out of the call, and the change that it should have decided is not made.
//
// Names are those of boost::concurrent_flat_map where the meaning agrees. What differs: values have at
// most 8 bytes and are shown as copies, so visit() can't change them; use compute(), which stores what the
// callable leaves in the optional.

#ifndef NUNATAK_HPP
#define NUNATAK_HPP

#include "nunatak/common.hpp"
#include "nunatak/map.hpp"
#include "nunatak/multimap.hpp"
#include "nunatak/set.hpp"
#include "nunatak/shadow_map.hpp"
#include "nunatak/string_map.hpp"
#include "nunatak/string_multimap.hpp"

#endif  // NUNATAK_HPP
