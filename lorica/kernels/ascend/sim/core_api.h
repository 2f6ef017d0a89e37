// The seam between the AscendC templates and the model: each AscendC call becomes one untyped call
// here, on the core that runs the kernel now (one core at a time runs on a thread). A call never
// fails: what is wrong goes into the SimReport, and its effect is left out. C++17.
#pragma once

#include <cstdint>

#include "lorica/kernels/ascend/sim/types.h"

namespace lorica::ascend {

enum class Type : uint8_t {
  kHalf,
  kBf16,
  kFloat,
  kInt32,
  kUint32,
  kInt16,
  kUint16,
  kInt8,
  kUint8,
  kInt64,
  kUint64
};

template <typename T>
struct TypeOf;
#define LORICA_TYPE_OF(CXX, NAME)             \
  template <>                                 \
  struct TypeOf<CXX> {                        \
    static constexpr Type value = Type::NAME; \
  }
LORICA_TYPE_OF(half, kHalf);
LORICA_TYPE_OF(bfloat16_t, kBf16);
LORICA_TYPE_OF(float, kFloat);
LORICA_TYPE_OF(int32_t, kInt32);
LORICA_TYPE_OF(uint32_t, kUint32);
LORICA_TYPE_OF(int16_t, kInt16);
LORICA_TYPE_OF(uint16_t, kUint16);
LORICA_TYPE_OF(int8_t, kInt8);
LORICA_TYPE_OF(uint8_t, kUint8);
LORICA_TYPE_OF(int64_t, kInt64);
LORICA_TYPE_OF(uint64_t, kUint64);
#undef LORICA_TYPE_OF

int32_t TypeBytes(Type type);
const char* TypeName(Type type);

enum class Space : uint8_t { kGm, kL1, kUb, kL0A, kL0B, kL0C, kBt };
constexpr int kSpaces = 7;

// What a tensor is to the model: a byte range of one memory. `gm` is the start when in GM.
struct View {
  Space space = Space::kGm;
  AscendC::TPosition position = AscendC::TPosition::GM;
  Type type = Type::kFloat;
  int64_t offset = 0;  // bytes from the memory's start; unused in GM
  int64_t bytes = 0;   // of the tensor; in GM 0: to the end of the buffer
  uint8_t* gm = nullptr;
  int32_t buffer = 0;  // of a queue, 0: none
};
Space SpaceOf(AscendC::TPosition position);

// Scalar unit.
void ScalarRead(const View& view, int64_t index, void* value, int line);
void ScalarWrite(const View& view, int64_t index, const void* value, int line);
void CacheClean(const View& view, bool whole_cache, int line);

// Copies.
struct CopyShape {
  int64_t pieces = 1;
  int64_t piece_bytes = 0;
  int64_t source_step = 0;  // bytes from start to start
  int64_t target_step = 0;
};
void CopyPlain(const View& to, const View& from, int64_t elements, int line);
void CopyPieces(const View& to, const View& from, const AscendC::DataCopyParams& params, int line);
void CopyNd2Nz(const View& to, const View& from, const AscendC::Nd2NzParams& params, int line);
struct PadFill {
  bool pad = false;
  int32_t left = 0;
  int32_t right = 0;
  uint64_t value = 0;  // the element's bits
};
void CopyPad(const View& to, const View& from, const AscendC::DataCopyExtParams& params,
             const PadFill& fill, int line);
// L0C -> UB (arch 2002), on PIPE_V.
void CopyL0cToUb(const View& to, const View& from, const AscendC::DataCopyParams& params,
                 const AscendC::DataCopyEnhancedParams& enhanced, int line);

// Cube.
void Load2d(const View& to, const View& from, const AscendC::LoadData2DParams& params, int line);
void MmadOp(const View& c, const View& a, const View& b, const View* bias,
            const AscendC::MmadParams& params, int line);
void FixpipeOp(const View& to, const View& l0c, const AscendC::FixpipeParamsV220& params,
               bool row_major, int line);

// Vector.
enum class VecOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kAdds,
  kMuls,
  kMaxs,
  kMins,
  kAxpy,
  kMulAddDst,
  kExp,
  kLn,
  kAbs,
  kSqrt,
  kRec,
  kRelu,
  kDuplicate,
  kCast
};
struct VecShape {
  int64_t count = 0;  // > 0: contiguous elements; else repeats under a mask
  uint64_t mask[2] = {0, 0};
  int32_t repeat = 0;
  int32_t dst_block = 1, a_block = 1, b_block = 1;
  int32_t dst_repeat = 8, a_repeat = 8, b_repeat = 8;
};
// The first `lanes` lanes of a repeat.
void MaskOfLanes(uint64_t lanes, uint64_t mask[2]);
void VecElementwise(VecOp op, const View& dst, const View* a, const View* b, double scalar,
                    AscendC::RoundMode mode, const VecShape& shape, int line);
enum class ReduceOp : uint8_t { kWholeSum, kBlockSum, kPairSum, kWholeMax };
struct ReduceShape {
  uint64_t mask[2] = {0, 0};
  int32_t repeat = 0;
  int32_t dst_repeat = 1;
  int32_t src_block = 1;
  int32_t src_repeat = 8;
};
void VecReduce(ReduceOp op, const View& dst, const View& src, const ReduceShape& shape, int line);
// All `count` elements to dst[0], in the order of the hardware's tree; `work` is overwritten.
void VecReduceSum(const View& dst, const View& src, const View& work, int64_t count, int line);
void VecBrcb(const View& dst, const View& src, int32_t repeat,
             const AscendC::BrcbRepeatParams& params, int line);
void VecGather(const View& dst, const View& src, const View& byte_offsets, uint32_t base,
               int64_t count, int line);

// Sync and modes.
void SetFlagOp(int from, int to, int id, int line);
void WaitFlagOp(int from, int to, int id, int line);
void BarrierOp(int pipe, int line);
void CrossSetOp(int mode, int pipe, int id, int line);
void CrossWaitOp(int pipe, int id, int line);
void SyncAllOp(bool aiv_only, int line);
void SetAtomicOp(bool on, Type type);

// Queues.
int32_t PipeInitBuffer(AscendC::TPosition position, int32_t depth, int64_t bytes, int line);
void PipeDestroy();
View QueueAlloc(int32_t queue, Type type, int line);
void QueueEnQue(int32_t queue, const View& tensor, int line);
View QueueDeQue(int32_t queue, Type type, int line);
void QueueFree(int32_t queue, const View& tensor, int line);
View BufferGet(int32_t queue, Type type, int64_t elements, int line);
int32_t EventAlloc(int from, int to, int line);
int32_t EventFetch(int from, int to, int line);
void EventRelease(int from, int to, int32_t id, int line);

// Who am I.
int64_t BlockIndex();
int64_t BlockCount();
int64_t SubBlockIndex();
int64_t TaskRatio();
bool OnCube();
bool OnVector();

}  // namespace lorica::ascend
