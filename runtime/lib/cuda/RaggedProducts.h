//===- RaggedProducts.h - the products of experts whose rows vary ---------===//
//
// Products of rows that are sorted by expert. Only the device knows the number of each expert's rows. Some methods read
// it on the device. The others need it on the host, which then waits.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_RAGGEDPRODUCTS_H
#define MOERT_CUDA_RAGGEDPRODUCTS_H

#include "cuda/Context.h"
#include "cuda/RaggedWork.h"

namespace moert::cuda {

/// Whether this build and the product's type, sizes and alignment allow the method.
bool canCompute(RaggedMethod method, const Target &target, const RaggedProduct &product);

/// Enqueues the product by the given method. Without one, the device's options, its table of measurements, or the first
/// possible method decides.
Status multiplyRagged(const Target &target, RaggedMethod method, const RaggedProduct &product, View counts);
Status multiplyRagged(const Target &target, const RaggedProduct &product, View counts);

// --- Methods -----------------------------------------------------------------

bool canUseTiles(const RaggedProduct &product);
Status multiplyByTiles(const Target &target, const RaggedProduct &product, const int64_t *offsets);

bool canUseCutlass(const Target &target, const RaggedProduct &product);
Status multiplyByCutlass(const Target &target, const RaggedProduct &product, View counts, Tile tile);

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDPRODUCTS_H
