//===- HostMemory.cpp - what this machine can give ------------------------===//

#include "host/HostMemory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace moert::host {

static int64_t meminfoAvailable() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t value;
  while (file >> key >> value) {
    if (key == "MemAvailable:")
      return value * 1024;
    file.ignore(64, '\n');
  }
  return INT64_MAX;
}

/// Reads version 2 control groups; "max" is no limit.
static int64_t cgroupAvailable() {
  int64_t limit, used;
  std::ifstream limitFile("/sys/fs/cgroup/memory.max"), usedFile("/sys/fs/cgroup/memory.current");
  if (!(limitFile >> limit) || !(usedFile >> used))
    return INT64_MAX;
  return std::max<int64_t>(0, limit - used);
}

static int64_t addressSpaceAvailable() {
  rlimit limit;
  int64_t pages;
  std::ifstream file("/proc/self/statm");
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || !(file >> pages))
    return INT64_MAX;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE));
}

int64_t availableMemory() { return std::min({meminfoAvailable(), cgroupAvailable(), addressSpaceAvailable()}); }

std::string byteText(int64_t bytes) {
  const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

void FreeDeleter::operator()(void *data) const { std::free(data); }

Status allocateBlock(int64_t bytes, const std::string &what, Block &block) {
  constexpr size_t kAlignment = 256;
  size_t size = (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + kAlignment - 1) / kAlignment * kAlignment;
  block.reset(std::aligned_alloc(kAlignment, size));
  if (!block)
    return Status::error(MOERT_ERROR_OUT_OF_MEMORY, "cannot allocate ", bytes, " bytes (", byteText(bytes), ") for ",
                         what);
  return {};
}

} // namespace moert::host
