//===- RoutingBook.h - what routing ops are told to choose, and chose ------===//
#ifndef MOERT_CORE_ROUTINGBOOK_H
#define MOERT_CORE_ROUTINGBOOK_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace moert {

/// Of one call of a routing op of one rank. Both are experts [S, k], in the host's memory.
struct RoutingPage {
  std::vector<int32_t> forced; ///< what it takes instead of choosing; empty: it chooses
  bool isRecorded = false;
  bool recordsOwn = false;     ///< what is recorded is what it would choose, whatever it is told
  std::vector<int32_t> chosen; ///< in the last step, where it is recorded
};

/// The number of a call of `op`, where a step has made `before` calls of it: an op in a loop routes in each iteration.
/// A program has `ops` ops.
inline int64_t routingNumber(int64_t op, int64_t before, size_t ops) { return op + before * static_cast<int64_t>(ops); }

/// The pages of one rank, by the number of the call. It is written while no step runs; in a step, the rank's issuing
/// thread looks pages up and each call writes its own.
class RoutingBook {
public:
  RoutingPage &page(int64_t number) { return pages[number]; }
  void beginStep() { calls.clear(); }
  /// Of the next call of an op in a step; null where it is left alone.
  RoutingPage *next(int64_t op, size_t ops) {
    if (pages.empty())
      return nullptr;
    auto it = pages.find(routingNumber(op, calls[op]++, ops));
    return it == pages.end() ? nullptr : &it->second;
  }

private:
  std::map<int64_t, RoutingPage> pages;
  std::map<int64_t, int64_t> calls; ///< of this step, by op
};

} // namespace moert

#endif // MOERT_CORE_ROUTINGBOOK_H
