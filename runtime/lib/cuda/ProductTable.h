//===- ProductTable.h - the file of measured choices of products ----------===//
#ifndef MOERT_CUDA_PRODUCTTABLE_H
#define MOERT_CUDA_PRODUCTTABLE_H

#include "cuda/DenseChoices.h"
#include "cuda/RaggedChoices.h"

namespace moert::cuda {

/// Reads the JSON file that moe-calibrate --products writes. An error names the file and the place in it.
Status readProducts(const std::string &file, RaggedChoices &ragged, DenseChoices &dense);

} // namespace moert::cuda

#endif // MOERT_CUDA_PRODUCTTABLE_H
