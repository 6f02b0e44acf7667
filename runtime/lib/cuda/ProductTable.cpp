//===- ProductTable.cpp - the file of measured choices of products --------===//

#include "cuda/ProductTable.h"

#include "core/Json.h"
#include "cuda/Cuda.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

using nlohmann::json;

namespace moert::cuda {

/// Version of the file's format. It rises when the meaning of a key changes.
constexpr int64_t kFormatVersion = 1;
/// Largest size in a table.
constexpr int64_t kMostSize = int64_t(1) << 40;

namespace {

void refuseOtherKeys(const JsonNode &node, std::initializer_list<std::string_view> known) {
  node.requireType(node.value.is_object(), "an object");
  for (const auto &[key, value] : node.value.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string names;
      for (std::string_view name : known)
        names += (names.empty() ? "'" : ", '") + std::string(name) + "'";
      node.fail("unknown key '" + key + "', expected one of " + names);
    }
}

int32_t readType(const JsonNode &node) {
  const std::string name = node.string();
  for (int32_t dtype : {MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_F16})
    if (name == dtypeName(dtype))
      return dtype;
  node.fail("expected 'f32', 'f64', 'bf16' or 'f16' but got '" + name + "'");
}

RaggedMethod readMethod(const JsonNode &node, const std::string &name) {
  const std::optional<RaggedMethod> method = findMethod(name);
  if (!method)
    node.fail("expected the method " + methodNames() + " but got '" + name + "'");
  return *method;
}

/// Appends the missing methods, ordered by the sum of their seconds.
void addMeasured(const JsonNode &node, std::vector<RaggedMethod> &methods) {
  node.requireType(node.value.is_object(), "an object");
  std::vector<std::pair<double, RaggedMethod>> measured;
  for (const auto &[name, value] : node.value.items()) {
    const JsonNode list{value, node.path + "." + name};
    measured.emplace_back(0, readMethod(list, name));
    for (size_t i = 0; i < list.size(); ++i)
      measured.back().first += list.at(i).amount();
  }
  std::sort(measured.begin(), measured.end());
  for (const auto &[seconds, method] : measured)
    if (std::find(methods.begin(), methods.end(), method) == methods.end())
      methods.push_back(method);
}

RaggedChoices::Entry readEntry(const JsonNode &node) {
  refuseOtherKeys(node, {"pass", "transposed", "dtype", "experts", "rows", "n", "k", "method", "seconds"});
  RaggedProduct product;
  const std::string pass = node.at("pass").string();
  node.at("pass").require(pass == "forward" || pass == "weight_gradient", "'forward' or 'weight_gradient'");
  product.pass = pass == "forward" ? RaggedProduct::Pass::Forward : RaggedProduct::Pass::WeightGradient;
  product.transposeB = node.at("transposed").boolean();
  node.at("transposed").require(!product.transposeB || !product.isWeightGradient(), "false for a weight gradient");
  product.dtype = readType(node.at("dtype"));
  for (auto [key, size] :
       {std::pair("experts", &product.experts), {"rows", &product.rows}, {"n", &product.n}, {"k", &product.k}})
    *size = node.at(key).integer(1, kMostSize);
  RaggedChoices::Entry entry{product, {readMethod(node.at("method"), node.at("method").string())}};
  if (node.has("seconds"))
    addMeasured(node.at("seconds"), entry.methods);
  return entry;
}

DenseChoices::Entry readDense(const JsonNode &node) {
  refuseOtherKeys(node, {"dtype", "transpose_a", "transpose_b", "m", "n", "k", "algorithm", "seconds"});
  DenseChoices::Entry entry;
  entry.shape.dtype = readType(node.at("dtype"));
  entry.shape.transposeA = node.at("transpose_a").boolean();
  entry.shape.transposeB = node.at("transpose_b").boolean();
  for (auto [key, size] : {std::pair("m", &entry.shape.m), {"n", &entry.shape.n}, {"k", &entry.shape.k}})
    *size = node.at(key).integer(1, kMostSize);
  const JsonNode text = node.at("algorithm");
  const std::optional<ProductAlgorithm> algorithm = ProductAlgorithm::parse(text.string());
  text.require(algorithm.has_value(), "a version, ':' and 128 hexadecimal digits");
  entry.algorithm = *algorithm;
  return entry;
}

void readTable(const JsonNode &root, RaggedChoices &ragged, DenseChoices &dense) {
  refuseOtherKeys(root, {"moert_products", "device", "source", "choices", "dense"});
  root.at("moert_products")
      .require(root.at("moert_products").value == kFormatVersion, std::to_string(kFormatVersion) + ", the format,");
  for (const char *key : {"device", "source"})
    if (root.has(key))
      root.at(key).string();
  const JsonNode list = root.at("choices");
  std::vector<RaggedChoices::Entry> entries;
  for (size_t i = 0; i < list.size(); ++i)
    entries.push_back(readEntry(list.at(i)));
  ragged = RaggedChoices(std::move(entries));
  std::vector<DenseChoices::Entry> products;
  for (size_t i = 0; root.has("dense") && i < root.at("dense").size(); ++i)
    products.push_back(readDense(root.at("dense").at(i)));
  dense = DenseChoices(std::move(products));
}

} // namespace

Status readProducts(const std::string &file, RaggedChoices &ragged, DenseChoices &dense) {
  auto fail = [&](const std::string &message) {
    return invalid("the table of products '" + file + "' (MOERT_PRODUCTS): " + message);
  };
  std::ifstream in(file);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad())
    return fail(std::string("cannot be read: ") + std::strerror(errno));
  try {
    const json root = json::parse(text);
    readTable({root, ""}, ragged, dense);
    return {};
  } catch (const JsonError &error) {
    return fail((error.path.empty() ? "" : "'" + error.path + "': ") + error.message);
  } catch (const json::exception &error) {
    return fail(std::string("expected JSON: ") + error.what());
  }
}

} // namespace moert::cuda
