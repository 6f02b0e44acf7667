//===- RoutingSource.cpp - choices of experts for any plan ----------------===//
#include "moe/Simulator/RoutingSource.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <numeric>

using namespace mlir::moe;
using llvm::Expected;

/// The largest remainders round up first. A token chooses an expert at most once, so the excess goes to the next
/// expert.
std::vector<int32_t> mlir::moe::scaleCounts(llvm::ArrayRef<int32_t> counts, int64_t tokens, int64_t topK) {
  double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  int64_t left = tokens * topK;
  std::vector<int32_t> scaled(counts.size());
  std::vector<double> remainders(counts.size());
  for (auto [count, result, remainder] : llvm::zip_equal(counts, scaled, remainders)) {
    double share = total > 0 ? count / total * static_cast<double>(tokens * topK) : 0;
    result = static_cast<int32_t>(std::min(share, static_cast<double>(tokens)));
    remainder = share - result;
    left -= result;
  }
  auto order = llvm::to_vector(llvm::seq<size_t>(0, counts.size()));
  llvm::stable_sort(order, [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  while (left > 0)
    for (size_t expert : order)
      if (left > 0 && scaled[expert] < tokens) {
        ++scaled[expert];
        --left;
      }
  return scaled;
}

Expected<RoutingTrace> RoutingSource::getTrace(const std::vector<SimProgram> &programs, int64_t ranks) const {
  Expected<RoutedShape> shape = getRoutedShape(programs.front());
  if (!shape)
    return shape.takeError();
  if (shape->experts == 0)
    return RoutingTrace();
  auto layers = static_cast<int64_t>(programs.front().routedLayers.size());
  if (!trace)
    return synthetic.generate(ranks, layers, shape->experts, shape->tokens, shape->topK);
  if (trace->getNumExperts() != shape->experts)
    return llvm::createStringError("expected a routing trace of " + llvm::Twine(shape->experts) + " experts but got " +
                                   llvm::Twine(trace->getNumExperts()));
  RoutingTrace fitted;
  int64_t iteration = trace->getIterations().front();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::vector<int32_t> *counts = trace->getCounts(iteration, std::min(layer, trace->getNumLayers() - 1));
    if (!counts)
      return llvm::createStringError("expected layer " + llvm::Twine(layer) +
                                     " in the routing trace's first iteration");
    std::vector<int32_t> all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t from = rank * trace->getNumRanks() / ranks;
      llvm::append_range(all, scaleCounts(llvm::ArrayRef(*counts).slice(from * shape->experts, shape->experts),
                                          shape->tokens, shape->topK));
    }
    fitted.setCounts(iteration, layer, ranks, shape->experts, std::move(all));
  }
  return fitted;
}
