// Which file systems several computers may write one file on, by injected answers of statfs.
#include "indexed_dataset/base/storage/file_system.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {
namespace {

class Magic : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("WEFT_STATFS_TYPE"); }
  static std::string found(const char* magic) {
    ::setenv("WEFT_STATFS_TYPE", magic, 1);
    return incoherent_file_system("/").value_or("");
  }
};

TEST_F(Magic, ClientsThatKeepWholePagesAreNamed) {
  EXPECT_EQ(found("0x6969"), "NFS");
  EXPECT_EQ(found("0x517B"), "SMB");
  EXPECT_EQ(found("0xFF534D42"), "SMB");
  EXPECT_EQ(found("0xFE534D42"), "SMB");
  EXPECT_EQ(found("0x01021997"), "9p");
  EXPECT_EQ(found("0x5346414F"), "AFS");
  EXPECT_EQ(found("0x6B414653"), "AFS");
}

TEST_F(Magic, AnUnknownFuseIsNamedAsItIsMounted) {
  // "/" is mounted with some other type, which mountinfo says.
  EXPECT_TRUE(found("0x65735546").starts_with("FUSE (")) << found("0x65735546");
}

TEST_F(Magic, ClusterAndLocalFileSystemsGoOn) {
  for (const char* magic :
       {"0x0BD00BD0" /* Lustre */, "0x47504653" /* GPFS */, "0x19830326" /* BeeGFS */,
        "0x00C36400" /* CephFS */, "0xEF53" /* ext4 */, "0x58465342" /* XFS */,
        "0x01021994" /* tmpfs */, "0x794c7630" /* overlay */}) {
    EXPECT_EQ(found(magic), "") << magic;
  }
}

TEST_F(Magic, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(incoherent_file_system("/is/not/there"), std::system_error);
  EXPECT_EQ(incoherent_file_system("/dev/shm").value_or(""), "");
}

}  // namespace
}  // namespace weft
