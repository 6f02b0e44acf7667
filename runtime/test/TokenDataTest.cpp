//===- TokenDataTest.cpp --------------------------------------------------===//

#include "run/TokenData.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <unistd.h>

using namespace moert;
using namespace moert::run;
using testing::HasSubstr;

namespace {

class TokenFile : public testing::Test {
protected:
  std::string path = testing::TempDir() + "tokens-" + std::to_string(::getpid());
  ~TokenFile() override { std::remove(path.c_str()); }

  void write(const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  template <class T> static std::string bytesOf(const std::vector<int64_t> &ids) {
    std::vector<T> values(ids.begin(), ids.end());
    return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
  }

  static std::string npy(const std::string &descr, const std::string &shape, const std::string &data,
                         char version = 1) {
    const std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }\n";
    std::string bytes = std::string("\x93NUMPY") + version + '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
      bytes += static_cast<char>(header.size() >> 8 * i & 255);
    return bytes + header + data;
  }

  /// Sequences of 4 tokens, 3 in a step.
  Status open(const std::string &type, TokenData &data, int64_t vocabulary = 50000) const {
    return data.open(path, type, {4, 12, vocabulary, /*seed=*/7});
  }

  std::string errorOf(const std::string &type = "") const {
    TokenData data;
    return open(type, data).message;
  }

  void SetUp() override {
    Value value;
    value.dtype = MOERT_I32;
    value.shape = {12};
    ASSERT_TRUE(Tensor::allocate(value, tokens).ok() && Tensor::allocate(value, labels).ok());
  }

  /// Tokens of a step.
  std::vector<int32_t> fill(const TokenData &data, int64_t step) {
    Status status = data.fill(step, tokens, labels);
    EXPECT_TRUE(status.ok()) << status.message;
    return {tokens.as<int32_t>(), tokens.as<int32_t>() + 12};
  }

  Tensor tokens, labels;
};

/// 40, 41, .., which also fit into a byte.
std::vector<int64_t> ascending() {
  std::vector<int64_t> ids(100);
  std::iota(ids.begin(), ids.end(), 40);
  return ids;
}

} // namespace

// Each type of file gives the same ids in the same sequences, and another step gives other ones.
TEST_F(TokenFile, Types) {
  const std::vector<int64_t> ids = ascending();
  const std::string int32s = bytesOf<int32_t>(ids), int64s = bytesOf<int64_t>(ids);
  const std::pair<std::string, std::string> files[] = {{"", bytesOf<uint8_t>(ids)},
                                                       {"bytes", bytesOf<uint8_t>(ids)},
                                                       {"uint16", bytesOf<uint16_t>(ids)},
                                                       {"int32", int32s},
                                                       {"uint32", int32s},
                                                       {"int64", int64s},
                                                       {"", npy("|u1", "100,", bytesOf<uint8_t>(ids))},
                                                       {"", npy("<u2", "100,", bytesOf<uint16_t>(ids))},
                                                       {"", npy("<i4", "100,", int32s)},
                                                       {"int32", npy("<i4", "100,", int32s, 2)},
                                                       {"", npy("<i8", "100,", int64s, 3)}};
  std::vector<int32_t> want;
  for (const auto &[type, bytes] : files) {
    write(bytes);
    TokenData data;
    Status status = open(type, data);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(data.size(), 100);
    const std::vector<int32_t> first = fill(data, 0);
    for (int64_t i = 0; i < 12; ++i)
      EXPECT_EQ(labels.as<int32_t>()[i], first[static_cast<size_t>(i)] + 1);
    EXPECT_NE(fill(data, 1), first);
    EXPECT_EQ(fill(data, 0), first);
    want = want.empty() ? first : want;
    EXPECT_EQ(first, want) << type;
  }
}

// The largest ids of each type.
TEST_F(TokenFile, LargeIds) {
  for (auto [type, id] : std::vector<std::pair<std::string, int64_t>>{{"uint16", 65534}, {"int32", INT32_MAX - 1}}) {
    std::vector<int64_t> ids(13, id);
    write(type == "uint16" ? bytesOf<uint16_t>(ids) : bytesOf<int32_t>(ids));
    TokenData data;
    ASSERT_TRUE(open(type, data, INT32_MAX).ok());
    ASSERT_TRUE(data.fill(3, tokens, labels).ok());
    EXPECT_EQ(tokens.as<int32_t>()[0], id);
    EXPECT_EQ(labels.as<int32_t>()[11], id);
  }
}

