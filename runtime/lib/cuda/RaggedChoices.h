//===- RaggedChoices.h - measured choices of ragged methods ---------------===//
//
// Which method is the fastest depends on the device and on the sizes. moe-calibrate --products measures that and writes
// the table that is read here.
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
    std::vector<RaggedMethod> methods; ///< the chosen one, then those that were measured, the fastest first
  };

  RaggedChoices() = default;
  explicit RaggedChoices(std::vector<Entry> entries) : entries(std::move(entries)) {}

  /// By the entry of the same type, pass and transpose whose sizes are nearest: its fastest method that can compute the
  /// product. Nothing where no such entry or none of its methods suits.
  std::optional<RaggedMethod> choose(const RaggedProduct &product, const CanCompute &canCompute) const;

private:
  std::vector<Entry> entries;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDCHOICES_H
