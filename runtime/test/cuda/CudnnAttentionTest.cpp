//===- CudnnAttentionTest.cpp - attention by cuDNN ------------------------===//

#include "AttentionCase.h"

#include "core/Attributes.h"
#include "cuda/CudaKernels.h"
#include "cuda/CudnnAttention.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <random>

#ifdef MOERT_CUDA_EMULATION
#include "emulation/Emulation.h"
#endif

namespace moert::cuda {
namespace {

View viewOf(const Operand &operand) {
  View view;
  if (!operand.isThere)
    return view;
  // The address is aligned and never read.
  view.data = reinterpret_cast<void *>(uintptr_t(256));
  view.dtype = operand.dtype;
  view.rank = static_cast<int64_t>(operand.dims.size());
  std::copy(operand.dims.begin(), operand.dims.end(), view.dims.begin());
  return view;
}

Views viewsOf(const Case &c, int32_t dtype) {
  Views views;
  for (const Operand &operand : operandsOf(c, dtype, MOERT_F32))
    views.push_back(viewOf(operand));
  return views;
}

class CudnnAttentionTest : public ::testing::Test {
protected:
  void SetUp() override { device.capability = 90; }

  Target target() { return {device, stream, Kind::Attention, 0}; }
  bool canUse(const Case &c, int32_t dtype = MOERT_BF16, bool isGradient = true) {
    parts = {};
    return canUseCudnn(target(), inputsOf(viewsOf(c, dtype)), c.options, isGradient, parts);
  }

