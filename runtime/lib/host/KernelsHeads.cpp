//===- KernelsHeads.cpp - heads with columns that all share ----------------===//

#include "host/KernelSupport.h"

namespace moert::host {

void appendToHeads(Checker &, View x, View shared, View out) {
  const HeadShape shape(x, shared, out);
  withFloating(out.dtype, [&]<class T>(T) {
    const T *own = x.as<const T>(), *common = shared.as<const T>();
    T *to = out.as<T>();
    for (int64_t s = 0; s < out.dims[0]; ++s, common += shape.shared)
      for (int64_t h = 0; h < shape.heads; ++h, own += shape.own)
        to = std::copy_n(common, shape.shared, std::copy_n(own, shape.own, to));
  });
}

void appendToHeadsGrad(Checker &, View grads, View gradX, View gradShared) {
  const HeadShape shape(gradX, gradShared, grads);
  withFloating(grads.dtype, [&]<class T>(T) {
    struct Tag;
    auto *sums = scratch<Tag, Wide<T>>(shape.shared);
    const T *from = grads.as<const T>();
    T *own = gradX.as<T>(), *common = gradShared.as<T>();
    for (int64_t s = 0; s < grads.dims[0]; ++s) {
      std::fill_n(sums, shape.shared, Wide<T>(0));
      for (int64_t h = 0; h < shape.heads; ++h, from += shape.own + shape.shared) {
        own = std::copy_n(from, shape.own, own);
        addTo(sums, from + shape.own, shape.shared);
      }
      common = std::transform(sums, sums + shape.shared, common, [](Wide<T> sum) { return static_cast<T>(sum); });
    }
  });
}

} // namespace moert::host
