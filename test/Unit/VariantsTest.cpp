//===- VariantsTest.cpp - choices of plans of several shapes --------------===//
#include "moe/Conversion/Variants.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <random>

#include "moe/Compiler/Compiler.h"
#include "moe/Target/Object.h"

using namespace mlir;
using namespace mlir::moe;
namespace fs = llvm::sys::fs;

namespace {

class VariantsTest : public testing::Test {
protected:
  VariantsTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    EXPECT_FALSE(fs::createUniqueDirectory("moe-variants-test", directory));
  }
  ~VariantsTest() override {
    if (library)
      dlclose(library);
    fs::remove_directories(directory);
  }

  /// Appends a plan of one launch.
  void add(int64_t batch, int64_t sequence, StringRef schedule, std::optional<std::pair<double, double>> seconds) {
    Builder builder(&context);
    OwningOpRef<ModuleOp> variant = parseSourceString<ModuleOp>(R"mlir(
      module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
        func.func @rank(%x: memref<4xf32>) {
          plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
          return
        }
      })mlir",
                                                                &context);
    (*variant)->setAttr(plan::kScheduleAttrName, builder.getStringAttr(schedule));
    (*variant)->setAttr(plan::kBatchAttrName, builder.getI64IntegerAttr(batch));
    (*variant)->setAttr(plan::kSequenceAttrName, builder.getI64IntegerAttr(sequence));
    if (seconds)
      (*variant)->setAttr(plan::kSecondsAttrName, builder.getF64ArrayAttr({seconds->first, seconds->second}));
    plan->push_back(variant.release());
    ++variants;
  }

  using Choose = int64_t (*)(int64_t batch, int64_t sequence);
  /// Choice function of the plan. Null after a failure.
  Choose load() {
    EXPECT_EQ(plan::getVariants(*plan).size(), variants);
    std::string path = (directory + "/plan.so").str();
    if (failed(lowerToLLVM(*plan)) || failed(emitSharedLibrary(*plan, path)))
      return nullptr;
    library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!library)
      return nullptr;
    EXPECT_NE(dlsym(library, "moeplan_v0_rank"), nullptr);
    return reinterpret_cast<Choose>(dlsym(library, "moeplan_choose"));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> plan = ModuleOp::create(UnknownLoc::get(&context));
  size_t variants = 0;
  SmallString<128> directory;
  void *library = nullptr;
};

/// The least alpha + beta * tokens of the shape is chosen, the first of equal ones. A shape's only variant needs no
/// seconds.
TEST_F(VariantsTest, Least) {
  add(2, 64, "s1", {{1.0, 0.5}});
  add(2, 64, "s2", {{2.0, 0.25}});
  add(64, 2, "s1", {{1.0, 0.0}});
  add(64, 2, "s2", {{0.0, 1.0 / 128}});
  add(1, 1, "s1", {{0.5, 1.0}});
  add(1, 1, "s2", {{2.0, 1.0}});
  add(4, 64, "baseline", std::nullopt);
  add(4, 128, "s1", {{-3.0, 0.0}});
  Choose choose = load();
  ASSERT_NE(choose, nullptr);
  EXPECT_EQ(choose(2, 64), 1);
  EXPECT_EQ(choose(64, 2), 2);
  EXPECT_EQ(choose(1, 1), 4);
  EXPECT_EQ(choose(4, 64), 6);
  EXPECT_EQ(choose(4, 128), 7);
  for (auto [batch, sequence] : std::vector<std::pair<int64_t, int64_t>>{
           {128, 1}, {4, 2}, {0, 0}, {-1, -1}, {-2, -64}, {INT64_MIN, INT64_MIN}, {INT64_MAX, 2}, {2, 65}})
    EXPECT_EQ(choose(batch, sequence), -1) << batch << " x " << sequence;
}

/// All sums are rounded to f64, so that all ranks, and the compiler, agree if the times are almost equal.
TEST_F(VariantsTest, Rounding) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> factor(1e-7, 1e-6);
  std::vector<int64_t> expected;
  constexpr int64_t sequence = 321;
  for (int64_t batch = 1; batch <= 100; ++batch) {
    auto tokens = static_cast<double>(batch * sequence);
    double beta1 = factor(random), beta2 = factor(random), alpha1 = 0.1;
    // Makes the sums equal up to rounding.
    double alpha2 = alpha1 + (beta1 - beta2) * tokens;
    volatile double product1 = beta1 * tokens, product2 = beta2 * tokens;
    auto first = static_cast<int64_t>(variants);
    expected.push_back(alpha2 + product2 < alpha1 + product1 ? first + 1 : first);
    add(batch, sequence, "s1", {{alpha1, beta1}});
    add(batch, sequence, "s2", {{alpha2, beta2}});
  }
  Choose choose = load();
  ASSERT_NE(choose, nullptr);
  for (int64_t batch = 1; batch <= 100; ++batch)
    EXPECT_EQ(choose(batch, sequence), expected[static_cast<size_t>(batch - 1)]) << batch;
}

} // namespace
