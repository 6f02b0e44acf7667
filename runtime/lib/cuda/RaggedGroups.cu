//===- RaggedGroups.cu - ragged products as grouped kernels read them -----===//

#include "cuda/RaggedGroups.h"

#include "cuda/Map.cuh"
#include "cuda/Ragged.cuh"

namespace moert::cuda {
namespace {

/// Number of products that one launch fills. They travel as its argument.
constexpr size_t kMost = 32;

/// A layer's block has room for a multiple of this number of products from its first step on. A layer with gated
/// experts has 9 products, so later steps, of which one is captured, need no larger block.
constexpr int64_t kRoom = 16;

struct Items {
  RaggedProduct items[kMost];
  int64_t count = 0, experts = 0, elementBytes = 0;
  const void *zeros = nullptr;
};

int64_t bytesOf(int64_t experts) {
  return divideUp(experts * static_cast<int64_t>(3 * sizeof(int32_t) + 6 * sizeof(int64_t)), 16) * 16;
}

/// Places of item `index`'s arrays in a block.
struct Places {
  int64_t *words; ///< a, b, c, and the three distances, of all experts
  int32_t *shapes;

  __host__ __device__ Places(char *block, int64_t index, int64_t experts, int64_t bytes)
      : words(reinterpret_cast<int64_t *>(block + index * bytes)),
        shapes(reinterpret_cast<int32_t *>(words + 6 * experts)) {}
};

__global__ void __launch_bounds__(kThreads)
    fillKernel(Items items, const int64_t *offsets, char *block, int64_t bytes) {
  const int64_t experts = items.experts;
  for (int64_t i = globalThread(); i < items.count * experts; i += globalThreads()) {
    const RaggedProduct &item = items.items[i / experts];
    const int64_t e = i % experts, first = offsets[e], rows = offsets[e + 1] - first, n = item.n, k = item.k;
    const int64_t weights = e * n * k;
    int64_t a = first * k, b = weights, c = first * n, m = rows, depth = k;
    if (item.isWeightGradient()) {
      b = first * n;
      c = weights;
      m = k;
      depth = rows > 0 ? rows : kZeroRows;
    }
    const bool isEmpty = item.isWeightGradient() && rows == 0;
    const Places to(block, i / experts, experts, bytes);
    auto addressOf = [](const void *data, int64_t offset) { return reinterpret_cast<int64_t>(data) + offset; };
    to.words[e] = isEmpty ? addressOf(items.zeros, 0) : addressOf(item.a, a * items.elementBytes);
    to.words[experts + e] = isEmpty ? addressOf(items.zeros, 0) : addressOf(item.b, b * items.elementBytes);
    to.words[2 * experts + e] = addressOf(item.c, c * (item.isWide ? int64_t(sizeof(float)) : items.elementBytes));
    to.words[3 * experts + e] = k;
    to.words[4 * experts + e] = item.transposeB ? k : n;
    to.words[5 * experts + e] = n;
    to.shapes[3 * e] = static_cast<int32_t>(m);
    to.shapes[3 * e + 1] = static_cast<int32_t>(n);
    to.shapes[3 * e + 2] = static_cast<int32_t>(depth);
  }
}

Status fill(const Target &target, const RaggedProduct *products, size_t count, View counts, char *block) {
  Items items;
  items.count = static_cast<int64_t>(count);
  items.experts = products->experts;
  items.elementBytes = static_cast<int64_t>(dtypeSize(products->dtype)); // all products have 16 bits (canUseCutlass)
  int64_t zeroBytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const RaggedProduct &product = products[i];
    items.items[i] = product;
    if (product.isWeightGradient())
      zeroBytes = std::max(zeroBytes, kZeroRows * std::max(product.n, product.k) * items.elementBytes);
  }
  MOERT_RETURN_IF_ERROR(target.device.zerosOf(zeroBytes, items.zeros));
  const int64_t *offsets = nullptr;
  MOERT_RETURN_IF_ERROR(expertOffsets(target, counts, products->rows, offsets));
  return launch(fillKernel, gridOf(target, items.count * items.experts), target, items, offsets, block,
                bytesOf(items.experts));
}

GroupArrays arraysAt(const void *block, size_t index, int64_t experts) {
  const Places places(static_cast<char *>(const_cast<void *>(block)), static_cast<int64_t>(index), experts,
                      bytesOf(experts));
  const auto *addresses = reinterpret_cast<void *const *>(places.words);
  GroupArrays arrays;
  arrays.shapes = places.shapes;
  arrays.a = addresses;
  arrays.b = addresses + experts;
  arrays.c = addresses + 2 * experts;
  arrays.leadingA = places.words + 3 * experts;
  arrays.leadingB = places.words + 4 * experts;
  arrays.leadingC = places.words + 5 * experts;
  return arrays;
}

} // namespace

void RaggedGroups::beginStep() {
  constexpr size_t kMostLists = 4096;
  std::lock_guard lock(mutex);
  if (lists.size() > kMostLists)
    lists.clear();
}

Status RaggedGroups::arraysOf(const Target &target, const RaggedProduct &product, View counts, GroupArrays &arrays) {
  std::lock_guard lock(mutex);
  List &list = lists[{counts.data, product.experts, product.rows}];
  auto found = std::find(list.products.begin(), list.products.end(), product);
  auto index = static_cast<size_t>(found - list.products.begin());
  if (found == list.products.end() && index < kMost)
    list.products.push_back(product);
  const char *block = nullptr;
  const int64_t bytes = bytesOf(product.experts);
  const int64_t room = divideUp(static_cast<int64_t>(list.products.size()), kRoom) * kRoom * bytes;
  MOERT_RETURN_IF_ERROR(
      target.stream.tableOf({RoutingTables::Table::Groups, counts, product.rows}, room, block, [&](char *made) {
        list.filled = list.products.size();
        return fill(target, list.products.data(), list.filled, counts, made);
      }));
  if (index < list.filled) {
    arrays = arraysAt(block, index, product.experts);
    return {};
  }
  auto fillOne = [&](char *made) { return fill(target, &product, 1, counts, made); };
  if (index == kMost) {
    // The arrays belong to this call alone and are not kept.
    char *memory = nullptr;
    MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(bytes, memory));
    arrays = arraysAt(memory, 0, product.experts);
    return fillOne(memory);
  }
  // The product is new in this step.
  MOERT_RETURN_IF_ERROR(target.stream.tableOf({RoutingTables::Table::Groups, counts, -1 - static_cast<int64_t>(index)},
                                              bytes, block, fillOne));
  arrays = arraysAt(block, 0, product.experts);
  return {};
}

} // namespace moert::cuda
