//===- KernelsMerge.cpp - one row for all choices of a holder --------------===//
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

/// Choices of one token among this member's experts, and their holders. Dropped choices have none.
class TokenChoices {
public:
  TokenChoices(const int32_t *experts, const int32_t *dropped, int64_t choices, int64_t holders,
               const MergeOptions &options)
      : experts(experts), dropped(dropped), choices(choices), first(options.firstExpert()), own(options.ownExperts()),
        perHolder(own / holders) {}

  /// Holder of choice j; -1 if the choice is dropped, or if this member does not have its expert.
  int64_t holder(int64_t j) const {
    const int64_t expert = experts[j] - first;
    return expert < 0 || expert >= own || (dropped && dropped[j] < 0) ? -1 : expert / perHolder;
  }
  /// Whether no earlier choice has the same holder.
  bool isFirst(int64_t j) const {
    for (int64_t before = 0; before < j; ++before)
      if (holder(before) == holder(j))
        return false;
    return true;
  }
  /// Calls visit(j, holder) for each choice that has a holder.
  template <class Visit> void forEach(Visit visit) const {
    for (int64_t j = 0; j < choices; ++j)
      if (const int64_t its = holder(j); its >= 0)
        visit(j, its);
  }

private:
  const int32_t *experts, *dropped;
  int64_t choices, first, own, perHolder;
};

/// Number of tokens that have choices.
int64_t usedTokens(Checker &check, View experts, View used) {
  if (!used)
    return experts.dims[0];
  const std::vector<int64_t> &offsets = readCounts(check, used, experts.dims[0]);
  return check.ok() ? offsets.back() : 0;
}

} // namespace

void mergeChoices(Checker &check, View experts, View dropped, View used, View slots, View counts, View sent,
                  const MergeOptions &options) {
  const int64_t tokens = usedTokens(check, experts, used), choices = experts.dims[1], holders = counts.dims[1];
  if (!check.ok())
    return;
  auto of = [&](int64_t s) {
    const int32_t *drops = dropped ? dropped.as<const int32_t>() + s * choices : nullptr;
    return TokenChoices(experts.as<const int32_t>() + s * choices, drops, choices, holders, options);
  };
  int32_t *count = counts.as<int32_t>();
  std::fill_n(count, holders, 0);
  for (int64_t s = 0; s < tokens; ++s)
    of(s).forEach([&](int64_t j, int64_t holder) { count[holder] += of(s).isFirst(j); });
  const int64_t rows = std::accumulate(count, count + holders, int64_t(0)), room = sent.dims[0];
  check.require(MOERT_ERROR_OVERFLOW, rows <= room, rows, " rows of tokens are sent, with room for ", room);
  if (!check.ok())
    return;
  struct Tag;
  auto *next = scratch<Tag, int32_t>(holders);
  std::exclusive_scan(count, count + holders, next, 0);
  std::fill_n(slots.as<int32_t>(), slots.elements(), -1);
  std::fill_n(sent.as<int32_t>(), sent.elements(), -1);
  for (int64_t s = 0; s < tokens; ++s)
    of(s).forEach([&](int64_t j, int64_t holder) {
      if (of(s).isFirst(j))
        slots.as<int32_t>()[s * choices + j] = next[holder]++;
      sent.as<int32_t>()[(next[holder] - 1) * choices + j] = experts.as<const int32_t>()[s * choices + j];
    });
}

} // namespace moert::host
