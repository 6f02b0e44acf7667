//===- Gate.cpp - counts of the topology-aware gate -----------------------===//
#include "Counts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir::moe;

using Weights = std::vector<int64_t>;

std::vector<int32_t> mlir::moe::divideChoices(llvm::ArrayRef<int32_t> choices, int64_t parts) {
  auto experts = static_cast<int64_t>(choices.size());
  std::vector<int32_t> divided(parts * experts);
  int64_t first = 0;
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (int64_t part = 0; part < parts; ++part) {
      // Choice number c belongs to part c mod parts.
      int64_t offset = (part - first % parts + parts) % parts;
      divided[part * experts + expert] =
          static_cast<int32_t>(choices[expert] > offset ? (choices[expert] - offset - 1) / parts + 1 : 0);
    }
    first += choices[expert];
  }
  return divided;
}

/// Divides `amount` in proportion to `weights`, which are not all zero. The largest remainders round up, the first of
/// equal ones first.
static Weights share(int64_t amount, const Weights &weights) {
  int64_t sum = std::accumulate(weights.begin(), weights.end(), int64_t(0)), given = 0;
  Weights shares(weights.size()), order(weights.size());
  for (auto [index, weight] : llvm::enumerate(weights)) {
    shares[index] = amount * weight / sum;
    given += shares[index];
  }
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return amount * weights[a] % sum > amount * weights[b] % sum; });
  for (int64_t index = 0; index < amount - given; ++index)
    ++shares[order[index]];
  return shares;
}

/// Adds `amount` in proportion to `counts`, or evenly if they are zero. No count gets above `most`.
static void fillUp(llvm::MutableArrayRef<int32_t> counts, int64_t amount, int64_t most) {
  while (amount > 0) {
    Weights weights;
    for (int32_t count : counts)
      weights.push_back(count < most ? count : 0);
    if (llvm::all_of(weights, [](int64_t weight) { return weight == 0; }))
      for (auto [weight, count] : llvm::zip_equal(weights, counts))
        weight = count < most;
    // There is no room if the counts come from other tokens.
    if (llvm::all_of(weights, [](int64_t weight) { return weight == 0; }))
      return;
    for (auto [count, its] : llvm::zip_equal(counts, share(amount, weights))) {
      int64_t added = std::min<int64_t>(its, most - count);
      count += static_cast<int32_t>(added);
      amount -= added;
    }
  }
}

/// Limits the choices of one group, whose home is block `home`.
static void limit(llvm::MutableArrayRef<int32_t> choices, const counts::RouteNearHome &gate, int64_t home) {
  size_t block = choices.size() / gate.homes, begin = home * block;
  Weights away(choices.begin(), choices.end());
  std::fill_n(away.begin() + begin, block, 0);
  int64_t leaving = std::accumulate(away.begin(), away.end(), int64_t(0));
  // This avoids the product topK * leave, which may overflow.
  if (gate.leave >= (leaving + gate.topK - 1) / gate.topK)
    return;
  int64_t most = gate.topK * gate.leave;
  Weights kept = share(most, away);
  for (size_t expert = 0; expert < choices.size(); ++expert)
    if (expert < begin || expert >= begin + block)
      choices[expert] = static_cast<int32_t>(kept[expert]);
  fillUp(choices.slice(begin, block), leaving - most, gate.tokens / gate.groups);
}

std::vector<int32_t> mlir::moe::applyGate(const counts::RouteNearHome &gate, llvm::ArrayRef<int32_t> choices,
                                          int64_t rank) {
  std::vector<int32_t> divided = divideChoices(choices, gate.groups), sum(choices.size());
  for (int64_t group = 0; group < gate.groups; ++group) {
    auto its = llvm::MutableArrayRef(divided).slice(group * choices.size(), choices.size());
    limit(its, gate, (rank / gate.homeStride + group / gate.homeSpan) % gate.homes);
    for (auto [total, count] : llvm::zip_equal(sum, its))
      total += count;
  }
  return sum;
}
