//===- RaggedChoicesTest.cpp - measured choices of ragged methods ---------===//

#include "cuda/ProductTable.h"
#include "cuda/RaggedProducts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace moert::cuda {
namespace {

using testing::HasSubstr;

constexpr auto kAny = [](RaggedMethod) { return true; };
const std::string kForward = R"("pass": "forward", "transposed": false, "dtype": "bf16")";

/// A file that exists as long as this object.
class TableFile {
public:
  explicit TableFile(const std::string &text) : name(testing::TempDir() + "/products-" + std::to_string(getpid())) {
    std::ofstream(name) << text;
  }
  ~TableFile() { unlink(name.c_str()); }
  const std::string name;
};

std::string tableOf(const std::string &entries) {
  return R"({"moert_products": 1, "device": "a GPU", "source": "made up", "choices": [)" + entries + "]}";
}

std::string entryOf(const std::string &kind, int experts, int rows, int n, int k, const std::string &rest) {
  return "{" + kind + ", \"experts\": " + std::to_string(experts) + ", \"rows\": " + std::to_string(rows) +
         ", \"n\": " + std::to_string(n) + ", \"k\": " + std::to_string(k) + ", " + rest + "}";
}

RaggedChoices readText(const std::string &text) {
  const TableFile file(text);
  RaggedChoices choices;
  DenseChoices dense;
  const Status status = readProducts(file.name, choices, dense);
  EXPECT_TRUE(status.ok()) << status.message;
  return choices;
}

RaggedProduct productOf(int64_t experts, int64_t rows, int64_t n, int64_t k) {
  return {RaggedProduct::Pass::Forward, MOERT_BF16, experts, rows, n, k};
}

TEST(RaggedChoicesTest, NoTable) { EXPECT_EQ(RaggedChoices().choose(productOf(8, 64, 32, 16), kAny), std::nullopt); }

// Each size counts by its doublings, and rows by those of an expert. Ties go to the first entry.
TEST(RaggedChoicesTest, Nearest) {
  const RaggedChoices choices = readText(tableOf(entryOf(kForward, 8, 800, 64, 64, R"("method": "tiles")") + "," +
                                                 entryOf(kForward, 8, 800, 256, 64, R"("method": "cublaslt-1")") + "," +
                                                 entryOf(kForward, 8, 6400, 64, 64, R"("method": "cublaslt-2")") + "," +
                                                 entryOf(kForward, 64, 6400, 64, 64, R"("method": "cublaslt-4")")));
  const std::pair<RaggedProduct, RaggedMethod> cases[] = {
      {productOf(8, 800, 64, 64), RaggedMethod::Tiles},       {productOf(8, 800, 127, 64), RaggedMethod::Tiles},
      {productOf(8, 800, 128, 64), RaggedMethod::Tiles},      {productOf(8, 800, 129, 64), RaggedMethod::CublasLt1},
      {productOf(8, 3200, 64, 64), RaggedMethod::CublasLt2},  {productOf(16, 12800, 64, 32), RaggedMethod::CublasLt2},
      {productOf(32, 3200, 64, 64), RaggedMethod::CublasLt4}, {productOf(8, 0, 64, 64), RaggedMethod::Tiles}};
  for (const auto &[product, method] : cases)
    EXPECT_EQ(choices.choose(product, kAny), method) << product.experts << " " << product.rows << " " << product.n;
}

// Entries of another type, pass or transpose do not count.
TEST(RaggedChoicesTest, OfItsKind) {
  const RaggedChoices choices =
      readText(tableOf(entryOf(kForward, 8, 8, 8, 8, R"("method": "tiles")") + "," +
                       entryOf(R"("pass": "forward", "transposed": true, "dtype": "bf16")", 8, 8, 8, 8,
                               R"("method": "cublas-grouped")") +
                       "," +
                       entryOf(R"("pass": "weight_gradient", "transposed": false, "dtype": "bf16")", 8, 8, 8, 8,
                               R"("method": "cutlass-pingpong")")));
  RaggedProduct product = productOf(1, 1, 1, 1);
  EXPECT_EQ(choices.choose(product, kAny), RaggedMethod::Tiles);
  product.dtype = MOERT_F16;
  EXPECT_EQ(choices.choose(product, kAny), std::nullopt);
  product.dtype = MOERT_BF16;
  product.transposeB = true;
  EXPECT_EQ(choices.choose(product, kAny), RaggedMethod::CublasGrouped);
  product.transposeB = false;
  product.pass = RaggedProduct::Pass::WeightGradient;
  product.accumulate = true;
  EXPECT_EQ(choices.choose(product, kAny), RaggedMethod::CutlassPingpong);
}

// If the fastest method cannot compute a product, the next one by the sum of its seconds does.
TEST(RaggedChoicesTest, NextMethod) {
  const RaggedChoices choices = readText(tableOf(
      entryOf(kForward, 8, 8, 8, 8,
              R"("method": "tiles", "seconds": {"cublaslt-1": [3, 3], "cublaslt-2": [1, 4], "tiles": [1, 1]})")));
  std::vector<RaggedMethod> refused;
  auto can = [&](RaggedMethod method) { return std::find(refused.begin(), refused.end(), method) == refused.end(); };
  for (RaggedMethod method : {RaggedMethod::Tiles, RaggedMethod::CublasLt2, RaggedMethod::CublasLt1}) {
    EXPECT_EQ(choices.choose(productOf(8, 8, 8, 8), can), method);
    refused.push_back(method);
  }
  EXPECT_EQ(choices.choose(productOf(8, 8, 8, 8), can), std::nullopt);
}

TEST(RaggedChoicesTest, Errors) {
  auto of = [](const std::string &kind, const std::string &rest) { return tableOf(entryOf(kind, 8, 8, 8, 8, rest)); };
  const std::string method = R"("method": "tiles")";
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected JSON: "},
      {"{\"moert_products\": 1,\n]", "line 2, column 1"},
      {"[]", "expected an object but got array"},
      {R"({"moert_products": 2, "choices": []})", "'moert_products': expected 1, the format, but got 2"},
      {R"({"moert_products": 1})", "missing key 'choices'"},
      {R"({"moert_products": 1, "choices": {}})", "'choices': expected an array but got object"},
      {R"({"moert_products": 1, "choices": [], "more": 1})", "unknown key 'more', expected one of 'moert_products', "},
      {of(kForward, R"("method": "fast")"),
       "'choices[0].method': expected the method tiles, cutlass-cooperative, "
       "cutlass-wide, cutlass-pingpong, cublas-grouped, cublaslt-1, cublaslt-2 or cublaslt-4 "
       "but got 'fast'"},
      {of(kForward, method + R"(, "speed": 1)"), "'choices[0]': unknown key 'speed'"},
      {of(R"("pass": "backward", "transposed": false, "dtype": "bf16")", method),
       "'choices[0].pass': expected 'forward' or 'weight_gradient' but got \"backward\""},
      {of(R"("pass": "weight_gradient", "transposed": true, "dtype": "bf16")", method),
       "'choices[0].transposed': expected false for a weight gradient but got true"},
      {of(R"("pass": "forward", "transposed": false, "dtype": "i32")", method),
       "'choices[0].dtype': expected 'f32', 'f64', 'bf16' or 'f16' but got 'i32'"},
      {of(kForward, method + R"(, "seconds": {"tiles": 1})"), "'choices[0].seconds.tiles': expected an array"},
      {of(kForward, method + R"(, "seconds": {"tiles": [-1]})"), "'choices[0].seconds.tiles[0]': expected a number"},
      {tableOf(entryOf(kForward, 8, 0, 8, 8, method)), "'choices[0].rows': expected an integer from 1 to "},
  };
  for (const auto &[text, message] : cases) {
    const TableFile file(text);
    RaggedChoices choices;
    DenseChoices dense;
    const Status status = readProducts(file.name, choices, dense);
    EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT) << text;
    EXPECT_THAT(status.message, HasSubstr("the table of products '" + file.name + "' (MOERT_PRODUCTS): "));
    EXPECT_THAT(status.message, HasSubstr(message));
  }
  RaggedChoices choices;
  DenseChoices dense;
  EXPECT_THAT(readProducts("/nowhere/x.json", choices, dense).message,
              HasSubstr("'/nowhere/x.json' (MOERT_PRODUCTS): cannot be read: No such file or directory"));
}

