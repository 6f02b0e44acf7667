//===- CollectivesReplicas.cpp - the check of what is assumed replicated ---===//

#include "core/Convert.h"
#include "host/Collectives.h"

#include <cmath>
#include <cstring>

namespace moert::host {

Status compareReplicas(const View &mine, const View &first, int64_t member, const Group &group, int64_t instance) {
  if (member == 0)
    return {};
  // Equal NaNs pass too. The check of the results finds them.
  if (std::memcmp(mine.data, first.data, static_cast<size_t>(mine.bytes())) == 0)
    return {};
  double difference = 0, norm = 0;
  for (int64_t i = 0, e = mine.elements(); i < e; ++i) {
    double a = elementAt(mine.data, mine.dtype, i), b = elementAt(first.data, first.dtype, i);
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  double limit = roundingTolerance(mine.dtype) * std::sqrt(norm);
  // This comparison fails for NaN.
  if (std::sqrt(difference) <= limit)
    return {};
  std::string ranks;
  for (int64_t i = 0; i < std::min<int64_t>(group.size, 8); ++i)
    ranks += (i ? ", " : "") + std::to_string(group.rankOf(instance, i));
  char text[64];
  std::snprintf(text, sizeof text, "%.3g, norm %.3g", std::sqrt(difference), std::sqrt(norm));
  return Status::error(MOERT_ERROR_NOT_REPLICATED, "assumed equal on group '", group.name, "' (ranks ", ranks,
                       group.size > 8 ? ", ..." : "", "), but ranks ", group.rankOf(instance, 0), " and ",
                       group.rankOf(instance, member), " differ (norm of the difference ", text, ")");
}

} // namespace moert::host
