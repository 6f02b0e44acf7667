//===- RaggedProduct.cpp - the methods of products of experts -------------===//

#include "cuda/RaggedProduct.h"

#include <iterator>

namespace moert::cuda {

const char *methodName(RaggedMethod method) {
  switch (method) {
  case RaggedMethod::Tiles:
    return "tiles";
  case RaggedMethod::CutlassCooperative:
    return "cutlass-cooperative";
  case RaggedMethod::CutlassPingpong:
    return "cutlass-pingpong";
  case RaggedMethod::CublasGrouped:
    return "cublas-grouped";
  case RaggedMethod::CublasLt1:
    return "cublaslt-1";
  case RaggedMethod::CublasLt2:
    return "cublaslt-2";
  case RaggedMethod::CublasLt4:
    return "cublaslt-4";
  }
  return "";
}

std::optional<RaggedMethod> findMethod(std::string_view name) {
  for (RaggedMethod method : kRaggedMethods)
    if (methodName(method) == name)
      return method;
  return std::nullopt;
}

std::string methodNames() {
  std::string names;
  for (RaggedMethod method : kRaggedMethods) {
    const bool isLast = method == *std::rbegin(kRaggedMethods);
    names += (names.empty() ? "" : isLast ? " or " : ", ") + std::string(methodName(method));
  }
  return names;
}

} // namespace moert::cuda
