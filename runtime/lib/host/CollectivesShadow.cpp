//===- CollectivesShadow.cpp - shadows' values, and their gradients -------===//

#include "host/Collectives.h"

#include <cstring>

namespace moert::host {
namespace {

/// What one expert has.
int64_t elementsOfOne(const View &values) {
  int64_t count = 1;
  for (int64_t dim = 1; dim < values.rank; ++dim)
    count *= values.dims[static_cast<size_t>(dim)];
  return count;
}

} // namespace

Status checkSameShadows(const Share &share, const View &shadows, const View &first) {
  for (int64_t e = 0; e < shadows.elements(); ++e)
    if (int32_t value = shadows.as<int32_t>()[e], other = first.as<int32_t>()[e]; value != other)
      return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                           "expected all members' shadows to be equal, but for expert " + std::to_string(e) +
                               " member 0 has " + std::to_string(other) + " and member " +
                               std::to_string(share.member) + " has " + std::to_string(value));
  return {};
}

Status pullReduceExperts(Share &share) {
  const View &addend = share.mine().views[2], &out = share.mine().views[3];
  if (Status status = checkExchangeValues(share.mine(), share.size(), share.member); !status.ok())
    return status;
  if (Status status = checkSameShadows(share, share.mine().views[1], share.of(0).views[1]); !status.ok())
    return status;
  const int32_t *shadows = share.mine().views[1].as<int32_t>();
  int64_t own = out.dims[0], count = elementsOfOne(out), bytes = count * static_cast<int64_t>(dtypeSize(out.dtype));
  int64_t place = 0;
  for (int64_t e = 0; e < share.member * own; ++e)
    place += shadows[e];
  std::vector<const void *> sources;
  for (int64_t i = 0; i < own; ++i) {
    char *to = out.as<char>() + i * bytes;
    const char *added = addend ? addend.as<char>() + i * bytes : nullptr;
    if (shadows[share.member * own + i]) {
      sources.clear();
      for (const Call *call : share.calls)
        sources.push_back(call->views[0].as<char>() + place * bytes);
      // Last, so that what it is added to is the sum of the members.
      if (added)
        sources.push_back(added);
      share.received += (share.size() - 1) * bytes;
      if (Status status = sumInOrder(sources, to, count, out.dtype); !status.ok())
        return status;
      ++place;
    } else if (added) {
      share.copy(share.member, to, added, bytes);
    } else {
      std::memset(to, 0, static_cast<size_t>(bytes));
    }
  }
  return {};
}

} // namespace moert::host
