//===- Plan.cpp - an open plan, and the variant to run --------------------===//

#include "run/Plan.h"
#include "core/Digest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace moert::run {

Status checked(int32_t code) { return code == MOERT_OK ? Status{} : Status::error(code, moert_last_error()); }

Status Plan::open(const std::string &path, int64_t batch, int64_t sequence, Plan &plan) {
  moert_plan_t opened = nullptr;
  MOERT_RETURN_IF_ERROR(checked(moert_plan_open(path.c_str(), &opened)));
  plan.handle.reset(opened, moert_plan_close);
  std::vector<Metadata> variants;
  MOERT_RETURN_IF_ERROR(parseMetadata(moert_plan_metadata(opened), variants));
  if (hasHalves(variants))
    return invalid("'" + path +
                   "' has a forward and a backward for a training loop of your own (moe-compile --halves), "
                   "which moeplan.torch runs; moe-run runs plans of whole steps: compile without --halves");
  if (hasShapes(variants)) {
    const Metadata &first = variants.front();
    MOERT_RETURN_IF_ERROR(checked(
        moert_plan_choose(opened, batch ? batch : first.batch, sequence ? sequence : first.sequence, &plan.variant)));
  } else if (batch || sequence) {
    return invalid("expected --batch and --seq with a plan of several shapes only; this one has one shape");
  }
  plan.metadata = std::move(variants[static_cast<size_t>(plan.variant)]);
  return {};
}

void Plan::widen(moert_wide type) {
  wide = type;
  if (type == MOERT_WIDE_NONE)
    return;
  const int32_t dtype = type == MOERT_WIDE_F64 ? MOERT_F64 : kFieldType;
  metadata.dtype = dtypeName(dtype);
  auto widenOne = [&](Value &value) { value.dtype = isFloating(value.dtype) ? dtype : value.dtype; };
  auto widenAll = [&](Program &program) {
    for (std::vector<Value> *values : {&program.arguments, &program.results})
      for (Value &value : *values) {
        widenOne(value);
        std::ranges::for_each(value.pieces, widenOne);
      }
  };
  std::ranges::for_each(metadata.programs, widenAll);
  if (metadata.reference)
    widenAll(*metadata.reference);
}

namespace {

/// Lower-case form of `text` if it is a digest, or an empty string.
std::string digestIn(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  bool isDigest = text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return isDigest ? text : "";
}

/// Reads the digest of `plan` from a file of sha256sum: a line "DIGEST  NAME" or "DIGEST *NAME".
Status readDigest(const std::string &path, const std::string &plan, std::string &digest) {
  constexpr size_t kDigits = 64;
  std::string name = std::filesystem::path(plan).filename().string(), line;
  std::ifstream file(path);
  while (digest.empty() && std::getline(file, line)) {
    std::string_view rest = std::string_view(line).substr(std::min(line.size(), kDigits));
    bool isOfPlan = rest.size() > 2 && std::filesystem::path(rest.substr(2)).filename() == name;
    if (isOfPlan || rest.empty())
      digest = digestIn(line.substr(0, kDigits));
  }
  return digest.empty() ? invalid("'" + path + "': expected a line '<64 hexadecimal digits>  " + name +
                                  "', as sha256sum writes it")
                        : Status{};
}

} // namespace

Status checkDigest(const std::string &path, const std::string &expected) {
  std::vector<std::pair<std::string, std::string>> wanted; ///< its source, and the digest
  if (!expected.empty()) {
    wanted.emplace_back("--digest", digestIn(expected));
    if (wanted.back().second.empty())
      return invalid("expected 64 hexadecimal digits for --digest but got '" + expected + "'");
  }
  std::string beside = path + ".sha256";
  std::error_code error;
  // A link to a digest that is gone is no reason to run an unchecked plan.
  if (std::filesystem::symlink_status(beside, error).type() != std::filesystem::file_type::not_found) {
    wanted.emplace_back("'" + beside + "'", "");
    MOERT_RETURN_IF_ERROR(readDigest(beside, path, wanted.back().second));
  }
  if (wanted.empty())
    return {};
  Sha256::Digest digest;
  MOERT_RETURN_IF_ERROR(digestOfFile(path, digest));
  for (const auto &[who, hex] : wanted)
    if (hex != hexOf(digest))
      return invalid("'" + path + "': expected the SHA-256 " + hex + ", as " + who + " says, but got " + hexOf(digest) +
                     "; the plan was not loaded");
  return {};
}

Status checkEmulated(const std::string &name, const Metadata &metadata) {
  auto isTimed = [](const Op &op) { return op.seconds > 0; };
  auto hasTimes = [&](const Program &program) { return std::any_of(program.ops.begin(), program.ops.end(), isTimed); };
  const std::vector<Program> &programs = metadata.programs;
  if (metadata.cluster.empty() || std::none_of(programs.begin(), programs.end(), hasTimes))
    return invalid("the plan has no modelled times of transfers to emulate; compile it with --cluster=NAME");
  if (name == metadata.cluster || std::filesystem::path(name).stem() == metadata.cluster)
    return {};
  return invalid("the plan was compiled for cluster '" + metadata.cluster + "', but --emulate-links names '" + name +
                 "'; compile it with --cluster=" + name);
}

} // namespace moert::run
