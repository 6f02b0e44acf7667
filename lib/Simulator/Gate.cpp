//===- Gate.cpp - counts of the topology-aware gate -----------------------===//
#include "Gate.h"

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
      // Choice c of all is of part c mod parts.
      int64_t offset = (part - first % parts + parts) % parts;
      divided[part * experts + expert] =
          static_cast<int32_t>(choices[expert] > offset ? (choices[expert] - offset - 1) / parts + 1 : 0);
    }
    first += choices[expert];
  }
  return divided;
}

std::optional<Gate> Gate::get(const SimProgram &program, const SimLaunch &launch) {
  // moert_route's integers: the gate's are the last four, the groups are number 6.
  constexpr size_t numParams = 13;
  if (launch.kernel != "route" || launch.params.size() != numParams || launch.params[9] < 0)
    return std::nullopt;
  RoutedShape shape = getRoutedShape(program, launch);
  Gate gate{launch.params[9], launch.params[10], launch.params[11], launch.params[12],
            launch.params[6], shape.tokens,      shape.topK};
  bool fits = gate.homes > 1 && gate.homeStride > 0 && gate.homeSpan > 0 && gate.groups > 0 && gate.tokens > 0 &&
              shape.experts > 0 && shape.experts % gate.homes == 0;
  return fits ? std::optional(gate) : std::nullopt;
}

/// `amount` in proportion to `weights`, which are not all zero: the largest remainders get what is left, ties the
/// first.
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

/// Adds `amount` in proportion to what there is, evenly where there is nothing; none gets above `most`.
static void fillUp(llvm::MutableArrayRef<int32_t> counts, int64_t amount, int64_t most) {
  while (amount > 0) {
    Weights weights;
    for (int32_t count : counts)
      weights.push_back(count < most ? count : 0);
    if (llvm::all_of(weights, [](int64_t weight) { return weight == 0; }))
      for (auto [weight, count] : llvm::zip_equal(weights, counts))
        weight = count < most;
    // Without room the counts were of other tokens.
    if (llvm::all_of(weights, [](int64_t weight) { return weight == 0; }))
      return;
    for (auto [count, its] : llvm::zip_equal(counts, share(amount, weights))) {
      int64_t added = std::min<int64_t>(its, most - count);
      count += static_cast<int32_t>(added);
      amount -= added;
    }
  }
}

/// One group's choices, at home with block `home`.
static void limit(llvm::MutableArrayRef<int32_t> choices, const Gate &gate, int64_t home) {
  size_t block = choices.size() / gate.homes, begin = home * block;
  Weights away(choices.begin(), choices.end());
  std::fill_n(away.begin() + begin, block, 0);
  int64_t leaving = std::accumulate(away.begin(), away.end(), int64_t(0)), most = gate.topK * gate.leave;
  if (leaving <= most)
    return;
  Weights kept = share(most, away);
  for (size_t expert = 0; expert < choices.size(); ++expert)
    if (expert < begin || expert >= begin + block)
      choices[expert] = static_cast<int32_t>(kept[expert]);
  fillUp(choices.slice(begin, block), leaving - most, gate.tokens / gate.groups);
}

std::vector<int32_t> Gate::apply(llvm::ArrayRef<int32_t> choices, int64_t rank) const {
  std::vector<int32_t> divided = divideChoices(choices, groups), sum(choices.size());
  for (int64_t group = 0; group < groups; ++group) {
    auto its = llvm::MutableArrayRef(divided).slice(group * choices.size(), choices.size());
    limit(its, *this, (rank / homeStride + group / homeSpan) % homes);
    for (auto [total, count] : llvm::zip_equal(sum, its))
      total += count;
  }
  return sum;
}
