// AscendC::TPipe, TQue, TBuf: buffers of a core's memories with the protocol
// AllocTensor -> EnQue -> DeQue -> FreeTensor. The model orders the producer's and the consumer's
// pipes at DeQue and at AllocTensor, as the flags inside the real queues do, and reports each
// step out of order and each tensor not freed. Owned by the kernel function of one core.
#pragma once

#include "lorica/kernels/ascend/sim/tensor.h"

namespace AscendC {

template <TPosition position, int32_t depth, int32_t mask = 0>
class TQue {
 public:
  template <typename T>
  LocalTensor<T> AllocTensor(int line = __builtin_LINE()) {
    return LocalTensor<T>(
        lorica::ascend::QueueAlloc(queue_, lorica::ascend::TypeOf<T>::value, line));
  }
  template <typename T>
  bool EnQue(const LocalTensor<T>& tensor, int line = __builtin_LINE()) {
    lorica::ascend::QueueEnQue(queue_, tensor.view(), line);
    return true;
  }
  template <typename T>
  LocalTensor<T> DeQue(int line = __builtin_LINE()) {
    return LocalTensor<T>(
        lorica::ascend::QueueDeQue(queue_, lorica::ascend::TypeOf<T>::value, line));
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>& tensor, int line = __builtin_LINE()) {
    lorica::ascend::QueueFree(queue_, tensor.view(), line);
  }
  static constexpr TPosition kPosition = position;
  void Attach(int32_t queue) { queue_ = queue; }

 private:
  int32_t queue_ = 0;
};

template <TPosition position = TPosition::VECCALC>
class TBuf {
 public:
  // All of the buffer, or its first `elements`.
  template <typename T>
  LocalTensor<T> Get(uint32_t elements = 0, int line = __builtin_LINE()) {
    return LocalTensor<T>(
        lorica::ascend::BufferGet(queue_, lorica::ascend::TypeOf<T>::value, elements, line));
  }
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t byte_offset,
                               int line = __builtin_LINE()) {
    lorica::ascend::View view =
        lorica::ascend::BufferGet(queue_, lorica::ascend::TypeOf<T>::value, 0, line);
    view.offset += byte_offset;
    view.bytes = int64_t{elements} * static_cast<int64_t>(sizeof(T));
    return LocalTensor<T>(view);
  }
  void Attach(int32_t queue) { queue_ = queue; }

 private:
  int32_t queue_ = 0;
};

class TPipe {
 public:
  TPipe() = default;
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;
  ~TPipe() { Destroy(); }
  void Destroy() {
    if (!destroyed_) lorica::ascend::PipeDestroy();
    destroyed_ = true;
  }

  template <TPosition position, int32_t depth, int32_t mask>
  bool InitBuffer(TQue<position, depth, mask>& queue, uint8_t number, uint32_t bytes,
                  int line = __builtin_LINE()) {
    queue.Attach(lorica::ascend::PipeInitBuffer(position, number, bytes, line));
    return true;
  }
  template <TPosition position>
  bool InitBuffer(TBuf<position>& buffer, uint32_t bytes, int line = __builtin_LINE()) {
    buffer.Attach(lorica::ascend::PipeInitBuffer(position, 0, bytes, line));
    return true;
  }
  template <HardEvent event>
  event_t AllocEventID(int line = __builtin_LINE()) {
    return lorica::ascend::EventAlloc(static_cast<int>(event) / 8, static_cast<int>(event) % 8,
                                      line);
  }
  event_t FetchEventID(HardEvent event, int line = __builtin_LINE()) {
    return lorica::ascend::EventFetch(static_cast<int>(event) / 8, static_cast<int>(event) % 8,
                                      line);
  }
  template <HardEvent event>
  void ReleaseEventID(event_t id, int line = __builtin_LINE()) {
    lorica::ascend::EventRelease(static_cast<int>(event) / 8, static_cast<int>(event) % 8, id,
                                 line);
  }

 private:
  bool destroyed_ = false;
};

}  // namespace AscendC
