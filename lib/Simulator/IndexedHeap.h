//===- IndexedHeap.h - heap of numbers by time ------------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_INDEXEDHEAP_H
#define MOE_LIB_SIMULATOR_INDEXEDHEAP_H

#include <cassert>
#include <cstdint>
#include <limits>
#include <vector>

namespace mlir::moe {

/// A binary heap in which the time of a number can change. The lowest number is first among equal times.
class IndexedHeap {
public:
  explicit IndexedHeap(uint32_t size) : places(size, absent) { heap.reserve(size); }

  bool empty() const { return heap.empty(); }
  /// Infinity if the heap is empty.
  double getTime() const { return heap.empty() ? std::numeric_limits<double>::infinity() : heap.front().time; }
  uint32_t getFirst() const { return heap.front().number; }

  /// Enters a number, or changes its time.
  void set(uint32_t number, double time) {
    uint32_t place = places[number];
    if (place == absent) {
      place = static_cast<uint32_t>(heap.size());
      heap.push_back({time, number});
    }
    heap[place].time = time;
    rise(place, heap[place]);
    sink(places[number], heap[places[number]]);
  }

  uint32_t pop() {
    assert(!heap.empty());
    Entry first = heap.front(), last = heap.back();
    heap.pop_back();
    places[first.number] = absent;
    if (!heap.empty())
      sink(0, last);
    return first.number;
  }

private:
  static constexpr uint32_t absent = ~0u;
  struct Entry {
    double time;
    uint32_t number;
    bool operator<(const Entry &other) const {
      return time < other.time || (time == other.time && number < other.number);
    }
  };

  void put(uint32_t place, Entry entry) {
    heap[place] = entry;
    places[entry.number] = place;
  }
  void rise(uint32_t place, Entry entry) {
    for (; place > 0 && entry < heap[(place - 1) / 2]; place = (place - 1) / 2)
      put(place, heap[(place - 1) / 2]);
    put(place, entry);
  }
  void sink(uint32_t place, Entry entry) {
    for (uint32_t child; (child = 2 * place + 1) < heap.size(); place = child) {
      if (child + 1 < heap.size() && heap[child + 1] < heap[child])
        ++child;
      if (!(heap[child] < entry))
        break;
      put(place, heap[child]);
    }
    put(place, entry);
  }

  std::vector<Entry> heap;
  std::vector<uint32_t> places; ///< by number
};

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_INDEXEDHEAP_H
