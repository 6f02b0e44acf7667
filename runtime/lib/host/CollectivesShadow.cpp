//===- CollectivesShadow.cpp - shadows' values, and their gradients -------===//

#include "host/Collectives.h"

#include <cstring>

namespace moert::host {
namespace {

Status bad(const std::string &text) { return Status::error(MOERT_ERROR_INVALID_ARGUMENT, text); }

/// Shadows come from device memory: what they say must stay inside the places, and be the same on all members.
Status checkShadows(const Share &share, int64_t places) {
  const View &mine = share.mine().views[1], &first = share.of(0).views[1];
  int64_t used = 0;
  for (int64_t e = 0; e < mine.elements(); ++e) {
    int32_t value = mine.as<int32_t>()[e];
    if (value != 0 && value != 1)
      return bad("expected shadows of 0 or 1 but expert " + std::to_string(e) + " has " + std::to_string(value));
    if (value != first.as<int32_t>()[e])
      return bad("expected all members' shadows to be equal, but for expert " + std::to_string(e) + " member 0 has " +
                 std::to_string(first.as<int32_t>()[e]) + " and member " + std::to_string(share.member) + " has " +
                 std::to_string(value));
    used += value;
  }
  if (used > places)
    return bad("expected at most " + std::to_string(places) + " shadows, one for each place, but got " +
               std::to_string(used));
  return {};
}

/// What one expert has.
int64_t elementsOfOne(const View &values) {
  int64_t count = 1;
  for (int64_t dim = 1; dim < values.rank; ++dim)
    count *= values.dims[static_cast<size_t>(dim)];
  return count;
}

} // namespace

Status pullBroadcastExperts(Share &share) {
  const View &in = share.mine().views[0], &out = share.mine().views[2];
  if (Status status = checkShadows(share, out.dims[0]); !status.ok())
    return status;
  const int32_t *shadows = share.mine().views[1].as<int32_t>();
  int64_t own = in.dims[0], bytes = elementsOfOne(in) * static_cast<int64_t>(dtypeSize(in.dtype));
  char *to = out.as<char>();
  for (int64_t e = 0; e < own * share.size(); ++e) {
    if (!shadows[e])
      continue;
    share.copy(e / own, to, share.of(e / own).views[0].as<char>() + e % own * bytes, bytes);
    to += bytes;
  }
  return {};
}

Status pullReduceExperts(Share &share) {
  const View &in = share.mine().views[0], &addend = share.mine().views[2], &out = share.mine().views[3];
  if (Status status = checkShadows(share, in.dims[0]); !status.ok())
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
