//===- RoutingBook.h - what routing ops are told to choose, and chose ------===//
#ifndef MOERT_CORE_ROUTINGBOOK_H
#define MOERT_CORE_ROUTINGBOOK_H

#include <cstdint>
#include <map>
#include <vector>

namespace moert {

/// Of one routing op of one rank. Both are experts [S, k], in the host's memory.
struct RoutingPage {
  std::vector<int32_t> forced; ///< what it takes instead of choosing; empty: it chooses
  bool isRecorded = false;
  bool recordsOwn = false;     ///< what is recorded is what it would choose, whatever it is told
  std::vector<int32_t> chosen; ///< in the last step, where it is recorded
};

/// The pages of one rank, by op. It is written while no step runs; in a step, the rank's issuing thread looks pages up
/// and each op writes its own.
class RoutingBook {
public:
  RoutingPage &page(int64_t op) { return pages[op]; }
  /// Null where the op is left alone.
  RoutingPage *find(int64_t op) {
    auto it = pages.find(op);
    return it == pages.end() ? nullptr : &it->second;
  }

private:
  std::map<int64_t, RoutingPage> pages;
};

} // namespace moert

#endif // MOERT_CORE_ROUTINGBOOK_H
