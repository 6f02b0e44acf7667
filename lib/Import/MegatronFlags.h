//===- MegatronFlags.h - what each argument of Megatron-LM means -*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_MEGATRONFLAGS_H
#define MOE_LIB_IMPORT_MEGATRONFLAGS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::moe {

/// The number of values of a flag that takes as many as follow.
inline constexpr int kManyValues = -1;

struct MegatronFlag {
  llvm::StringRef name; ///< without dashes at its beginning
  int values = 0;       ///< how many it takes
  /// Nothing that MoePlan computes depends on it.
  bool isHarmless = false;
  /// What MoePlan takes it for, where that is something else; empty: it is taken as it is.
  llvm::StringRef instead = {};
};

/// Null where it is not known.
const MegatronFlag *findMegatronFlag(llvm::StringRef name);
/// The names of all, for suggestions.
llvm::SmallVector<llvm::StringRef> getMegatronFlagNames();

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_MEGATRONFLAGS_H
