//===- CollectivesShadow.cpp - shadows' values, and their gradients -------===//

#include "core/Attributes.h"
#include "host/Collectives.h"

#include <cstring>

namespace moert::host {
Status pullReduceExperts(Share &share) {
  using operands::ReduceExperts;
  const View &addend = share.mine().views[ReduceExperts::addend], &out = share.mine().views[ReduceExperts::out];
  MOERT_RETURN_IF_ERROR(checkExchangeValues(share.mine(), share.size(), share.member));
  MOERT_RETURN_IF_ERROR(checkAlike(share.mine(), share.member, share.of(0)));
  const int32_t *shadows = share.mine().views[ReduceExperts::shadows].as<int32_t>();
  OwnedExperts own(share.mine(), share.member);
  int64_t bytes = own.bytes, place = own.place;
  std::vector<const void *> sources;
  for (int64_t i = 0; i < own.count; ++i) {
    char *to = out.as<char>() + i * bytes;
    const char *added = addend ? addend.as<char>() + i * bytes : nullptr;
    if (shadows[own.first + i]) {
      sources.clear();
      for (const Call *call : share.calls)
        sources.push_back(call->views[ReduceExperts::in].as<char>() + place * bytes);
      // The addend comes last, so that it is added to the sum of the members.
      if (added)
        sources.push_back(added);
      share.received += (share.size() - 1) * bytes;
      MOERT_RETURN_IF_ERROR(sumInOrder(sources, to, own.elements, out.dtype));
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
