//===- Object.cpp - from LLVM dialect to machine code ---------------------===//
#include "moe/Target/Object.h"

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/AArch64TargetParser.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace mlir;
namespace sys = llvm::sys;

static std::unique_ptr<llvm::Module> translate(ModuleOp module, llvm::LLVMContext &context) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  return translateModuleToLLVMIR(module, context, "moeplan");
}

static bool isX86(StringRef cpu) { return llvm::X86::parseArchX86(cpu, /*Only64Bit=*/true) != llvm::X86::CK_None; }

LogicalResult mlir::moe::checkCpu(StringRef cpu, function_ref<InFlightDiagnostic()> emitError) {
  if (cpu.empty() || isX86(cpu) || llvm::AArch64::parseCpu(cpu))
    return success();
  return emitError() << "expected a CPU of x86-64 or AArch64 as LLVM names it, such as x86-64-v3 or grace, but got '"
                     << cpu << "'";
}

/// Triple and CPU of machine code for `name`, or for any CPU of this machine's architecture if it is empty: a plan may
/// run on another machine than it was compiled on.
static std::pair<std::string, std::string> findMachine(StringRef name) {
  if (name.empty()) {
    std::string host = sys::getDefaultTargetTriple();
    return {host, llvm::Triple(host).getArch() == llvm::Triple::x86_64 ? "x86-64" : "generic"};
  }
  if (isX86(name))
    return {"x86_64-unknown-linux-gnu", name.str()};
  return {"aarch64-unknown-linux-gnu", llvm::AArch64::resolveCPUAlias(name).str()};
}

/// Null after an error.
static std::unique_ptr<llvm::TargetMachine> createTargetMachine(ModuleOp module, StringRef cpu) {
  if (failed(moe::checkCpu(cpu, [&] { return emitError(module.getLoc()); })))
    return {};
  auto [triple, name] = findMachine(cpu);
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    emitError(module.getLoc()) << "cannot generate code for " << triple << ": " << error;
    return {};
  }
  // The programs only enqueue, so the code that is made fastest is fast enough.
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, name, /*Features=*/"",
                                                                          llvm::TargetOptions(), llvm::Reloc::PIC_,
                                                                          std::nullopt, llvm::CodeGenOptLevel::None));
}

LogicalResult mlir::moe::emitLLVMIR(ModuleOp module, raw_ostream &os) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translate(module, context);
  if (!translated)
    return failure();
  translated->print(os, nullptr);
  return success();
}

LogicalResult mlir::moe::emitObject(ModuleOp module, llvm::raw_pwrite_stream &os, StringRef cpu) {
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(module, cpu);
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translate(module, context);
  if (!translated)
    return failure();
  translated->setTargetTriple(machine->getTargetTriple().getTriple());
  translated->setDataLayout(machine->createDataLayout());
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::ObjectFile))
    return emitError(module.getLoc()) << "cannot generate an object file for "
                                      << machine->getTargetTriple().getTriple();
  passes.run(*translated);
  return success();
}

namespace {
/// Hides the options of this process while it exists. LLD sets all options of LLVM's command line to their defaults.
class HiddenOptions {
public:
  HiddenOptions() { swap(); }
  ~HiddenOptions() { swap(); }

private:
  void swap() {
    llvm::cl::SubCommand &all = llvm::cl::SubCommand::getTopLevel();
    std::swap(named, all.OptionsMap);
    std::swap(positional, all.PositionalOpts);
    std::swap(sinks, all.SinkOpts);
    std::swap(rest, all.ConsumeAfterOpt);
  }

  decltype(llvm::cl::SubCommand::OptionsMap) named;
  decltype(llvm::cl::SubCommand::PositionalOpts) positional;
  decltype(llvm::cl::SubCommand::SinkOpts) sinks;
  llvm::cl::Option *rest = nullptr;
};
} // namespace

/// Links `object` to `output` by LLD. Its messages become the error.
static LogicalResult link(ModuleOp module, StringRef object, StringRef output) {
  std::string from = object.str(), to = output.str(), messages;
  llvm::raw_string_ostream os(messages);
  const char *arguments[] = {"ld.lld", "-shared", "-s", "--threads=1", "-o", to.c_str(), from.c_str()};
  // LLD has one context in a process.
  static std::mutex oneAtATime;
  std::scoped_lock lock(oneAtATime);
  HiddenOptions hidden;
  bool isLinked = lld::elf::link(arguments, os, os, /*exitEarly=*/false, /*disableOutput=*/false);
  lld::CommonLinkerContext::destroy();
  if (isLinked)
    return success();
  return emitError(module.getLoc()) << "the linker failed: " << StringRef(messages).trim();
}

/// Writes the object file of `module` to a new temporary file.
static LogicalResult writeTemporaryObject(ModuleOp module, StringRef cpu, SmallVectorImpl<char> &path) {
  int file = -1;
  if (std::error_code error = sys::fs::createTemporaryFile("moeplan", "o", file, path))
    return emitError(module.getLoc()) << "cannot write a temporary file: " << error.message();
  llvm::raw_fd_ostream os(file, /*shouldClose=*/true);
  if (failed(moe::emitObject(module, os, cpu)))
    return failure();
  os.close();
  if (!os.has_error())
    return success();
  std::string reason = os.error().message();
  os.clear_error();
  return emitError(module.getLoc()) << "cannot write '" << StringRef(path.data(), path.size()) << "': " << reason;
}

LogicalResult mlir::moe::emitSharedLibrary(ModuleOp module, StringRef path, StringRef cpu) {
  auto cannotWrite = [&](std::error_code error) {
    return emitError(module.getLoc()) << "cannot write '" << path << "': " << error.message();
  };
  // The temporary file is in the target's folder, so that the rename stays in one file system. It is made before the
  // work, so that a bad path fails at once.
  SmallString<128> library, object, target(path);
  if (sys::fs::is_directory(path))
    return cannotWrite(std::make_error_code(std::errc::is_a_directory));
  // A symbolic link is followed, so that its target is replaced and not the link. A device is refused.
  if (sys::fs::exists(path)) {
    if (!sys::fs::is_regular_file(path))
      return emitError(module.getLoc()) << "cannot write '" << path << "': expected a file but it is a device";
    if (std::error_code error = sys::fs::real_path(path, target))
      return cannotWrite(error);
  }
  if (std::error_code error = sys::fs::createUniqueFile(target + ".tmp-%%%%%%%%", library))
    return cannotWrite(error);
  auto removeFiles = llvm::make_scope_exit([&] {
    sys::fs::remove(library);
    if (!object.empty())
      sys::fs::remove(object);
  });
  if (failed(writeTemporaryObject(module, cpu, object)) || failed(link(module, object, library)))
    return failure();
  if (std::error_code error = sys::fs::rename(library, target))
    return cannotWrite(error);
  return success();
}
