//===- CudaModule.cpp - the library of CUDA's backends --------------------===//

#include "core/Module.h"
#include "cuda/Backends.h"

static moert::Status create(const std::string &name, std::span<const moert::Program> programs,
                            const std::vector<moert::Group> &groups, int64_t world,
                            const moert::BackendOptions &options, moert::Backend &backend) {
  if (name == "cuda-loopback")
    return moert::cuda::createLoopback(programs, groups, world, options, backend);
  if (options.cudaCaller)
    return moert::cuda::createCaller(programs, groups, world, options, backend);
  return moert::cuda::createDirect(programs, groups, world, options, backend);
}

MOERT_BACKEND_MODULE(create)
