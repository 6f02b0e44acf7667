//===- ProductTable.cpp - products, and the measured choices of their ways ===//

#include "cuda/ProductTable.h"

#include "core/Json.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

using nlohmann::json;

namespace moert::cuda {

constexpr size_t kNumberDigits = 16; ///< Hexadecimal digits of one number of the data.

std::string ProductAlgorithm::text() const {
  std::string text = std::to_string(version) + ":";
  for (uint64_t number : data) {
    char digits[kNumberDigits + 1];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    text += digits;
  }
  return text;
}

std::optional<ProductAlgorithm> ProductAlgorithm::parse(const std::string &text) {
  ProductAlgorithm algorithm;
  auto read = [](const char *begin, const char *end, int base, auto &number) {
    const auto [last, error] = std::from_chars(begin, end, number, base);
    return error == std::errc() && last == end;
  };
  const size_t colon = text.find(':');
  if (colon == std::string::npos || text.size() - colon - 1 != kNumberDigits * algorithm.data.size())
    return std::nullopt;
  bool isRead = read(text.data(), text.data() + colon, 10, algorithm.version);
  const char *at = text.data() + colon + 1;
  for (uint64_t &number : algorithm.data) {
    isRead = isRead && read(at, at + kNumberDigits, 16, number);
    at += kNumberDigits;
  }
  return isRead ? std::optional(algorithm) : std::nullopt;
}

// --- Methods -----------------------------------------------------------------

const char *methodName(RaggedMethod method) {
  constexpr const char *kNames[] = {"tiles",          "cutlass-cooperative", "cutlass-wide", "cutlass-pingpong",
                                    "cublas-grouped", "cublaslt-1",          "cublaslt-2",   "cublaslt-4"};
  static_assert(std::size(kNames) == std::size(kRaggedMethods));
  return kNames[static_cast<size_t>(method)];
}

std::optional<RaggedMethod> findMethod(std::string_view name) {
  for (RaggedMethod method : kRaggedMethods)
    if (methodName(method) == name)
      return method;
  return std::nullopt;
}

std::string methodNames() {
  std::string names;
  for (RaggedMethod method : kRaggedMethods) {
    const bool isLast = method == *std::rbegin(kRaggedMethods);
    names += (names.empty() ? "" : isLast ? " or " : ", ") + std::string(methodName(method));
  }
  return names;
}

// --- Choices -----------------------------------------------------------------

namespace {

/// Number of doublings from the smaller number to the larger one.
double doublings(double a, double b) { return std::abs(std::log2(std::max(a, 1.0) / std::max(b, 1.0))); }
double doublings(int64_t a, int64_t b) { return doublings(static_cast<double>(a), static_cast<double>(b)); }

/// Distance of two products: the sum of the doublings of each size. Infinite if they differ in more than sizes.
double distanceOf(const ProductShape &a, const ProductShape &b) {
  if (a.dtype != b.dtype || a.transposeA != b.transposeA || a.transposeB != b.transposeB ||
      a.accumulate != b.accumulate || a.batches != b.batches || a.isWide != b.isWide)
    return std::numeric_limits<double>::infinity();
  return doublings(a.m, b.m) + doublings(a.n, b.n) + doublings(a.k, b.k);
}
double distanceOf(const RaggedProduct &a, const RaggedProduct &b) {
  if (a.dtype != b.dtype || a.pass != b.pass || a.transposeB != b.transposeB)
    return std::numeric_limits<double>::infinity();
  auto rowsOf = [](const RaggedProduct &product) {
    return static_cast<double>(product.rows) / std::max(static_cast<double>(product.experts), 1.0);
  };
  return doublings(a.experts, b.experts) + doublings(rowsOf(a), rowsOf(b)) + doublings(a.n, b.n) + doublings(a.k, b.k);
}

/// Nearest entry, at most `most` away. The first of several, or null if there is none.
template <class Entry, class Product>
const Entry *nearest(const std::vector<Entry> &entries, const Product &product, double most) {
  const Entry *found = nullptr;
  for (const Entry &entry : entries)
    if (const double distance = distanceOf(entry.product, product); found ? distance < most : distance <= most) {
      found = &entry;
      most = distance;
    }
  return found;
}

} // namespace

const ProductAlgorithm *DenseChoices::choose(const ProductShape &shape) const {
  const Entry *entry = nearest(entries, shape, 1);
  return entry ? &entry->algorithm : nullptr;
}

std::optional<RaggedMethod> RaggedChoices::choose(const RaggedProduct &product, const CanCompute &canCompute) const {
  if (const Entry *entry = nearest(entries, product, std::numeric_limits<double>::max()))
    if (auto method = std::ranges::find_if(entry->methods, canCompute); method != entry->methods.end())
      return *method;
  return std::nullopt;
}

// --- The table ---------------------------------------------------------------

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
  entry.product.dtype = readType(node.at("dtype"));
  entry.product.transposeA = node.at("transpose_a").boolean();
  entry.product.transposeB = node.at("transpose_b").boolean();
  for (auto [key, size] : {std::pair("m", &entry.product.m), {"n", &entry.product.n}, {"k", &entry.product.k}})
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
    return invalid("the table of products '", file, "' (MOERT_PRODUCTS): ", message);
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
