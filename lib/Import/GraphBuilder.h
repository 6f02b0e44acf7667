//===- GraphBuilder.h - what model graphs are built with --------*- C++ -*-===//
#ifndef MOE_LIB_IMPORT_GRAPHBUILDER_H
#define MOE_LIB_IMPORT_GRAPHBUILDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Import/Import.h"

namespace mlir::moe {

/// A result of a function and its description.
struct NamedResult {
  llvm::StringRef name, role;
  Value value;
};

/// Sums over layers of the results of moe.router_means.
struct RouterSums {
  Value loads, shares, squares;
  int64_t layers = 0;
};

/// Builds `func.func @model` from its start to its end. A parameter becomes an argument at its first use.
class GraphBuilder {
public:
  GraphBuilder(MLIRContext &context, const ModelConfig &config, const LayerSpec &layer, const ImportOptions &options,
               int64_t tokens);

protected:
  RankedTensorType tensor(ArrayRef<int64_t> shape) const { return RankedTensorType::get(shape, elementType); }
  /// The type for routing and losses.
  RankedTensorType accumulator(ArrayRef<int64_t> shape) const { return getAccumulatorTensor(tensor({}), shape); }
  /// Location of `name` at the key that gives the size of that part of the model.
  Location getLoc(const llvm::Twine &name);
  Value addArgument(const llvm::Twine &name, llvm::StringRef role, Type type, ArrayRef<NamedAttribute> more = {});
  /// Adds a parameter with `moe.source` in a whole model. Vectors have `moe.fill` with the value `fill` of a new model.
  /// A bias that is no vector has `moe.no_decay`.
  Value addParameter(const llvm::Twine &name, RankedTensorType type, double fill = 0, bool isBias = false);
  Value addParameter(const llvm::Twine &name, ArrayRef<int64_t> shape, double fill = 0, bool isBias = false) {
    return addParameter(name, tensor(shape), fill, isBias);
  }
  /// Builds the MoE layer, and adds its auxiliary loss to `aux`.
  Value buildLayer(int64_t index, Value x);
  OwningOpRef<ModuleOp> finish(ArrayRef<NamedResult> results);

  OpBuilder builder;
  const ModelConfig &config;
  const LayerSpec &layer;
  const ImportOptions &options;
  int64_t tokens;
  Location location;
  Value aux;                     ///< sum of the layers' losses so far
  RouterSums *routers = nullptr; ///< sums to which layers add their routers' means, for `routerGroups` groups of tokens
  int64_t routerGroups = 1;

private:
  void addRouter(Location loc, Value x, Value gate, Value gateBias);
  DictionaryAttr describe(llvm::StringRef name, llvm::StringRef role, ArrayRef<NamedAttribute> more = {});

  Type elementType;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  SmallVector<DictionaryAttr> argumentAttributes;
};

/// Builds a whole model, or its first options.layers blocks.
OwningOpRef<ModuleOp> buildWholeModel(MLIRContext &context, const ModelConfig &config, const LayerSpec &layer,
                                      const ImportOptions &options, int64_t tokens);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_GRAPHBUILDER_H
