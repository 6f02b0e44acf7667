//===- TokenData.cpp - a file of token ids as batches ---------------------===//

#include "run/TokenData.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <regex>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace moert::run {
namespace {

template <class T> int64_t readAs(const char *id) {
  T value;
  std::memcpy(&value, id, sizeof value);
  return static_cast<int64_t>(value);
}

constexpr TokenType kTypes[] = {{"bytes", "|u1", 1, readAs<uint8_t>},
                                {"uint16", "<u2", 2, readAs<uint16_t>},
                                {"int32", "<i4", 4, readAs<int32_t>},
                                {"uint32", "<u4", 4, readAs<uint32_t>},
                                {"int64", "<i8", 8, readAs<int64_t>}};

constexpr std::string_view kNpyMagic = "\x93NUMPY";

} // namespace

std::string tokenTypeNames(const std::string &separator) {
  std::string names;
  for (const TokenType &type : kTypes)
    names += (names.empty() ? "" : separator) + std::string(type.name);
  return names;
}

Status TokenData::error(const std::string &message) const { return invalid("'" + path + "': " + message); }

TokenData::~TokenData() {
  if (!file.empty())
    ::munmap(const_cast<char *>(file.data()), file.size());
  if (descriptor >= 0)
    ::close(descriptor);
}

Status TokenData::map() {
  struct stat facts = {};
  descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || ::fstat(descriptor, &facts) != 0)
    return error(std::string("cannot be opened for reading: ") + std::strerror(errno));
  if (!S_ISREG(facts.st_mode))
    return error("expected a regular file, which can be mapped into memory");
  // An empty file cannot be mapped.
  if (facts.st_size == 0)
    return {};
  const auto size = static_cast<size_t>(facts.st_size);
  void *mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED)
    return error(std::string("cannot be mapped into memory: ") + std::strerror(errno));
  file = {static_cast<const char *>(mapped), size};
  ::madvise(mapped, size, MADV_RANDOM);
  return {};
}

/// Fails if the size of the file has changed since it was opened. Reading bytes that it has lost would end the process.
Status TokenData::checkSize() const {
  struct stat facts = {};
  if (::fstat(descriptor, &facts) != 0)
    return error(std::string("cannot be read: ") + std::strerror(errno));
  if (static_cast<size_t>(facts.st_size) == file.size())
    return {};
  return error("the file has " + std::to_string(facts.st_size) + " bytes now and had " + std::to_string(file.size()) +
               " when training began: keep it as it is while it is in use");
}

/// Parses the header, a Python dictionary: {'descr': '<i4', 'fortran_order': False, 'shape': (1000,), }.
Status TokenData::parseNpy() {
  // The header's length has two bytes in version 1, and four in later versions.
  const size_t begin = file.size() > 6 && file[6] == 1 ? 10 : 12;
  if (file.size() < begin)
    return error("the header of the .npy file is cut off");
  const size_t length = static_cast<size_t>(begin == 10 ? readAs<uint16_t>(&file[8]) : readAs<uint32_t>(&file[8]));
  if (length > file.size() - begin)
    return error("the header of the .npy file is cut off");
  const std::string header(file.substr(begin, length));
  std::smatch descr, shape;
  if (!std::regex_search(header, descr, std::regex("'descr': *'([^']*)'")) ||
      !std::regex_search(header, shape, std::regex("'shape': *\\(([^)]*)\\)")))
    return error("expected a .npy file of one array of token ids but its header is " + header);
  auto found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto &t) { return descr[1] == t.descr; });
  if (found == std::end(kTypes))
    return error("expected token ids of type uint8, uint16, int32, uint32 or int64, little-endian, but the .npy file "
                 "has '" +
                 descr[1].str() + "': write ids.astype('<i4')");
  std::smatch rows;
  const std::string sizes = shape[1];
  if (!std::regex_match(sizes, rows, std::regex(" *([0-9]{1,18}) *, *")))
    return error("expected an array of one dimension but the .npy file has one of shape (" + sizes +
                 "): write ids.ravel()");
  const int64_t elements = std::stoll(rows[1]), rest = static_cast<int64_t>(file.size() - begin - length);
  if (rest % found->bytes != 0 || rest / found->bytes != elements)
    return error("expected " + std::to_string(elements) + " token ids of " + std::to_string(found->bytes) +
                 " bytes after the header but the file has " + std::to_string(rest) +
                 " bytes there: it was not written to its end, or something was added to it");
  type = found;
  first = &file[begin + length];
  count = elements;
  return {};
}

