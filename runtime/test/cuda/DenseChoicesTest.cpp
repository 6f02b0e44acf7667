//===- DenseChoicesTest.cpp - measured choices of dense algorithms --------===//

#include "CudaKernelsTest.h"

#include "cuda/ProductTable.h"

#include <gmock/gmock.h>

#include <fstream>
#include <unistd.h>

#ifdef MOERT_CUDA_EMULATION
#include "emulation/Emulation.h"
#endif

namespace moert::cuda {
namespace {

using testing::HasSubstr;

/// Algorithm of a number, as cuBLASLt 13.0 of the emulation describes it.
ProductAlgorithm algorithmOf(uint64_t number, size_t version = 130000) { return {version, {number}}; }

TEST(DenseChoicesTest, AlgorithmsHaveTexts) {
  const ProductAlgorithm algorithm{130100, {1, 0xabcdef, 0, 0, 0, 0, 0, ~uint64_t(0)}};
  EXPECT_THAT(algorithm.text(), testing::StartsWith("130100:00000000000000010000000000abcdef0000"));
  EXPECT_EQ(ProductAlgorithm::parse(algorithm.text()), algorithm);
  for (const std::string &text : {std::string(), std::string("130100"), algorithm.text() + "0", "x" + algorithm.text(),
                                  "130100:" + std::string(128, 'g'), ":" + std::string(128, '0')})
    EXPECT_FALSE(ProductAlgorithm::parse(text)) << text;
}

// The nearest entry is at most one doubling away in total. Ties go to the first one.
TEST(DenseChoicesTest, Nearest) {
  const DenseChoices choices({{{MOERT_BF16, 64, 64, 64}, algorithmOf(1)},
                              {{MOERT_BF16, 256, 64, 64}, algorithmOf(2)},
                              {{MOERT_BF16, 64, 64, 64, true}, algorithmOf(3)}});
  auto numberOf = [&](const ProductShape &shape) {
    const ProductAlgorithm *found = choices.choose(shape);
    return found ? found->data[0] : 0;
  };
  EXPECT_EQ(numberOf({MOERT_BF16, 64, 64, 64}), 1u);
  EXPECT_EQ(numberOf({MOERT_BF16, 128, 64, 64}), 1u);
  EXPECT_EQ(numberOf({MOERT_BF16, 129, 64, 64}), 2u);
  EXPECT_EQ(numberOf({MOERT_BF16, 512, 64, 64}), 2u);
  EXPECT_EQ(numberOf({MOERT_BF16, 512, 65, 64}), 0u);
  EXPECT_EQ(numberOf({MOERT_BF16, 64, 64, 32}), 1u);
  EXPECT_EQ(numberOf({MOERT_BF16, 64, 64, 64, true}), 3u);
  EXPECT_EQ(numberOf({MOERT_BF16, 64, 64, 64, false, true}), 0u);
  EXPECT_EQ(numberOf({MOERT_F16, 64, 64, 64}), 0u);
  EXPECT_EQ(numberOf({MOERT_BF16, 64, 64, 64, false, false, true}), 0u);
  EXPECT_EQ(numberOf({MOERT_BF16, 64, 64, 64, false, false, false, 2}), 0u);
}

Status readText(const std::string &dense, DenseChoices &choices) {
  const std::string name = testing::TempDir() + "/dense-" + std::to_string(getpid());
  std::ofstream(name) << R"({"moert_products": 1, "choices": [], "dense": )" << dense << "}";
  RaggedChoices ragged;
  const Status status = readProducts(name, ragged, choices);
  unlink(name.c_str());
  return status;
}

TEST(DenseChoicesTest, ReadsTables) {
  const std::string sizes = R"([{"dtype": "f16", "transpose_a": false, "transpose_b": true, "m": 8, "n": 4, "k": 2, )";
  DenseChoices choices;
  const Status status =
      readText(sizes + R"("algorithm": ")" + algorithmOf(7, 5).text() + R"(", "seconds": [1, 2]}])", choices);
  EXPECT_TRUE(status.ok()) << status.message;
  const ProductAlgorithm *found = choices.choose({MOERT_F16, 8, 4, 2, false, true});
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, algorithmOf(7, 5));
  const std::pair<std::string, std::string> cases[] = {
      {"{}", "'dense': expected an array but got object"},
      {sizes + R"("algorithm": "fast"}])",
       "'dense[0].algorithm': expected a version, ':' and 128 hexadecimal digits but got \"fast\""},
      {sizes + R"("speed": 1}])", "'dense[0]': unknown key 'speed'"},
      {sizes + R"("seconds": [1]}])", "'dense[0]': missing key 'algorithm'"}};
  for (const auto &[text, message] : cases)
    EXPECT_THAT(readText(text, choices).message, HasSubstr(message));
}

#ifdef MOERT_CUDA_EMULATION

/// Runs a product of ones on its own device. Returns the algorithm that ran, and the printed text.
std::pair<int, std::string> runProduct(DenseChoices choices, int64_t proposal, int64_t shift = 0) {
  DeviceContext device;
  EXPECT_TRUE(DeviceContext::create(testOptions(), device).ok());
  device.products.choose(std::move(choices));
  device.products.propose(proposal);
  StreamContext context;
  PinnedMemory memory;
  EXPECT_TRUE(allocatePinned(4096, "a test", memory).ok());
  auto *values = static_cast<float *>(memory.get());
  std::fill_n(values, 1024, 1.0f);
  ::testing::internal::CaptureStderr();
  for (int64_t n : {2, 4})
    EXPECT_TRUE(
        device.products.multiply(context, {MOERT_F32, 4, n, 8}, values + shift, values + 256, values + 512).ok());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(values[512], 8);
  return {emulation::lastLtAlgorithm(), ::testing::internal::GetCapturedStderr()};
}

DenseChoices choiceOf(const ProductAlgorithm &algorithm) { return DenseChoices({{{MOERT_F32, 4, 4, 8}, algorithm}}); }

TEST(DenseChoicesTest, ProductsTakeThem) {
  using Ran = std::pair<int, std::string>;
  EXPECT_EQ(runProduct({}, 0), Ran(1, ""));
  EXPECT_EQ(runProduct({}, 1), Ran(1, ""));
  EXPECT_EQ(runProduct({}, 2), Ran(2, ""));
  // There are three algorithms.
  EXPECT_EQ(runProduct({}, 7), Ran(3, ""));
  EXPECT_EQ(runProduct(choiceOf(algorithmOf(3)), 0), Ran(3, ""));
  EXPECT_EQ(runProduct(choiceOf(algorithmOf(3)), 1), Ran(1, ""));
  // The algorithm was measured on aligned operands.
  EXPECT_EQ(runProduct(choiceOf(algorithmOf(3)), 0, 1), Ran(1, ""));
}

// An ignored choice is reported once for two products.
TEST(DenseChoicesTest, ProductsIgnoreWhatTheLibraryRefuses) {
  const std::string end = ": cuBLASLt chooses itself; write the table again with moe-calibrate --products\n";
  const std::string begin = "moert: warning: the table of products (MOERT_PRODUCTS) has an algorithm of cuBLASLt ";
  auto [number, text] = runProduct(choiceOf(algorithmOf(3, 120000)), 0);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(text, begin + "120000 that cuBLASLt 130000 does not know" + end);
  std::tie(number, text) = runProduct(choiceOf(algorithmOf(9)), 0);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(text, begin + "130000 that this device refuses" + end);
}

#endif // MOERT_CUDA_EMULATION

} // namespace
} // namespace moert::cuda
