//===- Torchtitan.h - what torchtitan has for a model -----------*- C++ -*-===//
#ifndef MOE_LIB_FRAMEWORKS_TORCHTITAN_H
#define MOE_LIB_FRAMEWORKS_TORCHTITAN_H

#include "llvm/Support/VersionTuple.h"
#include "llvm/Support/raw_ostream.h"

#include "moe/Import/ModelConfig.h"

namespace mlir::moe {

/// First version of torchtitan whose jobs are Python.
inline constexpr llvm::VersionTuple kTorchtitanInPython{0, 3};

/// A model of torchtitan, in one version. Reasons are empty for features that it has.
struct TorchtitanModel {
  StringRef name;   ///< name of its folder; empty if torchtitan has no such model
  StringRef flavor; ///< with the sizes of the model; empty if there is none
  std::string noPipeline, noTensor, noExperts, noContext;
  std::string noExpertsAlone; ///< reason why experts are not divided without tensor parallelism
  bool hasDeepEp = false;
};

/// Number of blocks without experts.
int64_t countDenseBlocks(const ModelSpec &model);

/// The model of `version` that `config` is one of.
TorchtitanModel findTorchtitanModel(const ModelConfig &config, const llvm::VersionTuple &version);
/// Parts of the model that torchtitan has no argument for.
std::vector<std::string> findTorchtitanGaps(const TorchtitanModel &model, const ModelConfig &config,
                                            const llvm::VersionTuple &version);
/// Whether the flavor of torchtitan 0.2 computes attention by FlexAttention, which has no context parallelism there.
bool usesFlexAttention(const TorchtitanModel &model);

/// Writes Python, each line behind `prefix`, that adds the flavor "moeplan" to torchtitan 0.2: a flavor of torchtitan
/// without FlexAttention, or the sizes of `config` if no flavor has them.
void writeTorchtitanFlavor(const TorchtitanModel &model, const ModelConfig &config, StringRef prefix,
                           llvm::raw_ostream &os);

/// Parts of a model's module in torchtitan 0.3.
struct TorchtitanModule {
  StringRef base;   ///< flavor whose sizes are replaced
  StringRef layers; ///< function that describes the layers
};
TorchtitanModule getTorchtitanModule(StringRef name, const ModelConfig &config);
/// Writes Python that gives the `spec` of a model of torchtitan 0.3 the sizes of `config`. `attention` and `dispatcher`
/// are names of torchtitan.
void writeTorchtitanSizes(const TorchtitanModel &model, const ModelConfig &config, int64_t sequence,
                          StringRef attention, StringRef dispatcher, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_LIB_FRAMEWORKS_TORCHTITAN_H