  DeviceContext device;
  StreamContext stream;
  CudnnParts parts;
};

Case causalCase(int64_t queries, int64_t keys, int64_t heads, int64_t keyHeads, int64_t width = 16) {
  Case c(queries, keys, heads, keyHeads);
  c.options.causal = true;
  c.width = c.valueWidth = width;
  return c;
}

#ifdef MOERT_CUDA_EMULATION

// B300 (10.3) is of the family of 10.0. RTX Blackwell (12.0) is not.
TEST_F(CudnnAttentionTest, IsOf16BitTypesOnTwoFamilies) {
  const Case c = causalCase(20, 20, 4, 2, 64);
  EXPECT_TRUE(canUse(c, MOERT_BF16));
  EXPECT_TRUE(canUse(c, MOERT_F16));
  EXPECT_FALSE(canUse(c, MOERT_F32));
  EXPECT_FALSE(canUse(c, MOERT_F64));
  for (auto [capability, isForCudnn] :
       {std::pair(80, false), {89, false}, {90, true}, {100, true}, {103, true}, {120, false}}) {
    device.capability = capability;
    EXPECT_EQ(canUse(c), isForCudnn) << capability;
  }
}

TEST_F(CudnnAttentionTest, LeavesWhatItDoesNotHave) {
  auto expect = [&](bool expected, auto change) {
    Case c = causalCase(20, 20, 4, 2, 64);
    change(c);
    EXPECT_EQ(canUse(c), expected);
  };
  expect(true, [](Case &) {});
  expect(false, [](Case &c) { c.hasBias = true; });
  expect(true, [](Case &c) { c.hasSinks = true; });
  expect(false, [](Case &c) { c.options.dropout = 0.1; });
  expect(false, [](Case &c) { c.sequences = 0; });
  expect(false, [](Case &c) { c.width = 60; });
  expect(true, [](Case &c) { c.width = c.valueWidth = 256; });
  expect(false, [](Case &c) { c.width = 264; });
  expect(false, [](Case &c) { c.valueWidth = 264; });
  expect(true, [](Case &c) { c.width = 192, c.valueWidth = 128; });
  expect(false, [](Case &c) { c.options.kLength = 19; });
  expect(true, [](Case &c) { c.options.kLength = 19, c.options.causal = false; });
  expect(true, [](Case &c) { c.options.window = 5; });
  expect(false, [](Case &c) { c.options.window = 5, c.options.causal = false; });
  expect(true, [](Case &c) { c.options.window = 20, c.options.causal = false; });
  expect(false, [](Case &c) { c.options.qLength = 1; });
}

// A window that hides no key counts as no window.
TEST_F(CudnnAttentionTest, TakesWindowsThatHideKeys) {
  Case c = causalCase(20, 30, 4, 2);
  c.options.window = 29;
  EXPECT_TRUE(canUse(c));
  EXPECT_EQ(parts.shape.window, 29);
  c.options.window = 30;
  EXPECT_TRUE(canUse(c));
  EXPECT_EQ(parts.shape.window, 0);
}

// Either all ranks use cuDNN or none, independent of their heads.
TEST_F(CudnnAttentionTest, TakesWholeGroupsOfHeads) {
  for (int64_t rank : {0, 1, 2}) {
    // A group has 6 of the model's 12 heads. A rank has 4 of them, or half a group.
    Case c = causalCase(20, 20, 4, 2);
    c.options.part = {3, 1, rank};
    EXPECT_FALSE(canUse(c));
    c.options.heads = 3;
    c.options.part = {4, 1, rank};
    EXPECT_TRUE(canUse(c));
    EXPECT_EQ(parts.shape.keyHeads, 1);
    EXPECT_EQ(parts.firstKeyHead, rank / 2);
    EXPECT_EQ(parts.shape.keyStride, 2 * c.width);
  }
  EXPECT_FALSE(canUse(causalCase(20, 20, 4, 3)));
}

// Sinks are part of the statistics, so that gradients need no graph of their own.
TEST_F(CudnnAttentionTest, TakesSinksForwardAlone) {
  Case c = causalCase(20, 20, 4, 2, 64);
  c.hasSinks = true;
  EXPECT_TRUE(canUse(c, MOERT_BF16, false));
  EXPECT_TRUE(parts.shape.hasSinks);
  EXPECT_TRUE(canUse(c, MOERT_BF16, true));
  EXPECT_FALSE(parts.shape.hasSinks);
}

// Only gradients have sums whose order may vary.
TEST_F(CudnnAttentionTest, IsDeterministicOnRequest) {
  const Case c = causalCase(20, 20, 4, 2, 64);
  for (bool isDeterministic : {false, true}) {
    device.isDeterministic = isDeterministic;
    EXPECT_TRUE(canUse(c, MOERT_BF16, true));
    EXPECT_EQ(parts.shape.isDeterministic, isDeterministic);
    EXPECT_TRUE(canUse(c, MOERT_BF16, false));
    EXPECT_FALSE(parts.shape.isDeterministic);
  }
}

// Blocks of keys add to gradients of queries in f32: 64 KiB for up to 128 queries of a head of 128 columns.
TEST_F(CudnnAttentionTest, CutsGradientsIntoParts) {
  Case c = causalCase(2, 2, 8, 4, 128);
  c.sequences = 1536;
  EXPECT_TRUE(canUse(c));
  EXPECT_EQ(parts.sequences, 3);
  EXPECT_EQ(parts.heads, 1);
  EXPECT_EQ(parts.shape.sequences, 512);
  EXPECT_TRUE(canUse(c, MOERT_BF16, false));
  EXPECT_EQ(parts.sequences, 1);
}

// Deterministic gradients keep those of probabilities: 32 KiB for up to 128 queries and keys of a head.
TEST_F(CudnnAttentionTest, CutsDeterministicGradientsIntoParts) {
  device.isDeterministic = true;
  Case c = causalCase(2, 2, 8, 4, 8);
  c.sequences = 3072;
  EXPECT_TRUE(canUse(c));
  EXPECT_EQ(parts.sequences, 3);
  EXPECT_EQ(parts.heads, 1);
  EXPECT_EQ(parts.shape.sequences, 1024);
  EXPECT_TRUE(canUse(c, MOERT_BF16, false));
  EXPECT_EQ(parts.sequences, 1);

  c = causalCase(2, 2, 16384, 8192, 8);
  c.sequences = 2;
  EXPECT_TRUE(canUse(c));
  EXPECT_EQ(parts.sequences, 2);
  EXPECT_EQ(parts.heads, 2);
  EXPECT_EQ(parts.shape.heads, 8192);
  EXPECT_EQ(parts.shape.keyHeads, 4096);
  EXPECT_EQ(parts.shape.queryStride, 16384 * 8);
  // A group of heads that is too large is not divided.
  EXPECT_TRUE(canUse(causalCase(2, 2, 16384, 1, 8)));
  EXPECT_FALSE(canUse(causalCase(2, 2, 32768, 1, 8)));
  EXPECT_TRUE(canUse(causalCase(2, 2, 32768, 1, 8), MOERT_BF16, false));
}

// A graph that exceeds the limit is refused. The largest other one determines a stream's workspace.
TEST_F(CudnnAttentionTest, LimitsWorkspaces) {
  CudnnGraph *graph = nullptr;
  auto find = [&](int64_t queries, int64_t bytes) {
    EXPECT_TRUE(canUse(causalCase(queries, 20, 4, 2)));
    emulation::setCudnnBytes(bytes);
    const Status status = device.cudnn.find(target(), parts, graph);
    emulation::setCudnnBytes(1000);
    EXPECT_TRUE(status.ok()) << status.message;
  };
  EXPECT_EQ(device.cudnn.mostBytes(), 0);
  find(20, kMostCudnnBytes);
  EXPECT_NE(graph, nullptr);
  const int64_t most = device.cudnn.mostBytes();
  EXPECT_GT(most, kMostCudnnBytes);
  find(19, 500);
  EXPECT_EQ(device.cudnn.mostBytes(), most);
  ::testing::internal::CaptureStderr();
  find(18, kMostCudnnBytes + 1);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(device.cudnn.mostBytes(), most);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("MoePlan's kernels compute it, because cuDNN cannot: cuDNN: "
                                                          "expected a workspace of at most 536870912 bytes but "
                                                          "got 536870913"),
            std::string::npos);
}

// The host does not wait for a build during a capture. Later steps are the same.
TEST_F(CudnnAttentionTest, BuildsNoGraphWhileCapturing) {
  ASSERT_TRUE(canUse(causalCase(20, 20, 4, 2)));
  CudnnGraph *graph = nullptr, *again = nullptr;
  stream.isCapturing = true;
  EXPECT_EQ(device.cudnn.find(target(), parts, graph).code, MOERT_ERROR_UNSUPPORTED);
  EXPECT_EQ(graph, nullptr);
  stream.isCapturing = false;
  EXPECT_TRUE(device.cudnn.find(target(), parts, graph).ok());
  EXPECT_NE(graph, nullptr);
  stream.isCapturing = true;
  EXPECT_TRUE(device.cudnn.find(target(), parts, again).ok());
  EXPECT_EQ(again, graph);
}

/// A call of causalCase(20, 20, 4, 2) in bf16.
Call makeCall(const Case &c) {
  Call call;
  call.kind = Kind::Attention;
  attributes::Attention options;
  options.qLength = options.kLength = 20;
  options.heads = 4;
  options.kHeads = 2;
  options.parts = options.stride = options.causal = options.rowParts = options.rowStride = options.cutParts =
      options.cutStride = 1;
  options.keyShift = -1;
  options.scale = c.options.scale;
  options.set(call);
  const Views views = viewsOf(c, MOERT_BF16);
  std::copy_n(views.begin(), Lse + 1, call.views.begin());
  return call;
}

// A step finds the graphs of its calls.
TEST_F(CudnnAttentionTest, BuildsGraphsBeforeSteps) {
  const Case c = causalCase(20, 20, 4, 2);
  const Status status = prepareAttention(target(), makeCall(c));
  EXPECT_TRUE(status.ok()) << status.message;
  stream.isCapturing = true;
  CudnnGraph *graph = nullptr;
  ASSERT_TRUE(canUse(c, MOERT_BF16, false));
  EXPECT_TRUE(device.cudnn.find(target(), parts, graph).ok());
  EXPECT_NE(graph, nullptr);
}

// Measurements demand cuDNN, or leave it out.
TEST_F(CudnnAttentionTest, DoesAsDemanded) {
  const Call call = makeCall(causalCase(20, 20, 4, 2));
  auto prepare = [&](const char *demand) {
    ::setenv("MOERT_CUDNN", demand, 1);
    const Status status = prepareAttention(target(), call);
    ::unsetenv("MOERT_CUDNN");
    return status.message;
  };
  EXPECT_EQ(prepare("sometimes"), "MOERT_CUDNN: expected always or never but got 'sometimes'");
  EXPECT_EQ(prepare("never"), "");
  EXPECT_EQ(device.cudnn.mostBytes(), 0);
  EXPECT_EQ(prepare("always"), "");
  EXPECT_GT(device.cudnn.mostBytes(), 0);
  device.capability = 80;
  EXPECT_EQ(prepare("always"), "cuDNN cannot compute 'attention', but MOERT_CUDNN=always demands it");
}

/// Expects cuDNN to compute both calls in the given numbers of runs, with the host's results.
void expectCudnn(const Case &c, const AttentionOptions &options, int64_t forwardRuns, int64_t gradientRuns) {
  for (int32_t dtype : {MOERT_BF16, MOERT_F16})
    for (int32_t lseType : typesBeside(dtype)) {
      std::vector<Operand> expected = operandsOf(c, dtype, lseType), got = expected;
      auto forward = [=](Kernels &k, const Views &v) { return k.attention(inputsOf(v), v[Out], v[Lse], options); };
      auto backward = [=](Kernels &k, const Views &v) {
        return k.attentionGrad(inputsOf(v), v[Out], v[Lse], v[Grads], v[GradQ], v[GradK], v[GradV], options);
      };
      const int64_t before = emulation::cudnnRuns();
      onHost(Kind::Attention, expected, forward);
      onDevice(Kind::Attention, got, forward);
      EXPECT_EQ(emulation::cudnnRuns() - before, forwardRuns);
      expectNear(got, expected, 4);
      got = expected;
      onHost(Kind::AttentionGrad, expected, backward);
      onDevice(Kind::AttentionGrad, got, backward);
      EXPECT_EQ(emulation::cudnnRuns() - before, forwardRuns + gradientRuns);
      expectNear(got, expected, 8);
    }
}

TEST(CudnnRunsTest, AllMasksAndWidths) {
  for (int64_t keys : {40, 55})
    for (int64_t window : {0, 1, 7}) {
      Case c = causalCase(40, keys, 4, 2, 24);
      c.sequences = 2;
      c.options.window = window;
      c.valueWidth = 8;
      expectCudnn(c, c.options, 1, 1);
    }
  Case c = causalCase(20, 20, 2, 2, 192);
  c.valueWidth = 128;
  c.options.scale = 0.07;
  expectCudnn(c, c.options, 1, 1);
  c = causalCase(30, 20, 6, 2, 128);
  c.options.causal = false;
  c.options.scale = 0.07;
  expectCudnn(c, c.options, 1, 1);
}

// Key heads of other ranks have no gradient.
TEST(CudnnRunsTest, PartsOfHeads) {
  for (int64_t rank : {0, 1, 3}) {
    Case c = causalCase(10, 12, 2, 4);
    c.sequences = 3;
    c.options.part = {4, 1, rank};
    expectCudnn(c, c.options, 1, 1);
    // k and v have the part's key head.
    AttentionOptions options = c.options;
    c.options.kHeads = 1;
    expectCudnn(c, options, 1, 1);
  }
}

TEST(CudnnRunsTest, WideHeads) {
  Case c = causalCase(20, 24, 4, 2, 256);
  c.options.scale = 0.06;
  expectCudnn(c, c.options, 1, 1);
}

TEST(CudnnRunsTest, HeadsWithSinks) {
  for (int64_t window : {0, 7}) {
    Case c = causalCase(30, 30, 4, 2, 64);
    c.sequences = 2;
    c.hasSinks = true;
    c.options.window = window;
    expectCudnn(c, c.options, 1, 1);
  }
}

/// Gradients of queries in bf16, by two runs of a graph.
std::array<std::vector<uint16_t>, 2> gradientsOfTwoRuns(bool isDeterministic) {
  constexpr int64_t kRows = 128, kWidth = 256;
  CudnnShape shape{MOERT_BF16, true, 1, kRows, kRows, 1, 1, kWidth, kWidth, kWidth, kWidth, kWidth, kWidth};
  shape.scale = 1.0 / 16;
  shape.isDeterministic = isDeterministic;
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  auto values = [&] {
    std::vector<uint16_t> made(kRows * kWidth);
    std::ranges::generate(made, [&] { return static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(engine)) >> 16); });
    return made;
  };
  std::vector<uint16_t> q = values(), k = values(), v = values(), result = values(), grads = values(), gradK = v,
                        gradV = v;
  std::vector<float> stats(kRows, 5);
  std::vector<char> workspace(1 << 12);
  std::unique_ptr<Cudnn> cudnn;
  std::unique_ptr<CudnnGraph> graph;
  EXPECT_TRUE(Cudnn::open(cudnn).ok() && cudnn->build(shape, graph).ok());
  std::array<std::vector<uint16_t>, 2> gradients{q, q};
  for (std::vector<uint16_t> &gradQ : gradients) {
    const CudnnOperands operands{q.data(),     k.data(),     v.data(),     result.data(), stats.data(),
                                 grads.data(), gradQ.data(), gradK.data(), gradV.data()};
    EXPECT_TRUE(graph->run(nullptr, operands, workspace.data()).ok());
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  return gradients;
}

