//===- OutputFileTest.cpp -------------------------------------------------===//

#include "core/OutputFile.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include <unistd.h>

namespace moert {
namespace {

/// Path for this process, because tests run at the same time in different processes.
std::string getPath() { return testing::TempDir() + "output-file-" + std::to_string(::getpid()); }

TEST(OutputFile, Writes) {
  std::string path = getPath(), want;
  OutputFile file;
  EXPECT_FALSE(file.isOpen());
  EXPECT_TRUE(file.close().ok());
  ASSERT_TRUE(file.open(path).ok());
  EXPECT_TRUE(file.isOpen());
  // Pieces have sizes around the size of the buffer.
  for (size_t count : {1, 65535, 65536, 65537, 200000, 3}) {
    std::string piece(count, static_cast<char>('a' + count % 7));
    file << piece << count << std::flush;
    want += piece + std::to_string(count);
  }
  file.put('!');
  EXPECT_TRUE(file.close().ok());
  std::ifstream back(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(back), {}), want + "!");
  std::remove(path.c_str());
}

// The first error is kept, with its reason.
TEST(OutputFile, Errors) {
  OutputFile file;
  EXPECT_EQ(file.open("/nowhere/file").message, "'/nowhere/file': cannot be written: No such file or directory");
  EXPECT_EQ(file.close().message, "'/nowhere/file': cannot be written: No such file or directory");
  const std::string full = "'/dev/full': cannot be written: No space left on device";
  ASSERT_TRUE(file.open("/dev/full").ok());
  file << "a";
  EXPECT_EQ(file.writeOut().message, full);
  EXPECT_FALSE(file << "b" << std::flush);
  EXPECT_EQ(file.close().message, full);
  // The error is found at close, or by writing more than the buffer holds.
  ASSERT_TRUE(file.open("/dev/full").ok());
  file << "a";
  EXPECT_EQ(file.close().message, full);
  ASSERT_TRUE(file.open("/dev/full").ok());
  file << std::string(1 << 20, 'a');
  EXPECT_FALSE(file);
  EXPECT_EQ(file.close().message, full);
  EXPECT_TRUE(file.open(getPath()).ok());
  EXPECT_TRUE(file.close().ok());
  std::remove(getPath().c_str());
}

} // namespace
} // namespace moert
