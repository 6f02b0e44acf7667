//===- RaggedChoices.h - measured choices of ragged methods ---------------===//
//
// Table of the fastest methods for ragged products. They depend on the device and on the sizes, so moe-calibrate
// --products measures them.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_RAGGEDCHOICES_H
#define MOERT_CUDA_RAGGEDCHOICES_H

#include "core/View.h"
#include "cuda/RaggedProduct.h"

#include <functional>
#include <vector>

namespace moert::cuda {

class RaggedChoices {
public:
  using CanCompute = std::function<bool(RaggedMethod)>;
  struct Entry {
    RaggedProduct product;             ///< without addresses
    std::vector<RaggedMethod> methods; ///< the chosen method, then the measured ones from the fastest to the slowest
  };

  RaggedChoices() = default;
  explicit RaggedChoices(std::vector<Entry> entries) : entries(std::move(entries)) {}

  /// Finds the entry of the same type, pass and transpose whose sizes are nearest, and returns its fastest method that
  /// can compute the product. Empty if no entry or no method suits.
  std::optional<RaggedMethod> choose(const RaggedProduct &product, const CanCompute &canCompute) const;

private:
  std::vector<Entry> entries;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDCHOICES_H
