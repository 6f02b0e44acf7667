//===- TargetTest.cpp - shared libraries and memory reports ---------------===//
#include "moe/Target/Object.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "moe/Dialect/Plan/Transforms/MemoryReport.h"

using namespace mlir;
namespace fs = llvm::sys::fs;

namespace {

class TargetTest : public testing::Test {
protected:
  TargetTest() {
    context.loadDialect<func::FuncDialect, LLVM::LLVMDialect, plan::PlanDialect>();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) { messages.push_back(diagnostic.str()); });
    EXPECT_FALSE(fs::createUniqueDirectory("moe-target-test", directory));
  }
  ~TargetTest() override { fs::remove_directories(directory); }

  OwningOpRef<ModuleOp> parse(StringRef text) { return parseSourceString<ModuleOp>(text, &context); }
  std::string path(StringRef name) { return (directory + "/" + name).str(); }
  /// Number of files that the test has left.
  int countFiles() {
    std::error_code error;
    int count = 0;
    for (fs::directory_iterator it(directory, error), end; it != end && !error; it.increment(error))
      ++count;
    return count;
  }

  MLIRContext context;
  SmallString<128> directory;
  std::vector<std::string> messages;
};

constexpr const char *kLibrary = R"mlir(
  llvm.mlir.global external constant @moeplan_metadata("{}\00") : !llvm.array<3 x i8>
  llvm.func @moeplan_rank(%rank: !llvm.ptr) -> i32 {
    %0 = llvm.mlir.constant(7 : i32) : i32
    llvm.return %0 : i32
  })mlir";

/// A library exports the symbols of the runtime, and no temporary file stays in its folder.
TEST_F(TargetTest, SharedLibraryLoads) {
  auto module = parse(kLibrary);
  // The linker's own options do not change those of this process.
  llvm::cl::opt<std::string> option("moe-target-test", llvm::cl::init("default"));
  option = "given";
  ASSERT_TRUE(succeeded(moe::emitSharedLibrary(*module, path("plan.so"))));
  EXPECT_EQ(option.getValue(), "given");
  EXPECT_EQ(countFiles(), 1);
  void *library = dlopen(path("plan.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_STREQ(static_cast<const char *>(dlsym(library, "moeplan_metadata")), "{}");
  auto rank = reinterpret_cast<int32_t (*)(void *)>(dlsym(library, "moeplan_rank"));
  ASSERT_NE(rank, nullptr);
  EXPECT_EQ(rank(nullptr), 7);
  dlclose(library);
}

/// The error of a path that cannot be written names it, and no file is left behind.
TEST_F(TargetTest, SharedLibraryNeedsAWritablePath) {
  auto module = parse(kLibrary);
  EXPECT_TRUE(failed(moe::emitSharedLibrary(*module, path("missing/plan.so"))));
  EXPECT_TRUE(failed(moe::emitSharedLibrary(*module, directory)));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0], "cannot write '" + path("missing/plan.so") + "': No such file or directory");
  EXPECT_EQ(messages[1], "cannot write '" + directory.str().str() + "': Is a directory");
  EXPECT_EQ(countFiles(), 0);
}

/// An object file for a CPU is one of its architecture.
TEST_F(TargetTest, ObjectIsForTheCpu) {
  auto module = parse(kLibrary);
  auto machineOf = [&](StringRef cpu) -> int {
    SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream os(bytes);
    if (failed(moe::emitObject(*module, os, cpu)))
      return -1;
    return reinterpret_cast<const llvm::ELF::Elf64_Ehdr *>(bytes.data())->e_machine;
  };
  EXPECT_EQ(machineOf("x86-64-v3"), llvm::ELF::EM_X86_64);
  EXPECT_EQ(machineOf("grace"), llvm::ELF::EM_AARCH64);
  for (StringRef cpu : {"i386", "ampere"})
    EXPECT_EQ(machineOf(cpu), -1);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1],
            "expected a CPU of x86-64 or AArch64 as LLVM names it, such as x86-64-v3 or grace, but got 'ampere'");
}

/// At the launch of "b" 256 bytes and 64 bytes are alive. The buffer that "c" takes over in place counts once.
TEST_F(TargetTest, MemoryReportListsThePeak) {
  auto module = parse(R"mlir(
    func.func @rank(%x: memref<64xf32>)
        attributes {plan.inputs = 1 : i64, plan.arenas = {device = 320 : i64, host_pinned = 0 : i64}} {
      %0 = plan.buffer {offset = 256 : i64} : memref<16xf32, #plan<space device>>
      %1 = plan.buffer {offset = 0 : i64} : memref<64xf32, #plan<space device>>
      %2 = plan.buffer {offset = 0 : i64} : memref<64xf32, #plan<space device>>
      plan.launch "a"(%x) -> (%0) on "compute" {label = "first"}
        : (memref<64xf32>) -> memref<16xf32, #plan<space device>>
      plan.launch "b"(%x) -> (%1) on "compute" {label = "second"}
        : (memref<64xf32>) -> memref<64xf32, #plan<space device>>
      plan.launch "c"(%1, %0) -> (%2) on "compute" {in_place = array<i64: 0>}
        : (memref<64xf32, #plan<space device>>, memref<16xf32, #plan<space device>>) -> memref<64xf32, #plan<space device>>
      return
    })mlir");
  auto reports = plan::reportMemory(*module->getOps<func::FuncOp>().begin());
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].space, plan::Space::device);
  EXPECT_EQ(reports[0].arenaBytes, 320);
  EXPECT_EQ(reports[0].liveBytes, 320);
  EXPECT_EQ(reports[0].peak.getKernel(), "b");
  ASSERT_EQ(reports[0].live.size(), 2u);
  EXPECT_EQ(reports[0].live[0].bytes, 256);
  EXPECT_EQ(reports[0].live[0].getLabel(), "second");
  EXPECT_EQ(reports[0].live[0].offset, 0);
  EXPECT_EQ(reports[0].live[1].bytes, 64);
  EXPECT_EQ(reports[0].live[1].getLabel(), "first");
  EXPECT_EQ(reports[1].liveBytes, 0);
  EXPECT_TRUE(reports[1].live.empty());
}

} // namespace