// The emulation adds in another order in each run, as blocks of a device do.
TEST(CudnnRunsTest, GradientsRepeatOnRequest) {
  auto areSame = [](const std::array<std::vector<uint16_t>, 2> &runs) {
    return std::memcmp(runs[0].data(), runs[1].data(), runs[0].size() * sizeof(uint16_t)) == 0;
  };
  EXPECT_TRUE(areSame(gradientsOfTwoRuns(true)));
  EXPECT_FALSE(areSame(gradientsOfTwoRuns(false)));
}

// The option is checked before the first step.
TEST(CudnnRunsTest, OptionOfDeterminism) {
  DeviceOptions options = testOptions();
  DeviceContext device;
  for (auto [text, isDeterministic] : {std::pair("", false), {"0", false}, {"1", true}}) {
    options.deterministic = text;
    ASSERT_TRUE(DeviceContext::create(options, device).ok());
    EXPECT_EQ(device.isDeterministic, isDeterministic) << text;
  }
  options.deterministic = "yes";
  EXPECT_EQ(DeviceContext::create(options, device).message, "MOERT_DETERMINISTIC: expected 0 or 1 but got 'yes'");
}

TEST(CudnnRunsTest, PartsOfSequences) {
  Case c = causalCase(2, 3, 8, 4, 8);
  c.sequences = 3072;
  expectCudnn(c, c.options, 1, 3);
}

