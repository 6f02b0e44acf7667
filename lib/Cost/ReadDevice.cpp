//===- ReadDevice.cpp - devices in a profile ------------------------------===//
#include "ProfileReader.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;
using namespace mlir::moe::profile;
using llvm::StringRef;
using llvm::Twine;

namespace {

constexpr int64_t maxHeadColumns = 1 << 16;
constexpr int64_t maxProducts = 16;

std::vector<double> readAxis(JsonReader &reader, StringRef key) {
  std::vector<double> axis = reader.getNumbers(key, kPositive);
  if (axis.empty())
    reader.fail(key, "a list of at least one number");
  for (size_t i = 1; i < axis.size(); ++i)
    if (axis[i] <= axis[i - 1])
      reader.fail((key + "[" + Twine(i) + "]").str(), "a number greater than the one before");
  return axis;
}

/// Reads the last part of every curve: `values`, one for each point of its `axes`.
template <typename Curve> void readValues(JsonReader &reader, Curve &curve, size_t points, StringRef axes) {
  curve.values = reader.getNumbers("values", kFraction);
  if (curve.values.size() != points)
    reader.fail("values", Twine(points) + " numbers, one for each of " + axes + ",");
  curve.relativeError = readError(reader);
  readSource(reader);
}

EfficiencyCurve readCurve(JsonReader &reader) {
  EfficiencyCurve curve;
  curve.rows = readAxis(reader, "rows");
  curve.columns = readAxis(reader, "columns");
  curve.depth = readAxis(reader, "depth");
  bool hasGroups = reader.find("groups");
  if (hasGroups)
    curve.groups = readAxis(reader, "groups");
  readValues(reader, curve, curve.rows.size() * curve.columns.size() * curve.depth.size() * curve.groups.size(),
             hasGroups ? "rows x columns x depth x groups" : "rows x columns x depth");
  return curve;
}

void readAttention(JsonReader &reader, AttentionCurve &curve, llvm::ArrayRef<AttentionCurve> earlier) {
  curve.dtype = readDtype(reader, numComputeDtypes);
  curve.headColumns = reader.getInteger("head_columns", 1, maxHeadColumns);
  curve.products = reader.getInteger("products", 1, maxProducts);
  if (llvm::any_of(earlier, [&](const AttentionCurve &other) {
        return other.dtype == curve.dtype && other.products == curve.products && other.headColumns >= curve.headColumns;
      }))
    reader.fail("head_columns", "more columns than in earlier entries of the same dtype and products");
  curve.length = readAxis(reader, "length");
  curve.heads = readAxis(reader, "heads");
  readValues(reader, curve, curve.length.size() * curve.heads.size(), "length x heads");
}

void readSpecial(JsonReader &reader, SpecialCurve &curve, llvm::ArrayRef<SpecialCurve>) {
  for (JsonReader &calls : reader.getObjects("calls")) {
    curve.calls.push_back({calls.getString("kernel"), readParams(calls)});
    calls.refuseOtherKeys();
  }
  curve.columnsMultiple = reader.getInteger("columns_multiple_of", 1, std::numeric_limits<int32_t>::max(), 1);
  curve.isRagged = reader.getBool("ragged", false);
  if (curve.calls.empty() && curve.columnsMultiple == 1 && !curve.isRagged)
    reader.fail("calls", "a list of calls, 'columns_multiple_of' above 1, or 'ragged',");
  curve.efficiency = readCurve(reader);
}

/// Reads the curves of an element type, or takes those of an earlier entry.
void readCurves(JsonReader &reader, llvm::ArrayRef<DeviceRate> earlier, DeviceRate &rate) {
  if (reader.find("like")) {
    rate.like = reader.getString("like");
    const auto *other =
        llvm::find_if(earlier, [&](const DeviceRate &one) { return one.dtype == rate.like && one.like.empty(); });
    if (other == earlier.end())
      return reader.fail("like", "the dtype of an earlier entry with curves of its own");
    rate.efficiency = other->efficiency;
    rate.special = other->special;
    rate.grouped = other->grouped;
    return;
  }
  JsonReader efficiency = reader.getObject("efficiency");
  rate.efficiency = readCurve(efficiency);
  rate.special = readList<SpecialCurve>(reader, "special", readSpecial);
  if (reader.find("grouped")) {
    JsonReader grouped = reader.getObject("grouped");
    rate.grouped = readCurve(grouped);
  }
}

void readRate(JsonReader &reader, DeviceRate &rate, llvm::ArrayRef<DeviceRate> earlier) {
  rate.dtype = readDtype(reader, numComputeDtypes);
  if (llvm::any_of(earlier, [&](const DeviceRate &other) { return other.dtype == rate.dtype; }))
    reader.fail("dtype", "an element type that no earlier entry has");
  rate.flopsPerSecond = reader.getNumber("flop_per_s", kPositive);
  readCurves(reader, earlier, rate);
}

void readKernel(JsonReader &reader, KernelRate &rate, llvm::ArrayRef<KernelRate> earlier) {
  rate.kernel = reader.getString("kernel");
  rate.dtype = readOptionalDtype(reader);
  rate.params = readParams(reader);
  if (llvm::any_of(earlier, [&](const KernelRate &other) {
        return other.kernel == rate.kernel && other.dtype == rate.dtype && other.params == rate.params;
      }))
    reader.fail("kernel", "a kernel, dtype and params that no earlier entry has");
  rate.latency = reader.getNumber("latency_s", kNotNegative);
  rate.bytesPerSecond = reader.getNumber("bytes_per_s", kPositive);
  readFit(reader, rate);
}

} // namespace

std::vector<int64_t> mlir::moe::profile::readParams(JsonReader &reader) {
  return reader.getIntegers("params", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

void mlir::moe::profile::readDevice(JsonReader &reader, ClusterProfile &profile) {
  profile.deviceName = reader.getString("name");
  profile.memoryBytes = reader.getNumber("memory_bytes", kPositive);
  profile.reservedBytes = reader.getNumber("reserved_bytes", kNotNegative, 0);
  if (profile.reservedBytes >= profile.memoryBytes)
    reader.fail("reserved_bytes", "less than 'memory_bytes'");
  profile.memoryBytesPerSecond = reader.getNumber("memory_bytes_per_s", kPositive);
  profile.host.launchSeconds.fill(reader.getNumber("launch_s", kNotNegative));
  profile.kernelSeconds = reader.getNumber("kernel_s", kNotNegative);
  // Key that the cost model does not use, because the runtime chooses which products wait for counts.
  reader.getNumber("counts_s", kNotNegative, 0);
  profile.cpu = reader.getString("cpu", "");
  profile.sustained = reader.getNumber("sustained", kFraction, 1);
  profile.rates = readList<DeviceRate>(reader, "rates", readRate);
  profile.attention = readList<AttentionCurve>(reader, "attention", readAttention);
  profile.kernels = readList<KernelRate>(reader, "kernels", readKernel);
  if (reader.find("host_link")) {
    JsonReader link = reader.getObject("host_link");
    profile.hostBytesPerSecond = link.getNumber("bytes_per_s", kPositive);
    profile.hostLatency = link.getNumber("latency_s", kNotNegative);
    readSource(link);
  }
  readSource(reader);
}
