//===- MemoryTest.cpp - memory of a plan on a device ----------------------===//
#include "moe/Dialect/Plan/IR/ProgramMemory.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include "moe/Planner/Planner.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

class MemoryTest : public testing::Test {
protected:
  MemoryTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
  }

  /// A program with the arguments `arguments` and arenas.
  func::FuncOp parse(StringRef arguments, StringRef arenas = "{device = 4096 : i64, host_pinned = 512 : i64}") {
    std::string text =
        ("func.func @rank(" + arguments + ") attributes {plan.arenas = " + arenas + "} { return }").str();
    module = parseSourceString<ModuleOp>(text, &context);
    return module ? *module->getOps<func::FuncOp>().begin() : func::FuncOp();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// Values with the role are parameters, and values that are named after them are gradients. All others, including the
/// gradient of an input, are other values.
TEST_F(MemoryTest, Arguments) {
  func::FuncOp program = parse(R"mlir(
    %x: memref<16x8xf32> {moe.name = "x", moe.role = "input"},
    %w: memref<8x4xf32> {moe.name = "layer0.w1", moe.role = "parameter"},
    %b: memref<4xf64> {moe.name = "layer0.b1", moe.role = "parameter"},
    %ct: memref<16x8xf32> {moe.name = "cotangent.y", moe.role = "cotangent"},
    %y: memref<16x8xf32> {moe.name = "y", moe.role = "output"},
    %gx: memref<16x8xf32> {moe.name = "grad.x", moe.role = "gradient"},
    %gw: memref<8x4xf32> {moe.name = "grad.layer0.w1", moe.role = "gradient"},
    %gb: memref<4xf64> {moe.name = "grad.layer0.b1", moe.role = "gradient"},
    %n: memref<2xi32>)mlir");
  ASSERT_TRUE(program);
  ProgramMemory memory = getMemory(program);
  EXPECT_EQ(memory.parameters, 128 + 32);
  EXPECT_EQ(memory.gradients, 128 + 32);
  EXPECT_EQ(memory.values, 4 * 512 + 8);
  EXPECT_EQ(memory.arena, 4096);
  EXPECT_EQ(memory.pinned, 512);
  // Adam's two moments have the parameters' type. Pinned memory is not the device's.
  EXPECT_EQ(memory.getOptimizerStates(), 2 * 160);
  EXPECT_EQ(memory.getPlanBytes(), 160 + 160 + 2056 + 4096);
  EXPECT_EQ(memory.getDeviceBytes(), memory.getPlanBytes() + 320);
}

/// Without training there is no optimizer.
TEST_F(MemoryTest, Forward) {
  func::FuncOp program = parse(R"mlir(%x: memref<16x8xf32> {moe.name = "x", moe.role = "input"},
    %w: memref<8x4xf32> {moe.name = "w", moe.role = "parameter"}, %y: memref<16x8xf32> {moe.name = "y", moe.role = "output"})mlir",
                               "{device = 64 : i64}");
  ASSERT_TRUE(program);
  ProgramMemory memory = getMemory(program);
  EXPECT_EQ(memory.gradients, 0);
  EXPECT_EQ(memory.pinned, 0);
  EXPECT_EQ(memory.getOptimizerStates(), 0);
  EXPECT_EQ(memory.getDeviceBytes(), 512 + 128 + 512 + 64);
}

/// A parameter with a name like a gradient's is a parameter, and its gradient is a gradient.
TEST_F(MemoryTest, Names) {
  func::FuncOp program = parse(R"mlir(%w: memref<8xf32> {moe.name = "grad.w", moe.role = "parameter"},
    %g: memref<8xf32> {moe.name = "grad.grad.w", moe.role = "gradient"}, %h: memref<2xf32> {moe.name = "grad.w2", moe.role = "gradient"})mlir");
  ASSERT_TRUE(program);
  ProgramMemory memory = getMemory(program);
  EXPECT_EQ(memory.parameters, 32);
  EXPECT_EQ(memory.gradients, 32);
  EXPECT_EQ(memory.values, 8);
}

} // namespace
