//===- RaggedProducts.h - the products of experts whose rows vary ---------===//
//
// Rows are sorted by expert, and only the device knows how many each expert has. Some methods read that on the device;
// others must know it on the host, which then waits.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_RAGGEDPRODUCTS_H
#define MOERT_CUDA_RAGGEDPRODUCTS_H

#include "cuda/Context.h"

namespace moert::cuda {

/// Whether this build and the product's type, sizes and alignment allow the method.
bool canCompute(RaggedMethod method, const Target &target, const RaggedProduct &product);

/// Enqueues the product by that method; or by the one that the device's options name, by the one that its table of
/// measurements has, or by the first one that can.
Status multiplyRagged(const Target &target, RaggedMethod method, const RaggedProduct &product, View counts);
Status multiplyRagged(const Target &target, const RaggedProduct &product, View counts);

// --- Methods -----------------------------------------------------------------

bool canUseTiles(const RaggedProduct &product);
Status multiplyByTiles(const Target &target, const RaggedProduct &product, const int64_t *offsets);

bool canUseCutlass(const Target &target, const RaggedProduct &product);
Status multiplyByCutlass(const Target &target, const RaggedProduct &product, View counts, bool isPingpong);

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDPRODUCTS_H
