//===- KernelsCollective.cu - sums over members ---------------------------===//

#include "cuda/Copies.h"
#include "cuda/Map.cuh"

namespace moert::cuda {
namespace {

struct Sources {
  const void *data[kMostSources];
  int count;
};

template <class T> struct SumSources {
  Sources sources;
  T *out;

  template <int N> __device__ void run(int64_t at) const {
    // Unsigned, because overflow of a signed sum is undefined.
    using A = std::conditional_t<std::is_same_v<T, uint32_t>, uint32_t, Acc<T>>;
    Pack<A, N> sum{};
    for (int s = 0; s < sources.count; ++s)
      addTo(sum, loadPack<N>(static_cast<const T *>(sources.data[s]) + at));
    storePack(out + at, convertPack<T>(sum));
  }
};

template <class T> Status sumAs(const Target &target, const Sources &sources, void *out, int64_t count) {
  bool aligned = reinterpret_cast<uintptr_t>(out) % 16 == 0;
  for (int s = 0; s < sources.count; ++s)
    aligned &= reinterpret_cast<uintptr_t>(sources.data[s]) % 16 == 0;
  return forElements<kVector<T>>(target, {count}, aligned, SumSources<T>{sources, static_cast<T *>(out)});
}

} // namespace

Status sumSources(const Target &target, std::span<const void *const> sources, void *out, int64_t count, int32_t dtype) {
  if (sources.size() > kMostSources)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "expected at most ", kMostSources, " members to sum over but got ",
                         sources.size());
  Sources all{{}, static_cast<int>(sources.size())};
  std::copy(sources.begin(), sources.end(), all.data);
  if (dtype == MOERT_I32)
    return sumAs<uint32_t>(target, all, out, count);
  return withFloating(dtype, [&]<class T>(Type<T>) { return sumAs<T>(target, all, out, count); });
}

} // namespace moert::cuda
