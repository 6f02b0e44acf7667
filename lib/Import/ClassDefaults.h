//===- ClassDefaults.h - what holds for keys that a config lacks -*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_CLASSDEFAULTS_H
#define MOE_LIB_IMPORT_CLASSDEFAULTS_H

#include "moe/Support/JsonReader.h"

namespace mlir::moe {

/// Adds the defaults that transformers' configuration class of `modelType` gives to missing keys, and the class's other
/// names of keys. An unknown class changes nothing.
void addClassDefaults(JsonReader &reader, llvm::StringRef modelType);

/// True if `key`, at any depth, changes neither the logits nor the loss of any model of transformers.
bool isHarmlessKey(llvm::StringRef key);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_CLASSDEFAULTS_H
