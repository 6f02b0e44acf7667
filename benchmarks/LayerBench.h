//===- LayerBench.h - layers of olmoe-1b-7b on hgx-h100 ---------*- C++ -*-===//
#ifndef MOE_BENCHMARKS_LAYERBENCH_H
#define MOE_BENCHMARKS_LAYERBENCH_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Import/Import.h"
#include "moe/Planner/Planner.h"
#include "moe/Support/InputFile.h"

#include <memory>

namespace mlir::moe {

/// Returns the value, or ends the program with the error.
template <typename T> T check(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  llvm::errs() << llvm::toString(value.takeError()) << "\n";
  std::exit(1);
}

/// Workload of the benchmarks, on one thread: layers (64 experts, top 8) in bf16, of 4096 tokens on each data-parallel
/// rank.
class LayerBench {
public:
  LayerBench() : cluster(check(ClusterProfile::load(check(findShareFile("clusters", "hgx-h100"))))) {
    registerDialects(registry);
    context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    std::string path = check(findShareFile("models", "olmoe-1b-7b"));
    auto file = check(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile(path)));
    config = check(parseModelConfig(file->getBuffer(), path));
  }

protected:
  static constexpr int64_t kTokens = 4096;

  /// Imports layers that are dropless, or have a capacity factor of 1.25.
  OwningOpRef<ModuleOp> import(int64_t layers, int64_t dataParallel, bool dropless) {
    ImportOptions import;
    import.seq = kTokens;
    import.layers = layers;
    import.dtype = ImportType::bf16;
    import.dropless = dropless;
    if (!dropless)
      import.capacityFactor = 1.25;
    import.dataParallel = dataParallel;
    return check(importModel(*context, config, import));
  }

  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  ClusterProfile cluster;
  ModelConfig config;
};

} // namespace mlir::moe

#endif // MOE_BENCHMARKS_LAYERBENCH_H
