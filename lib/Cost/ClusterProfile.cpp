//===- ClusterProfile.cpp - reading and checking cluster profiles ---------===//
//
// One function reads each kind of object in the file. ReadDevice.cpp reads devices, and ReadNetwork.cpp links and
// collectives.
//
//===----------------------------------------------------------------------===//
#include "moe/Cost/ClusterProfile.h"
#include "ProfileReader.h"

#include "moe/Support/InputFile.h"
#include "moe/Support/Text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir::moe;
using namespace mlir::moe::profile;
using llvm::StringRef;
using llvm::Twine;

std::pair<int64_t, int64_t> mlir::moe::profile::readRange(JsonReader &reader, StringRef key, int64_t max) {
  const llvm::json::Value *value = reader.find(key);
  if (!value || !value->getAsObject()) {
    int64_t number = reader.getInteger(key, 1, max);
    return {number, number};
  }
  JsonReader object = reader.getObject(key);
  int64_t least = object.getInteger("min", 1, max), most = object.getInteger("max", least, max);
  object.refuseOtherKeys();
  return {least, most};
}

void mlir::moe::profile::readSource(JsonReader &reader) {
  reader.getString("source");
  reader.refuseOtherKeys();
}

std::optional<double> mlir::moe::profile::readError(JsonReader &reader) {
  return reader.find("relative_error") ? std::optional(reader.getNumber("relative_error", kNotNegative)) : std::nullopt;
}

std::string mlir::moe::profile::readDtype(JsonReader &reader, size_t count) {
  const llvm::SmallVector<StringRef> accepted(std::begin(dtypes), std::begin(dtypes) + count);
  return accepted[reader.getChoice("dtype", accepted)].str();
}

std::string mlir::moe::profile::readOptionalDtype(JsonReader &reader) {
  return reader.find("dtype") ? readDtype(reader, std::size(dtypes)) : std::string();
}

namespace {

constexpr int64_t maxDevicesPerNode = 1 << 10;
constexpr int64_t maxProcessors = 1 << 12;

void readInterference(JsonReader &reader, Interference &set, llvm::ArrayRef<Interference> earlier) {
  const struct {
    StringRef name;
    bool &isBusy;
    double &speed;
  } kinds[] = {{"compute", set.compute, set.computeSpeed},
               {"communication", set.communication, set.communicationSpeed},
               {"copy", set.copy, set.copySpeed}};
  std::vector<std::string> running = reader.getStrings("running");
  for (const auto &[i, name] : llvm::enumerate(running)) {
    const auto *kind = llvm::find_if(kinds, [&](const auto &k) { return k.name == name; });
    if (kind == std::end(kinds) || kind->isBusy)
      reader.fail(("running[" + Twine(i) + "]").str(), "another one of \"compute\", \"communication\", \"copy\"");
    else
      kind->isBusy = true;
  }
  if (running.size() < 2)
    reader.fail("running", "at least two of \"compute\", \"communication\", \"copy\"");
  if (llvm::any_of(earlier, [&](const Interference &other) {
        return other.compute == set.compute && other.communication == set.communication && other.copy == set.copy;
      }))
    reader.fail("running", "a set that no earlier entry has");
  for (const auto &kind : kinds)
    if (kind.isBusy)
      kind.speed = reader.getNumber(kind.name, kFraction);
}

Processors readProcessors(JsonReader &root) {
  Processors processors;
  if (!root.find("processors"))
    return processors;
  JsonReader reader = root.getObject("processors");
  processors.count = reader.getInteger("count", 1, maxProcessors);
  JsonReader speed = reader.getObject("speed");
  for (unsigned i = 1; i < kNumResources; ++i) {
    StringRef name = getName(static_cast<Resource>(i));
    processors.speed[i] = speed.getNumbers(name, kFraction);
    // Ranks on processors may have no link to another memory.
    bool isOptional = static_cast<Resource>(i) == Resource::HostLink && processors.speed[i].empty();
    if (!isOptional && processors.speed[i].size() != static_cast<size_t>(processors.count))
      speed.fail(name, Twine(processors.count) + " numbers, one for each of 'processors.count',");
  }
  speed.refuseOtherKeys();
  readSource(reader);
  return processors;
}

/// The profile beside `path` that the profile `text` is like; null if there is none. parse() reports mistakes.
llvm::json::Value readBase(StringRef text, StringRef path) {
  auto parseJson = [](StringRef its) {
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(its);
    if (value)
      return std::move(*value);
    llvm::consumeError(value.takeError());
    return llvm::json::Value(nullptr);
  };
  llvm::json::Value value = parseJson(text);
  const llvm::json::Object *object = value.getAsObject();
  std::optional<StringRef> like = object ? object->getString("like") : std::nullopt;
  if (!like)
    return nullptr;
  llvm::SmallString<256> file(llvm::sys::path::parent_path(path));
  llvm::sys::path::append(file, *like + ".json");
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> base = readInputFile(file);
  if (base)
    return parseJson((*base)->getBuffer());
  llvm::consumeError(base.takeError());
  return nullptr;
}

} // namespace

llvm::Expected<ClusterProfile> ClusterProfile::parse(StringRef text, StringRef fileName,
                                                     const llvm::json::Object *base) {
  llvm::Expected<JsonReader> root = JsonReader::parse(text, fileName);
  if (!root)
    return root.takeError();
  if (root->find("like") && (!base || base->get("like")))
    root->fail("like", "the name of a profile in the same folder that is like no other one");
  root->getString("like", "");
  if (base)
    root->setDefaults(*base);
  ClusterProfile profile;
  root->getInteger("moeplan_cluster", 1, 1);
  profile.name = root->getString("name");
  if (!llvm::all_of(profile.name, [](char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.'; }))
    root->fail("name", "letters, digits, '-', '_' and '.'");
  profile.description = root->getString("description");
  profile.maxNodes = readRange(*root, "nodes", nodesLimit).second;
  profile.devicesPerNode = root->getInteger("devices_per_node", 1, maxDevicesPerNode);
  JsonReader device = root->getObject("device");
  if (const llvm::json::Object *its = base ? base->getObject("device") : nullptr)
    device.setDefaults(*its);
  readDevice(device, profile);
  profile.network = root->getString("network", "");
  readNetwork(*root, profile);
  profile.interference = readList<Interference>(*root, "interference", readInterference);
  readCollectives(*root, profile);
  profile.processors = readProcessors(*root);
  root->refuseOtherKeys();
  if (root->hasFailed())
    return root->takeError();
  return profile;
}

llvm::Expected<ClusterProfile> ClusterProfile::load(StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(path);
  if (!file)
    return file.takeError();
  llvm::json::Value base = readBase((*file)->getBuffer(), path);
  return parse((*file)->getBuffer(), path, base.getAsObject());
}

const DeviceRate *ClusterProfile::getRate(StringRef dtype) const {
  const auto found = llvm::find_if(rates, [&](const DeviceRate &rate) { return rate.dtype == dtype; });
  return found == rates.end() ? nullptr : &*found;
}
