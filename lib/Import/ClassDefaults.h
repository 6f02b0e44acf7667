//===- ClassDefaults.h - what holds for keys that a config lacks -*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_CLASSDEFAULTS_H
#define MOE_LIB_IMPORT_CLASSDEFAULTS_H

#include "moe/Support/JsonReader.h"

namespace mlir::moe {

/// From here on a key that `reader`'s object lacks has the value that transformers' configuration class of `modelType`
/// gives it, and the class's other names of keys are known. Without a class of that name nothing changes.
void addClassDefaults(JsonReader &reader, llvm::StringRef modelType);

/// Whether `key`, at any depth, changes neither the logits nor the loss of any model that transformers makes of a
/// configuration with it.
bool isHarmlessKey(llvm::StringRef key);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_CLASSDEFAULTS_H
