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

/// Says which calls this library's own kernels compute on a device because this build's CUTLASS or cuDNN lacks it.
/// Empty if none.
std::string describeOwnKernels(const DeviceContext &device);

// --- Methods -----------------------------------------------------------------

bool canUseTiles(const RaggedProduct &product);
Status multiplyByTiles(const Target &target, const RaggedProduct &product, const int64_t *offsets);

/// Whether this build has CUTLASS's grouped kernels for a device.
bool hasCutlassFor(const DeviceContext &device);
bool canUseCutlass(const Target &target, const RaggedProduct &product);
Status multiplyByCutlass(const Target &target, const RaggedProduct &product, View counts, Tile tile);

} // namespace moert::cuda

#endif // MOERT_CUDA_RAGGEDPRODUCTS_H
