//===- RaggedChoices.cpp - measured choices of ragged methods -------------===//

#include "cuda/RaggedChoices.h"

#include "cuda/DenseChoices.h"

#include <algorithm>

namespace moert::cuda {

/// Distance of two products of the same kind: the sum of the doublings of each size.
static double distanceOf(const RaggedProduct &a, const RaggedProduct &b) {
  auto rowsOf = [](const RaggedProduct &product) {
    return static_cast<double>(product.rows) / std::max(static_cast<double>(product.experts), 1.0);
  };
  return doublings(static_cast<double>(a.experts), static_cast<double>(b.experts)) + doublings(rowsOf(a), rowsOf(b)) +
         doublings(static_cast<double>(a.n), static_cast<double>(b.n)) +
         doublings(static_cast<double>(a.k), static_cast<double>(b.k));
}

std::optional<RaggedMethod> RaggedChoices::choose(const RaggedProduct &product, const CanCompute &canCompute) const {
  const Entry *nearest = nullptr;
  double least = 0;
  for (const Entry &entry : entries) {
    const RaggedProduct &known = entry.product;
    if (known.dtype != product.dtype || known.pass != product.pass || known.transposeB != product.transposeB)
      continue;
    const double distance = distanceOf(known, product);
    if (nearest && distance >= least)
      continue;
    nearest = &entry;
    least = distance;
  }
  if (nearest)
    for (RaggedMethod method : nearest->methods)
      if (canCompute(method))
        return method;
  return std::nullopt;
}

} // namespace moert::cuda
