//===- CudaKernelsTest.cpp - CUDA's kernels against the host's ------------===//

#include "CudaKernelsTest.h"

#include "core/Convert.h"
#include "cuda/CudaKernels.h"
#include "cuda/RaggedGroups.h"
#include "host/Kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <unistd.h>

#ifdef MOERT_CUDA_EMULATION
#include "emulation/Emulation.h"
#endif

namespace moert::cuda {
namespace {

constexpr int32_t kOp = 7;

/// Skips all tests if there is no device.
class NeedsDevice : public ::testing::Environment {
  void SetUp() override {
    int count = 0;
    Status status = check(cudaGetDeviceCount(&count), "cannot find CUDA devices");
    // A driver without a device is an error.
    if (!status.ok() && access("/dev/nvidiactl", F_OK) != 0)
      GTEST_SKIP() << "no NVIDIA driver: " << status.message;
    ASSERT_TRUE(status.ok()) << status.message;
  }
};
[[maybe_unused]] const auto *const needsDevice = ::testing::AddGlobalTestEnvironment(new NeedsDevice);

int64_t elementsOf(const Operand &operand) {
  return std::accumulate(operand.dims.begin(), operand.dims.end(), int64_t(1), std::multiplies<>());
}

/// Calls function(T{}) with the element type T of a dtype.
template <class Function> void withElement(int32_t dtype, Function function) {
  dtype == MOERT_I32 ? function(int32_t{}) : withAnyFloating(dtype, function);
}

template <class To, class From> To convertElement(From value) {
  if constexpr (std::is_same_v<To, int32_t> || std::is_same_v<From, int32_t>)
    return static_cast<To>(value);
  else
    return moert::convert<To>(value);
}

void writeElements(void *data, int32_t dtype, const std::vector<double> &values) {
  withElement(dtype, [&, from = values.data(), count = values.size()](auto zero) {
    auto *to = static_cast<decltype(zero) *>(data);
    for (size_t i = 0; i < count; ++i)
      to[i] = convertElement<decltype(zero)>(from[i]);
  });
}

void readElements(const void *data, int32_t dtype, std::vector<double> &values) {
  withElement(dtype, [&, to = values.data(), count = values.size()](auto zero) {
    auto *from = static_cast<const decltype(zero) *>(data);
    for (size_t i = 0; i < count; ++i)
      to[i] = convertElement<double>(from[i]);
  });
}

std::vector<double> rounded(std::vector<double> values, int32_t dtype) {
  withElement(dtype, [to = values.data(), count = values.size()](auto zero) {
    for (size_t i = 0; i < count; ++i)
      to[i] = convertElement<double>(convertElement<decltype(zero)>(to[i]));
  });
  return values;
}

View viewOf(const Operand &operand, int32_t dtype, void *data) {
  if (!operand.isThere)
    return {};
  View view;
  view.data = data;
  view.dtype = dtype;
  view.rank = static_cast<int64_t>(operand.dims.size());
  std::copy(operand.dims.begin(), operand.dims.end(), view.dims.begin());
  return view;
}

std::vector<char> bytesOf(const Operand &operand, int32_t dtype) {
  std::vector<char> bytes(operand.values.size() * dtypeSize(dtype) + 1);
  writeElements(bytes.data(), dtype, operand.values);
  return bytes;
}

/// Runs a call on the host. Its kernels support 16-bit types only in conversions.
Status runOnHost(Kind kind, std::vector<Operand> &operands, const KernelCall &call) {
  std::vector<std::vector<char>> memory;
  std::vector<View> views;
  auto wide = [=](const Operand &operand) {
    return isNarrow(operand.dtype) && kind != Kind::Cast ? int32_t(MOERT_F32) : operand.dtype;
  };
  for (const Operand &operand : operands) {
    memory.push_back(bytesOf(operand, wide(operand)));
    views.push_back(viewOf(operand, wide(operand), memory.back().data()));
  }
  host::HostKernels kernels;
  Status status = call(kernels, views);
  for (size_t i = 0; i < operands.size(); ++i)
    readElements(memory[i].data(), wide(operands[i]), operands[i].values);
  return status;
}

/// Copies of operands on the device, each of exactly its bytes, behind `shift` further elements.
class DeviceOperands {
public:
  DeviceOperands(const std::vector<Operand> &operands, int64_t shift) {
    for (const Operand &operand : operands) {
      const int64_t size = static_cast<int64_t>(dtypeSize(operand.dtype)), bytes = elementsOf(operand) * size;
      memory.emplace_back();
      EXPECT_TRUE(allocateDevice(std::max<int64_t>(bytes + shift * size, 1), "a test", memory.back()).ok());
      char *data = static_cast<char *>(memory.back().get()) + shift * size;
      EXPECT_EQ(cudaMemcpy(data, bytesOf(operand, operand.dtype).data(), static_cast<size_t>(bytes), cudaMemcpyDefault),
                cudaSuccess);
      views.push_back(viewOf(operand, operand.dtype, data));
    }
    // Copies from pageable memory return when it is read, and the tests' streams do not wait for the legacy stream.
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  void read(std::vector<Operand> &operands) const {
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i].isThere) {
        std::vector<char> bytes(static_cast<size_t>(views[i].bytes()) + 1);
        EXPECT_EQ(cudaMemcpy(bytes.data(), views[i].data, bytes.size() - 1, cudaMemcpyDefault), cudaSuccess);
        readElements(bytes.data(), operands[i].dtype, operands[i].values);
      }
  }

