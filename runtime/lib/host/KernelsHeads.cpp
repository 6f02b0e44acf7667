//===- KernelsHeads.cpp - heads with columns that all share ----------------===//

#include "host/ModelSupport.h"

namespace moert::host {
namespace {

/// A row of heads, each of its own columns and then the shared ones.
struct HeadShape {
  int64_t heads, own, shared;
};

/// The shape that `own` [S, H D] and `shared` [S, R] give `all` [S, H (D + R)], which is checked.
HeadShape checkHeads(Checker &check, const char *ownName, View own, const char *sharedName, View shared,
                     const char *allName, View all) {
  check.floating(allName, all).rank(allName, all, 2, 2).rank(ownName, own, 2, 2).rank(sharedName, shared, 2, 2);
  check.shape(ownName, own, all.dtype, {all.dims[0], own.dims[1]});
  check.shape(sharedName, shared, all.dtype, {all.dims[0], shared.dims[1]});
  const int64_t rest = all.dims[1] - own.dims[1], heads = shared.dims[1] > 0 ? rest / shared.dims[1] : 0;
  const bool fits = heads > 0 && heads * shared.dims[1] == rest && own.dims[1] > 0 && own.dims[1] % heads == 0;
  check.that(fits, [&] {
    return joined("expected '", allName, "' of heads with columns of '", ownName, "' ", shapeText(own),
                  " and with all of '", sharedName, "' ", shapeText(shared), " but got ", shapeText(all));
  });
  return fits ? HeadShape{heads, own.dims[1] / heads, shared.dims[1]} : HeadShape{};
}

template <class T> struct AddRow {
  static MOERT_INLINE void run(const T *in, double *sum, int64_t count) { addTo(sum, in, count); }
};

} // namespace

Status appendToHeads(View x, View shared, View out) {
  Checker check("append_to_heads");
  const HeadShape shape = checkHeads(check, "x", x, "shared", shared, "out", out);
  if (!check.ok())
    return check.take();
  withFloating(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *own = x.as<const T>(), *common = shared.as<const T>();
    T *to = out.as<T>();
    for (int64_t s = 0; s < out.dims[0]; ++s, common += shape.shared)
      for (int64_t h = 0; h < shape.heads; ++h, own += shape.own)
        to = std::copy_n(common, shape.shared, std::copy_n(own, shape.own, to));
  });
  return {};
}

Status appendToHeadsGrad(View grads, View gradX, View gradShared) {
  Checker check("append_to_heads_grad");
  const HeadShape shape = checkHeads(check, "grad_x", gradX, "grad_shared", gradShared, "grads", grads);
  if (!check.ok())
    return check.take();
  withFloating(grads.dtype, [&](auto zero) {
    using T = decltype(zero);
    struct Tag;
    double *sums = scratch<Tag, double>(shape.shared);
    const T *from = grads.as<const T>();
    T *own = gradX.as<T>(), *common = gradShared.as<T>();
    for (int64_t s = 0; s < grads.dims[0]; ++s) {
      std::fill_n(sums, shape.shared, 0.0);
      for (int64_t h = 0; h < shape.heads; ++h, from += shape.own + shape.shared) {
        own = std::copy_n(from, shape.own, own);
        runVectorised<AddRow<T>>(from + shape.own, sums, shape.shared);
      }
      common = std::transform(sums, sums + shape.shared, common, [](double sum) { return static_cast<T>(sum); });
    }
  });
  return {};
}

} // namespace moert::host
