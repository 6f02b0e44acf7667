//===- TokenDraw.cpp - how tokens draw their experts ----------------------===//
#include "moe/OpFacts/TokenDraw.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;

/// Probability that a token chooses none of some experts. Its choices differ. If it has none of the experts before, all
/// of its choices fall on the others, and each of these is more likely by that factor. For equal chances this is C(E -
/// n, k) / C(E, k).
static double getChanceOfNone(llvm::ArrayRef<double> chances, int64_t topK) {
  double none = 1, left = static_cast<double>(topK);
  for (double chance : chances) {
    double chosen = chance * static_cast<double>(topK);
    if (chosen >= left)
      return 0;
    none *= 1 - chosen / left;
    left -= chance;
  }
  return none;
}

/// log(n! / (k! (n - k)!))
static double getLogChoices(int64_t n, int64_t k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

double TokenDraw::getChanceOfSome(int64_t first, llvm::ArrayRef<double> chances) const {
  if (chances.size() == 1)
    return chances.front();
  int64_t perGroup = experts / groups, last = first + static_cast<int64_t>(chances.size()) - 1;
  int64_t its = last / perGroup - first / perGroup + 1;
  // Chances within a group from which the token draws, by the mean of its groups.
  llvm::SmallVector<double> group(perGroup);
  double drawn = static_cast<double>(topGroups) / static_cast<double>(groups);
  for (auto [index, chance] : llvm::enumerate(chances))
    group[(first + static_cast<int64_t>(index)) % perGroup] += chance / (drawn * static_cast<double>(its));
  llvm::erase(group, 0.0);
  // The number of its groups among the drawn ones has a hypergeometric distribution.
  double none = 0;
  llvm::SmallVector<double> hit;
  for (int64_t hits = 0; hits <= std::min(its, topGroups); ++hits, llvm::append_range(hit, group))
    if (topGroups - hits <= groups - its)
      none += std::exp(getLogChoices(its, hits) + getLogChoices(groups - its, topGroups - hits) -
                       getLogChoices(groups, topGroups)) *
              getChanceOfNone(hit, topK);
  return std::clamp(1 - none, 0.0, 1.0);
}