  std::vector<View> views;

private:
  std::vector<DeviceMemory> memory;
};

DeviceContext &testDevice() {
  static DeviceContext *device = [] {
    auto *created = new DeviceContext;
    EXPECT_TRUE(DeviceContext::create(testOptions(), *created).ok());
    return created;
  }();
  return *device;
}

/// The call's error, or the fault that the device found.
Status runOnDevice(Kind kind, std::vector<Operand> &operands, const KernelCall &call, int64_t shift, uint64_t seed) {
#ifdef MOERT_CUDA_EMULATION
  emulation::setSeed(seed);
#else
  static_cast<void>(seed);
#endif
  const DeviceOperands onDevice(operands, shift);
  Stream stream;
  EXPECT_TRUE(createStream(stream).ok());
  StreamContext context;
  context.stream = stream.get();
  RoutingTables tables;
  context.tables = &tables;
  RaggedGroups groups;
  context.groups = &groups;
  CudaKernels kernels({testDevice(), context, kind, kOp});
  Status status = call(kernels, onDevice.views);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  int32_t op = 0;
  Status fault = testDevice().faults.take(op);
  EXPECT_EQ(op, fault.ok() ? 0 : kOp);
  onDevice.read(operands);
  return status.ok() ? fault : status;
}

double toleranceOf(int32_t dtype) {
  switch (dtype) {
  case MOERT_F32:
    return 1e-5;
  case MOERT_F64:
    return 1e-12;
  case MOERT_BF16:
    return 1.0 / 128;
  case MOERT_F16:
    return 1.0 / 1024;
  default:
    return 0;
  }
}

bool areNear(double got, double expected, double tolerance) {
  if (std::isnan(got) || std::isnan(expected))
    return std::isnan(got) && std::isnan(expected);
  return got == expected || std::abs(got - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

void expectNear(const Operand &got, const Operand &expected, size_t which, double slack) {
  const std::vector<double> expectedValues = rounded(expected.values, got.dtype);
  const double *a = got.values.data(), *b = expectedValues.data(), tolerance = slack * toleranceOf(got.dtype);
  for (size_t i = 0, count = got.values.size(); i < count; ++i)
    if (a[i] != b[i] && !areNear(a[i], b[i], tolerance))
      FAIL() << "operand " << which << ", element " << i << ": " << a[i] << " for " << expected.values[i];
}

/// Conversions to doubles keep all bits.
bool sameBits(const std::vector<Operand> &a, const std::vector<Operand> &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!a[i].values.empty() &&
        std::memcmp(a[i].values.data(), b[i].values.data(), a[i].values.size() * sizeof(double)) != 0)
      return false;
  return true;
}

/// The first normally distributed numbers of a seed. They are kept, because many operands begin alike.
const double *normalNumbers(int seed, size_t count) {
  struct Source {
    std::mt19937_64 engine;
    std::normal_distribution<double> normal;
    std::vector<double> numbers;
  };
  static std::map<int, Source> sources;
  const auto [place, isNew] = sources.try_emplace(seed);
  Source &source = place->second;
  if (isNew)
    source.engine.seed(static_cast<uint64_t>(seed));
  while (source.numbers.size() < count)
    source.numbers.push_back(source.normal(source.engine));
  return source.numbers.data();
}

} // namespace

DeviceOptions testOptions() {
  DeviceOptions options;
  // Tests compare the bits of two runs.
  options.deterministic = "1";
#ifdef MOERT_CUDA_EMULATION
  // Products on the emulation need no workspace. A device is tested with its usual workspace.
  options.productBytes = 1024;
#endif
  return options;
}

Operand filledOperand(int32_t dtype, std::vector<int64_t> dims, double value) {
  Operand operand{dtype, std::move(dims), {}, true};
  operand.values.assign(static_cast<size_t>(elementsOf(operand)), rounded({value}, dtype)[0]);
  return operand;
}

Operand randomOperand(int32_t dtype, std::vector<int64_t> dims, int seed, double deviation) {
  Operand operand = filledOperand(dtype, std::move(dims), 0);
  const double *normal = normalNumbers(seed, operand.values.size());
  for (size_t i = 0; i < operand.values.size(); ++i)
    operand.values[i] = deviation * normal[i];
  operand.values = rounded(std::move(operand.values), dtype);
  return operand;
}

Operand indices(std::vector<int64_t> dims, const std::vector<int> &values) {
  return {MOERT_I32, std::move(dims), std::vector<double>(values.begin(), values.end()), true};
}

Operand absent() { return {MOERT_F32, {0}, {}, false}; }

Operand randomSlots(int64_t tokens, int64_t choices, int64_t rows, int seed) {
  std::vector<int> all(static_cast<size_t>(std::max(rows, tokens * choices)));
  std::iota(all.begin(), all.end(), 0);
  std::mt19937_64 engine(static_cast<uint64_t>(seed));
  std::shuffle(all.begin(), all.end(), engine);
  all.resize(static_cast<size_t>(tokens * choices));
  for (int &slot : all)
    slot = slot >= rows || engine() % 5 == 0 ? -1 : slot;
  return indices({tokens, choices}, all);
}

std::vector<int32_t> typesBeside(int32_t dtype) {
  return isNarrow(dtype) ? std::vector<int32_t>{dtype, MOERT_F32} : std::vector<int32_t>{dtype};
}

void onHost(Kind kind, std::vector<Operand> &operands, const KernelCall &call) {
  const Status status = runOnHost(kind, operands, call);
  ASSERT_TRUE(status.ok()) << status.message;
  for (Operand &operand : operands)
    operand.values = rounded(std::move(operand.values), operand.dtype);
}

void onDevice(Kind kind, std::vector<Operand> &operands, const KernelCall &call) {
  const Status status = runOnDevice(kind, operands, call, 0, 1);
  ASSERT_TRUE(status.ok()) << status.message;
}

void expectNear(const std::vector<Operand> &got, const std::vector<Operand> &expected, double slack) {
  for (size_t i = 0; i < got.size(); ++i)
    expectNear(got[i], expected[i], i, slack);
}

void expectAlike(Kind kind, const std::vector<Operand> &operands, const KernelCall &call, double slack) {
  std::vector<Operand> expected = operands, first;
  const Status host = runOnHost(kind, expected, call);
  ASSERT_TRUE(host.ok()) << host.message;
  for (int64_t shift : {0, 1}) {
    first.clear();
    for (uint64_t seed : {1, 2}) {
      std::vector<Operand> got = operands;
      const Status status = runOnDevice(kind, got, call, shift, seed);
      ASSERT_TRUE(status.ok()) << status.message;
      expectNear(got, expected, slack);
      ASSERT_FALSE(::testing::Test::HasFailure())
          << kindName(kind) << " of " << dtypeName(operands[0].dtype) << ", shifted by " << shift << ", seed " << seed;
      ASSERT_TRUE(first.empty() || sameBits(first, got)) << kindName(kind) << " depends on the order of threads";
      first = got;
    }
  }
}

void expectSameError(Kind kind, const std::vector<Operand> &operands, const KernelCall &call, const std::string &text) {
  std::vector<Operand> onHost = operands, onDevice = operands;
  const Status expected = runOnHost(kind, onHost, call), got = runOnDevice(kind, onDevice, call, 0, 1);
  EXPECT_FALSE(got.ok());
  EXPECT_EQ(got.code, expected.code);
  EXPECT_EQ(got.message, expected.message);
  EXPECT_NE(got.message.find(text), std::string::npos) << got.message;
}

} // namespace moert::cuda