// Each error of a file says what was expected, what was found and what to do.
TEST_F(TokenFile, Wrong) {
  const std::string int32s = bytesOf<int32_t>(ascending());
  EXPECT_THAT(errorOf(), HasSubstr("cannot be opened for reading: No such file or directory"));
  write("");
  EXPECT_THAT(errorOf(), HasSubstr("expected at least 13 tokens (3 sequences of 4 in a step, and the one that "
                                   "follows) but the file has 0: give more data"));
  write("twelve bytes");
  EXPECT_THAT(errorOf(), HasSubstr("but the file has 12"));
  write(int32s);
  EXPECT_THAT(errorOf(), HasSubstr("expected a text but byte 1 is 0: say what the file holds by --data-type (bytes, "
                                   "uint16, int32, uint32, int64)"));
  EXPECT_THAT(errorOf("int16"), HasSubstr("expected --data-type to be one of bytes, uint16, int32, uint32, int64 but "
                                          "got 'int16'"));
  write(int32s + "x");
  EXPECT_THAT(errorOf("int32"),
              HasSubstr("expected a multiple of the 4 bytes of an id of type int32 but the file has 401 bytes"));
  write(npy("<i4", "100,", int32s + "x"));
  EXPECT_THAT(errorOf(), HasSubstr("expected 100 token ids of 4 bytes after the header but the file has 401 bytes"));
  write(npy("<i4", "100,", int32s));
  EXPECT_THAT(errorOf("uint16"), HasSubstr("expected ids of type uint16, as --data-type says, but the .npy file has "
                                           "int32: leave --data-type out"));
  write(npy("<f4", "100,", int32s));
  EXPECT_THAT(errorOf(), HasSubstr("but the .npy file has '<f4': write ids.astype('<i4')"));
  for (const char *shape : {"10, 10", "", "10, 10,"}) {
    write(npy("<i4", shape, int32s));
    EXPECT_THAT(errorOf(), HasSubstr("expected an array of one dimension"));
  }
  for (size_t length : {6, 7, 9, 20}) {
    write(npy("<i4", "100,", int32s).substr(0, length));
    EXPECT_THAT(errorOf(), HasSubstr("the header of the .npy file is cut off")) << length;
  }
  path = testing::TempDir();
  EXPECT_THAT(errorOf(), HasSubstr("expected a regular file"));
  path = "";
}

// An unknown id is found in the step that takes it.
TEST_F(TokenFile, OutsideTheVocabulary) {
  for (int64_t wrong : {int64_t(50000), int64_t(-1), int64_t(1) << 40}) {
    std::vector<int64_t> ids(13, 5);
    ids[12] = wrong;
    write(bytesOf<int64_t>(ids));
    TokenData data;
    ASSERT_TRUE(open("int64", data).ok());
    std::string message;
    for (int64_t step = 0; step < 100 && message.empty(); ++step)
      message = data.fill(step, tokens, labels).message;
    EXPECT_THAT(message, HasSubstr("token " + std::to_string(wrong) +
                                   " at index 12 is not in the model's vocabulary of 50000: use the tokenizer of this "
                                   "model; the ids were read as int64, see --data-type"));
  }
}

// A file that is truncated while it is mapped is an error, and does not end the process.
TEST_F(TokenFile, Truncated) {
  write(bytesOf<int32_t>(ascending()));
  TokenData data;
  ASSERT_TRUE(open("int32", data).ok());
  std::filesystem::resize_file(path, 8);
  EXPECT_THAT(data.fill(0, tokens, labels).message,
              HasSubstr("the file has 8 bytes now and had 400 when training began"));
}

// Only the tokens of a step are read: a file far larger than memory takes no time.
TEST_F(TokenFile, NeverReadWhole) {
  write("");
  std::filesystem::resize_file(path, uintmax_t(1) << 38);
  TokenData data;
  Status status = open("int32", data);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(data.size(), int64_t(1) << 36);
  EXPECT_TRUE(data.fill(0, tokens, labels).ok());
}
