//===- MegatronFlags.h - the arguments of Megatron-LM -----------*- C++ -*-===//
//
// The one table of the arguments that MoePlan reads, writes or ignores.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_MEGATRONFLAGS_H
#define MOE_IMPORT_MEGATRONFLAGS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::moe {

/// Marks a flag that takes all values up to the next flag.
inline constexpr int kManyValues = -1;

struct MegatronFlag {
  llvm::StringRef name; ///< without dashes at its beginning
  int values = 0;       ///< number of values after it
  /// Substitute that MoePlan takes for it; empty if it is taken as it is.
  llvm::StringRef instead = {};
  /// No result of MoePlan depends on it.
  bool isHarmless = false;
  /// Field of Megatron-Bridge's configuration that means the same. A name that ends in '.' is a part of the
  /// configuration, whose field has the name of the flag.
  llvm::StringRef bridge = {};

  std::string getBridgeField() const;
};

/// Null if the flag is not known.
const MegatronFlag *findMegatronFlag(llvm::StringRef name);
/// All names, for suggestions.
llvm::SmallVector<llvm::StringRef> getMegatronFlagNames();

/// Values of --data-parallel-sharding-strategy, by stage of ZeRO.
inline constexpr llvm::StringRef kMegatronShardings[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};

} // namespace mlir::moe

#endif // MOE_IMPORT_MEGATRONFLAGS_H