/// A product whose rows are all unused, on its own device.
class OneProduct {
public:
  Status run(const std::string &method, const std::string &choices, int32_t dtype, int64_t &waits) {
    DeviceOptions options;
    options.productBytes = 1024;
    options.choices = choices;
    MOERT_RETURN_IF_ERROR(DeviceContext::create(options, device));
    MOERT_RETURN_IF_ERROR(device.forceMethod(method));
    MOERT_RETURN_IF_ERROR(createStream(stream));
    MOERT_RETURN_IF_ERROR(allocatePinned(4096, "a test", memory));
    std::memset(memory.get(), 0, 4096);
    context.stream = stream.get();
    context.counts = &counts;
    context.tables = &tables;
    context.groups = nullptr;
    char *data = static_cast<char *>(memory.get());
    const RaggedProduct product{
        .dtype = dtype, .experts = 1, .rows = 8, .n = 8, .k = 8, .a = data, .b = data + 1024, .c = data + 2048};
    View view;
    view.data = data + 3072;
    view.dtype = MOERT_I32;
    view.rank = 2;
    view.dims = {1, 1};
    MOERT_RETURN_IF_ERROR(multiplyRagged({device, context, Kind::GroupedMatmul, 0}, product, view));
    waits = counts.waits();
    return check(cudaStreamSynchronize(stream.get()), "a test");
  }

private:
  DeviceContext device;
  Stream stream;
  PinnedMemory memory;
  StreamContext context;
  HostCounts counts;
  RoutingTables tables;
};

// Only methods of the host wait for counts. A forced method has priority over the table.
TEST(RaggedChoicesTest, DeviceUsesThem) {
  const TableFile file(tableOf(entryOf(kForward, 8, 8, 8, 8, R"("method": "cublaslt-1")")));
  int64_t waits = 0;
  Status status = OneProduct().run("", file.name, MOERT_BF16, waits);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(waits, 1);
  status = OneProduct().run("tiles", file.name, MOERT_BF16, waits);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(waits, 0);
  status = OneProduct().run("tiles", "", MOERT_F32, waits);
  EXPECT_EQ(status.code, MOERT_ERROR_UNSUPPORTED);
  EXPECT_THAT(status.message, HasSubstr("method 'tiles' cannot compute this ragged product"));
  status = OneProduct().run("fast", "", MOERT_F32, waits);
  EXPECT_THAT(status.message, HasSubstr("expected the method tiles, cutlass-cooperative, "));
}

} // namespace
} // namespace moert::cuda