TEST(CudnnRunsTest, PartsOfSequencesAndHeads) {
  Case c = causalCase(2, 3, 16384, 8192, 8);
  c.sequences = 2;
  expectCudnn(c, c.options, 1, 4);
}

// Streams allocate once, for any order of calls.
TEST(CudnnRunsTest, LargestWorkspaceComesFirst) {
  DeviceContext device;
  ASSERT_TRUE(DeviceContext::create(testOptions(), device).ok());
  Stream stream;
  ASSERT_TRUE(createStream(stream).ok());
  StreamContext context;
  context.stream = stream.get();
  const Target target{device, context, Kind::Attention, 0};
  const Case cases[] = {causalCase(20, 20, 2, 1), causalCase(40, 40, 2, 1)};
  Views views[2];
  DeviceMemory memory;
  ASSERT_TRUE(allocateDevice(1 << 16, "a test", memory).ok());
  for (int i : {0, 1}) {
    views[i] = viewsOf(cases[i], MOERT_BF16);
    for (View &view : views[i])
      view.data = view.data ? memory.get() : nullptr;
    emulation::setCudnnBytes((1 + 4 * i) << 20);
    CudnnParts parts;
    CudnnGraph *graph = nullptr;
    ASSERT_TRUE(canUseCudnn(target, inputsOf(views[i]), cases[i].options, false, parts));
    EXPECT_TRUE(device.cudnn.find(target, parts, graph).ok());
  }
  emulation::setCudnnBytes(1000);
  EXPECT_EQ(device.cudnn.mostBytes(), (5 << 20) + 40 * 2 * 4);
  const size_t before = emulation::allocatedBytes();
  for (int i : {0, 1}) {
    bool isDone = false;
    EXPECT_TRUE(
        attentionByCudnn(target, inputsOf(views[i]), views[i][Out], views[i][Lse], cases[i].options, isDone).ok());
    EXPECT_TRUE(isDone);
    EXPECT_EQ(emulation::allocatedBytes() - before, static_cast<size_t>(device.cudnn.mostBytes()));
  }
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
}

// The library's own kernels compute calls whose operands are not aligned, and calls that cuDNN refuses. The first
// refusal warns.
TEST(CudnnRunsTest, OwnKernelsDoTheRest) {
  Case c = causalCase(11, 13, 2, 1, 40);
  emulation::setCudnnRefuses(true);
  ::testing::internal::CaptureStderr();
  expectCudnn(c, c.options, 0, 0);
  emulation::setCudnnRefuses(false);
  const std::string text = ::testing::internal::GetCapturedStderr();
  const std::string first =
      "moert: warning: 'attention' of 1 sequences of 11 queries and 13 keys, 2 heads and 1 key "
      "heads of 40 and 40 columns, window 0: MoePlan's kernels compute it, because cuDNN cannot: cuDNN: "
      "the test says so\n";
  EXPECT_NE(text.find(first), std::string::npos) << text;
  // Each of two types and two kinds has one warning.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  // A refusal is permanent, so that ranks that ask later choose alike.
  expectCudnn(c, c.options, 0, 0);
}

#endif // MOERT_CUDA_EMULATION

} // namespace
} // namespace moert::cuda
