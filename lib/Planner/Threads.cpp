//===- Threads.cpp - candidates on several threads ------------------------===//
#include "Threads.h"

#include "mlir/IR/Threading.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLExtras.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace mlir;
using namespace mlir::moe;

void mlir::moe::forAll(MLIRContext *context, size_t count, function_ref<void(size_t)> run) {
  parallelFor(context, 0, count, run);
#ifdef __GLIBC__
  // glibc keeps the memory that threads have freed: gigabytes with whole models.
  malloc_trim(0);
#endif
}

void mlir::moe::takeWhileFew(MLIRContext *context, size_t count, size_t enough, function_ref<bool(size_t)> isGood,
                             function_ref<bool(size_t)> goesOn) {
  constexpr size_t most = 4;
  size_t good = 0;
  for (size_t first = 0, few = 0; good < enough && first < count; first += few) {
    few = std::min({most, enough - good, count - first});
    SmallVector<char> areGood(few, false);
    forAll(context, few, [&](size_t index) { areGood[index] = isGood(first + index); });
    good += llvm::count(areGood, true);
    if (!goesOn(good))
      return;
  }
}
