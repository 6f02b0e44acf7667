//===- LayerGraph.h - a model graph of equal layers -------------*- C++ -*-===//
#ifndef MOE_TEST_UNIT_LAYERGRAPH_H
#define MOE_TEST_UNIT_LAYERGRAPH_H

#include "llvm/Support/FormatVariadic.h"

#include <cstdint>
#include <string>

namespace mlir::moe {

/// The layers of a model.
struct Layer {
  int64_t tokens = 512, model = 64, hidden = 64, experts = 4, topK = 1;
  double capacity = 1.25; ///< capacity factor, or 0 for dropless
  int count = 1;          ///< number of equal layers, one behind the other
  std::string dtype = "f32";

  std::string describe() const {
    return llvm::formatv("{0} x {1} {2}, hidden {3}, {4} experts, top {5}, capacity {6}", tokens, model, dtype, hidden,
                         experts, topK, capacity);
  }
  /// The model graph.
  std::string getText() const;
};

inline std::string Layer::getText() const {
  std::string x = llvm::formatv("tensor<{0}x{1}x{2}>", tokens, model, dtype);
  std::string gate = llvm::formatv("tensor<{0}x{1}x{2}>", model, experts, dtype);
  std::string w1 = llvm::formatv("tensor<{0}x{1}x{2}x{3}>", experts, model, hidden, dtype);
  std::string w2 = llvm::formatv("tensor<{0}x{1}x{2}x{3}>", experts, hidden, model, dtype);
  std::string scalar = dtype == "bf16" ? "tensor<f32>" : "tensor<" + dtype + ">";
  std::string arguments = "%y0: " + x + " {moe.name = \"x\", moe.role = \"input\"}", body;
  for (int i = 0; i < count; ++i) {
    for (auto [name, type] : {std::pair("gate", gate), std::pair("w1", w1), std::pair("w2", w2)})
      arguments +=
          llvm::formatv(", %{0}_{1}: {2} {{moe.name = \"layer{1}.{0}\", moe.role = \"parameter\"}", name, i, type);
    body += llvm::formatv(
        "%y{1}, %aux{0} = moe.layer \"layer{0}\" %y{0} gate(%gate_{0}) experts(%w1_{0}, %w2_{0}) "
        "{{top_k = {2} : i64, activation = #moe<activation relu>{3}} : ({4}, {5}, {6}, {7}) -> ({4}, {8})\n",
        i, i + 1, topK, capacity > 0 ? llvm::formatv(", capacity_factor = {0:E} : f64", capacity).str() : "", x, gate,
        w1, w2, scalar);
  }
  return llvm::formatv(
      "func.func @model({0}) -> ({1} {{moe.name = \"y\", moe.role = \"output\"}) {{\n{2}return %y{3} : "
      "{1}\n}\n",
      arguments, x, body, count);
}

} // namespace mlir::moe

#endif // MOE_TEST_UNIT_LAYERGRAPH_H
