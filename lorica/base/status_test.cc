#include "lorica/base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace lorica {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return InvalidArgument("n: expected an even number, found " + std::to_string(n));
  return n / 2;
}

Result<int> Quarter(int n) {
  LORICA_ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

Status CheckQuarter(int n) {
  LORICA_RETURN_IF_ERROR(Quarter(n).status());
  return OkStatus();
}

TEST(Status, CarriesCodeMessageAndContext) {
  const Status status = NotFound("b.safetensors: no such file").WithContext("adapter a");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.ToString(), "NOT_FOUND: adapter a: b.safetensors: no such file");
  EXPECT_TRUE(OkStatus().WithContext("x").ok());
}

TEST(Result, MacrosPassValuesAndFailuresOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "n: expected an even number, found 3");
  EXPECT_FALSE(CheckQuarter(3).ok());
  EXPECT_TRUE(CheckQuarter(4).ok());
}

TEST(Result, MovesOutWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

TEST(ResultDeathTest, ReadingAFailureEndsTheProcess) {
  Result<int> failed = Half(1);
  EXPECT_DEATH(static_cast<void>(failed.value()), "broken contract");
}

}  // namespace
}  // namespace lorica
