//===- Diagnose.cpp - what is wrong with a result that is not exact --------===//

#include "run/Departure.h"
#include "run/checkpoint/Sharding.h"

#include <algorithm>

namespace moert::run {
namespace {

std::span<const Field> fieldsOf(const std::vector<char> &bytes) {
  return {reinterpret_cast<const Field *>(bytes.data()), bytes.size() / sizeof(Field)};
}

/// Factor by which all elements of `b` are multiplied to give those of `a`.
std::optional<Field> factorOf(std::span<const Field> a, std::span<const Field> b) {
  auto first = std::find_if(b.begin(), b.end(), [](Field x) { return x != Field(0); });
  if (first == b.end())
    return std::nullopt;
  const Field factor = a[static_cast<size_t>(first - b.begin())] / *first;
  for (size_t i = 0; i < b.size(); ++i)
    if (a[i] != factor * b[i])
      return std::nullopt;
  return factor;
}

} // namespace

std::string fractionText(Field factor) {
  constexpr int64_t kMost = 4096;
  for (int64_t bottom = 1; bottom <= kMost; ++bottom)
    for (int sign : {1, -1})
      if (const Field top = factor * bottom * sign; top.index() <= static_cast<uint64_t>(kMost))
        return (sign < 0 ? "-" : "") + std::to_string(top.index()) + (bottom > 1 ? "/" + std::to_string(bottom) : "");
  return "";
}

std::string groupText(const std::vector<std::string> &names) {
  std::string text = "group '" + names.front() + "'";
  for (size_t i = 1; i < names.size(); ++i)
    text += (i == 1 ? " (or '" : ", '") + names[i] + "'";
  return text + (names.size() > 1 ? ")" : "");
}

namespace {

/// Groups over whose members the sum of all parts is the value of the reference.
std::vector<std::string> missingSums(const Plan &plan, const std::map<int64_t, std::vector<char>> &parts,
                                     const std::string &name, const Tensor &expected) {
  std::vector<std::string> missing;
  const auto &[rank, own] = *parts.begin();
  const Program &program = plan.metadata.programs[programIndex(plan.metadata.programs, rank)];
  Program::Found found = program.findArgument(name);
  if (!found.value)
    found = program.findResult(name);
  std::vector<char> wanted(own.size());
  cutPart(expected, *found.value, plan.metadata.groups, rank, wanted.data());
  for (const Group &group : plan.metadata.groups) {
    std::vector<Field> sum(own.size() / sizeof(Field), Field(0));
    bool isWhole = group.size > 1;
    for (int64_t member = 0; isWhole && member < group.size; ++member) {
      auto part = parts.find(group.rankOf(group.instanceOf(rank), member));
      isWhole = part != parts.end() && part->second.size() == own.size();
      for (size_t i = 0; isWhole && i < sum.size(); ++i)
        sum[i] += fieldsOf(part->second)[i];
    }
    if (isWhole && std::equal(sum.begin(), sum.end(), fieldsOf(wanted).begin()))
      missing.push_back(group.name);
  }
  return missing;
}

} // namespace

std::string diagnose(const Plan &plan, const RunResult &result, const RunResult &reference, const std::string &name) {
  const Tensor &own = result.results.at(name), &expected = reference.results.at(name);
  if (own.dtype != kFieldType)
    return "";
  if (auto parts = result.unlike.find(name); parts != result.unlike.end() && !parts->second.empty())
    if (std::vector<std::string> groups = missingSums(plan, parts->second, name, expected); !groups.empty())
      return "it lacks a sum over " + groupText(groups);
  const auto count = static_cast<size_t>(own.elements());
  std::optional<Field> factor = factorOf({own.as<Field>(), count}, {expected.as<Field>(), count});
  if (!factor || *factor == Field(1))
    return "";
  std::vector<std::string> groups;
  for (const Group &group : plan.metadata.groups)
    if (group.size > 1 && *factor == Field(group.size))
      groups.push_back(group.name);
  const std::string fraction = fractionText(*factor);
  return fraction.empty() ? ""
                          : "it is " + fraction + " times the reference's" +
                                (groups.empty() ? "" : ", as if summed over " + groupText(groups) + " once too often");
}

} // namespace moert::run
