//===- Context.cpp - state of a device for kernels ------------------------===//

#include "cuda/Context.h"

#include <algorithm>
#include <charconv>

namespace moert::cuda {

Status DeviceContext::forceMethod(const std::string &name) {
  forcedMethod = findMethod(name);
  if (!forcedMethod && !name.empty())
    return invalid("expected the method ", methodNames(), " for products of experts but got '", name, "'");
  return {};
}

/// Reads the number of multiprocessors for transfers, at most half. It is even, because two multiprocessors of a
/// cluster belong together.
static Status readTransferProcessors(const std::string &text, int all, int &count) {
  constexpr int kDefault = 16;
  const int most = all / 2;
  count = std::min(kDefault, most);
  if (text.empty())
    return {};
  const char *begin = text.data(), *end = begin + text.size();
  const auto [last, error] = std::from_chars(begin, end, count);
  if (error != std::errc() || last != end || count < 0 || count > most || count % 2 != 0)
    return invalid("MOERT_TRANSFER_SMS: expected an even number of multiprocessors from 0 to ", most,
                   ", half of the device's, but got '", text, "'");
  return {};
}

Status DeviceContext::create(const DeviceOptions &options, DeviceContext &context) {
  // Enough for weight gradients of experts without rows: 8 rows (kZeroRows) of 65536 columns in 16 bits.
  constexpr int64_t kFirstZeros = int64_t(1) << 20;
  MOERT_RETURN_IF_ERROR(check(cudaGetDevice(&context.device), "cannot use a CUDA device"));
  int major = 0, minor = 0;
  for (auto [attribute, value] :
       {std::pair(cudaDevAttrMultiProcessorCount, &context.multiProcessors),
        std::pair(cudaDevAttrComputeCapabilityMajor, &major), std::pair(cudaDevAttrComputeCapabilityMinor, &minor)})
    MOERT_RETURN_IF_ERROR(
        check(cudaDeviceGetAttribute(value, attribute, context.device), "cannot read the device's properties"));
  context.isDeterministic = options.deterministic == "1";
  if (!context.isDeterministic && !options.deterministic.empty() && options.deterministic != "0")
    return invalid("MOERT_DETERMINISTIC: expected 0 or 1 but got '", options.deterministic, "'");
  MOERT_RETURN_IF_ERROR(
      readTransferProcessors(options.transferProcessors, context.multiProcessors, context.transferProcessors));
  DenseChoices dense;
  if (!options.choices.empty())
    MOERT_RETURN_IF_ERROR(readProducts(options.choices, context.choices, dense));
  context.mutex = std::make_unique<std::mutex>();
  const void *zeros = nullptr;
  MOERT_RETURN_IF_ERROR(keepPool());
  MOERT_RETURN_IF_ERROR(context.zerosOf(kFirstZeros, zeros));
  context.capability = 10 * major + minor;
  MOERT_RETURN_IF_ERROR(Faults::create(context.faults));
  context.products.choose(std::move(dense));
  return Products::create(options.tf32, options.productBytes, context.multiProcessors, context.products);
}

Status DeviceContext::zerosOf(int64_t bytes, const void *&data) {
  const std::lock_guard<std::mutex> lock(*mutex);
  if (bytes > zeroBytes) {
    MOERT_RETURN_IF_ERROR(allocateZeros(bytes, "zeros", zeros.emplace_back()));
    zeroBytes = bytes;
  }
  data = zeros.empty() ? nullptr : zeros.back().get();
  return {};
}

Status StreamContext::forkAt(size_t i, StreamContext *&fork) {
  while (forks.size() <= i) {
    auto made = std::make_unique<StreamContext>();
    MOERT_RETURN_IF_ERROR(createStream(made->owned));
    made->stream = made->owned.get();
    forks.push_back(std::move(made));
  }
  fork = forks[i].get();
  fork->leftProcessors = leftProcessors;
  return {};
}

Status StreamContext::checkMayWait() const {
  if (!isCapturing)
    return {};
  return Status::error(MOERT_ERROR_UNSUPPORTED, "the host must read values, which a graph cannot wait for");
}

Status StreamContext::readCounts(const View &view, HostCounts::Values &values) const {
  MOERT_RETURN_IF_ERROR(checkMayWait());
  HostCounts none;
  return (counts ? *counts : none).read(stream, view, values);
}

} // namespace moert::cuda
