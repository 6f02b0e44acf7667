//===- RoutingBook.h - what routing ops are told to choose, and chose ------===//
#ifndef MOERT_CORE_ROUTINGBOOK_H
#define MOERT_CORE_ROUTINGBOOK_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace moert {

/// Choices of one call of a routing op of one rank: experts [S, k], in host memory.
struct RoutingPage {
  std::vector<int32_t> forced; ///< experts that it takes instead of choosing; empty: it chooses
  bool isRecorded = false;
  bool recordsOwn = false;     ///< record the own choices even if others are forced
  std::vector<int32_t> chosen; ///< choices of the last step, if recorded
};

/// Number of a call of `op` after `before` calls of it in the step: an op in a loop routes in each iteration. A program
/// has `ops` ops.
inline int64_t routingNumber(int64_t op, int64_t before, size_t ops) { return op + before * static_cast<int64_t>(ops); }

/// Pages of one rank, by the number of the call. Pages are made while no step runs. In a step, the rank's issuing
/// thread looks pages up, and each call writes its own.
class RoutingBook {
public:
  RoutingPage &page(int64_t number) { return pages[number]; }
  void beginStep() { calls.clear(); }
  /// Returns the page of the next call of an op in a step; null if it is neither forced nor recorded.
  RoutingPage *next(int64_t op, size_t ops) {
    if (pages.empty())
      return nullptr;
    auto it = pages.find(routingNumber(op, calls[op]++, ops));
    return it == pages.end() ? nullptr : &it->second;
  }

private:
  std::map<int64_t, RoutingPage> pages;
  std::map<int64_t, int64_t> calls; ///< calls of this step, by op
};

} // namespace moert

#endif // MOERT_CORE_ROUTINGBOOK_H
