//===- TextData.cpp - a text file as batches of a byte-level model --------===//

#include "run/TextData.h"
#include "run/Random.h"

#include <fstream>
#include <sstream>

namespace moert::run {

Status TextData::open(const std::string &path, int64_t length, uint64_t seed, TextData &data) {
  auto invalid = [&](const std::string &message) {
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "'" + path + "': " + message);
  };
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return invalid("cannot be opened for reading");
  data.bytes = text.str();
  data.length = length;
  data.seed = seed;
  if (static_cast<int64_t>(data.bytes.size()) <= length)
    return invalid("expected more than the " + std::to_string(length) + " bytes of a sequence but the file has " +
                   std::to_string(data.bytes.size()));
  return {};
}

void TextData::fill(int64_t step, Tensor &tokens, Tensor &labels) const {
  uint64_t starts = bytes.size() - static_cast<uint64_t>(length);
  uint64_t key = mix(mix(seed) ^ static_cast<uint64_t>(step));
  for (int64_t sequence = 0, end = tokens.elements() / length; sequence < end; ++sequence) {
    uint64_t start = mix(key ^ static_cast<uint64_t>(sequence)) % starts;
    for (int64_t i = 0; i < length; ++i) {
      tokens.as<int32_t>()[sequence * length + i] = static_cast<unsigned char>(bytes[start + static_cast<uint64_t>(i)]);
      labels.as<int32_t>()[sequence * length + i] =
          static_cast<unsigned char>(bytes[start + static_cast<uint64_t>(i) + 1]);
    }
  }
}

} // namespace moert::run