Status TokenData::findType(const std::string &name) {
  if (file.starts_with(kNpyMagic)) {
    MOERT_RETURN_IF_ERROR(parseNpy());
    if (!name.empty() && name != type->name)
      return error("expected ids of type " + name + ", as --data-type says, but the .npy file has " + type->name +
                   ": leave --data-type out");
    return {};
  }
  // A text has no zero bytes, which arrays of ids are full of.
  constexpr size_t kLooked = 65536;
  if (const size_t zero = file.substr(0, kLooked).find('\0'); name.empty() && zero != file.npos)
    return error("expected a text but byte " + std::to_string(zero) +
                 " is 0: say what the file holds by --data-type (" + tokenTypeNames() + ")");
  type = std::find_if(std::begin(kTypes), std::end(kTypes),
                      [&](auto &t) { return (name.empty() ? "bytes" : name) == t.name; });
  if (type == std::end(kTypes))
    return invalid("expected --data-type to be one of " + tokenTypeNames() + " but got '" + name + "'");
  const auto size = static_cast<int64_t>(file.size());
  if (size % type->bytes != 0)
    return error("expected a multiple of the " + std::to_string(type->bytes) + " bytes of an id of type " + type->name +
                 " but the file has " + std::to_string(size) +
                 " bytes: it was not written to its end, or --data-type is another one");
  first = file.data();
  count = size / type->bytes;
  return {};
}

Status TokenData::open(const std::string &name, const std::string &typeName, const Request &requested) {
  path = name;
  request = requested;
  MOERT_RETURN_IF_ERROR(map());
  MOERT_RETURN_IF_ERROR(findType(typeName));
  if (count > request.step)
    return {};
  return error("expected at least " + std::to_string(request.step + 1) + " tokens (" +
               std::to_string(request.step / request.sequence) + " sequences of " + std::to_string(request.sequence) +
               " in a step, and the one that follows) but the file has " + std::to_string(count) +
               ": give more data, or compile the plan for fewer sequences");
}

Status TokenData::fill(int64_t step, Tensor &tokens, Tensor &labels) const {
  MOERT_RETURN_IF_ERROR(checkSize());
  const uint64_t starts = static_cast<uint64_t>(count - request.sequence);
  const uint64_t key = hashOf(hashOf(request.seed) ^ static_cast<uint64_t>(step));
  for (int64_t begin = 0; begin < request.step; begin += request.sequence) {
    const int64_t start = static_cast<int64_t>(hashOf(key ^ static_cast<uint64_t>(begin / request.sequence)) % starts);
    for (int64_t i = 0; i <= request.sequence; ++i) {
      const int64_t id = type->read(first + (start + i) * type->bytes);
      if (id < 0 || id >= request.vocabulary)
        return error("token " + std::to_string(id) + " at index " + std::to_string(start + i) +
                     " is not in the model's vocabulary of " + std::to_string(request.vocabulary) +
                     ": use the tokenizer of this model; the ids were read as " + type->name + ", see --data-type");
      if (i < request.sequence)
        tokens.as<int32_t>()[begin + i] = static_cast<int32_t>(id);
      if (i > 0)
        labels.as<int32_t>()[begin + i - 1] = static_cast<int32_t>(id);
    }
  }
  return {};
}

} // namespace moert::run
