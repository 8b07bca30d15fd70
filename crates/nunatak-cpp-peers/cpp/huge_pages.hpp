// An allocator for the maps: large blocks in huge pages where the system grants them, as the maps of this
// project have.
//
//   2 MiB and more    a mapping of its own, aligned to a huge page; it ends with the block
//   64 KiB to 2 MiB   a range of a shared mapping of 64 MiB; whole huge pages of freed ranges go back
//   less              operator new
//
// Ranges are for maps of many tables: each is smaller than a huge page, all of them are not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace nunatak_peers {

#ifdef __linux__

constexpr std::size_t HUGE_PAGE = std::size_t{2} << 20;
constexpr std::size_t RANGE = std::size_t{64} << 10;
constexpr std::size_t CHUNK = std::size_t{64} << 20;

constexpr std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// Maps bytes, a multiple of the page size, at a multiple of a huge page.
inline char *map_aligned(std::size_t bytes) {
    if (bytes > std::numeric_limits<std::size_t>::max() - HUGE_PAGE) throw std::bad_alloc();
    void *mapped =
        mmap(nullptr, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    char *first = static_cast<char *>(mapped);
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(first) % HUGE_PAGE;
    if (before > 0) munmap(first, before);
    munmap(first + before + bytes, HUGE_PAGE - before);
    // Without huge pages the block is there all the same.
    madvise(first + before, bytes, MADV_HUGEPAGE);
    return first + before;
}

// Ranges of shared mappings. There are few: a map of many tables has one for each.
class Ranges {
public:
    char *allocate(std::size_t bytes) {
        const std::lock_guard guard(lock);
        auto fit = std::find_if(free.begin(), free.end(), [&](auto &range) { return range.second >= bytes; });
        if (fit == free.end()) fit = free.emplace(map_aligned(CHUNK), CHUNK).first;
        const auto [start, size] = *fit;
        free.erase(fit);
        if (size > bytes) free.emplace(start + bytes, size - bytes);
        return start;
    }

    void deallocate(char *start, std::size_t bytes) {
        const std::lock_guard guard(lock);
        auto range = free.emplace(start, bytes).first;
        const auto after = std::next(range);
        if (after != free.end() && start + bytes == after->first) {
            range->second += after->second;
            free.erase(after);
        }
        if (range != free.begin()) {
            const auto before = std::prev(range);
            if (before->first + before->second == start) {
                before->second += range->second;
                free.erase(range);
                range = before;
            }
        }
        // Only pages that the freed block was in: others have gone back already.
        char *const end = range->first + range->second;
        char *from = aligned_down(start);
        if (from < range->first) from += HUGE_PAGE;
        for (; from < start + bytes && from + HUGE_PAGE <= end; from += HUGE_PAGE)
            madvise(from, HUGE_PAGE, MADV_DONTNEED);
    }

private:
    static char *aligned_down(char *address) {
        return address - reinterpret_cast<std::uintptr_t>(address) % HUGE_PAGE;
    }

    std::mutex lock;
    // The free ranges, by address; no two of them touch.
    std::map<char *, std::size_t> free;
};

inline Ranges &ranges() {
    // Never destroyed: maps may be freed while the program ends.
    static Ranges *const all = new Ranges;
    return *all;
}

inline void *allocate_bytes(std::size_t bytes, std::size_t alignment) {
    if (bytes >= HUGE_PAGE) return map_aligned(rounded(bytes, 4096));
    if (bytes >= RANGE) return ranges().allocate(rounded(bytes, 4096));
    return ::operator new(bytes, std::align_val_t{alignment});
}

inline void deallocate_bytes(void *block, std::size_t bytes, std::size_t alignment) noexcept {
    if (bytes >= HUGE_PAGE) {
        munmap(block, rounded(bytes, 4096));
    } else if (bytes >= RANGE) {
        ranges().deallocate(static_cast<char *>(block), rounded(bytes, 4096));
    } else {
        ::operator delete(block, std::align_val_t{alignment});
    }
}

#else

inline void *allocate_bytes(std::size_t bytes, std::size_t alignment) {
    return ::operator new(bytes, std::align_val_t{alignment});
}

inline void deallocate_bytes(void *block, std::size_t, std::size_t alignment) noexcept {
    ::operator delete(block, std::align_val_t{alignment});
}

#endif

template <class T> struct HugePages {
    using value_type = T;

    HugePages() = default;
    template <class U> HugePages(const HugePages<U> &) noexcept {}

    T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
        return static_cast<T *>(allocate_bytes(count * sizeof(T), alignof(T)));
    }

    void deallocate(T *block, std::size_t count) noexcept {
        deallocate_bytes(block, count * sizeof(T), alignof(T));
    }

    template <class U> bool operator==(const HugePages<U> &) const noexcept { return true; }
    template <class U> bool operator!=(const HugePages<U> &) const noexcept { return false; }
};

} // namespace nunatak_peers
