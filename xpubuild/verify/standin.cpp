// The stand-in for a GPU: an adapter for oneAPI's Unified Runtime that presents Intel's OpenCL CPU device as a
// Data Center GPU Max behind Level Zero, so that a PyTorch for XPU runs on a machine without a GPU.
//
// It forwards every function table to the adapter for OpenCL and replaces what adapter, platform and device
// report. Kernels are compiled and run by the CPU. The name of the device says what it is. Handles of Level Zero
// do not exist: whoever asks for one is refused, with one line on standard error.
//
// standin.py compiles it against the headers of the SYCL runtime that torch loads, and sets:
//   UR_ADAPTERS_FORCE_LOAD   this library
//   XPUBUILD_STANDIN_INNER   the library with the adapter behind: libur_adapter_opencl or libur_loader, by release
//   OCL_ICD_FILENAMES        Intel's OpenCL CPU device
#include <ur_api.h>
#include <ur_ddi.h>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace {

constexpr char kDevice[] = "Intel(R) Data Center GPU Max 1100 (stand-in on the CPU)";
constexpr char kPlatform[] = "Intel(R) oneAPI Unified Runtime over Level-Zero (stand-in on the CPU)";
// torch asks each kernel for its largest work-group and counts on what a Max answers; the CPU says 8192, with
// which reductions are wrong.
constexpr size_t kWorkGroup = 1024;

[[noreturn]] void stop(const std::string &why) {
  std::fprintf(stderr, "xpubuild stand-in: %s\n", why.c_str());
  std::abort();
}

// An environment variable for as long as the adapter behind is being loaded.
class Setting {
 public:
  Setting(const char *name, const char *value) : name_(name) {
    if (const char *before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Setting() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char *value) { value ? setenv(name_, value, 1) : unsetenv(name_); }
  const char *name_;
  std::optional<std::string> before_;
};

void *inner() {
  static void *const library = [] {
    const char *path = std::getenv("XPUBUILD_STANDIN_INNER");
    if (!path) stop("XPUBUILD_STANDIN_INNER is not set");
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!opened) stop(dlerror());
    // A loader has the adapter inside of it. It has to be initialised, and must not load this library again.
    using Init = ur_result_t (*)(ur_device_init_flags_t, ur_loader_config_handle_t);
    if (auto init = reinterpret_cast<Init>(dlsym(opened, "urLoaderInit"))) {
      Setting itself("UR_ADAPTERS_FORCE_LOAD", nullptr), cpu("ONEAPI_DEVICE_SELECTOR", "opencl:cpu");
      if (init(0, nullptr) != UR_RESULT_SUCCESS) stop(std::string(path) + " cannot be initialised");
    }
    return opened;
  }();
  return library;
}

// Fills a table with the functions of the adapter behind.
template <class Table>
ur_result_t fill(const char *name, ur_api_version_t version, Table *table) {
  auto get = reinterpret_cast<ur_result_t (*)(ur_api_version_t, Table *)>(dlsym(inner(), name));
  return get ? get(version, table) : UR_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

// The place where a urXGetInfo function leaves its answer.
struct Answer {
  size_t room;
  void *to;
  size_t *needed;

  ur_result_t bytes(const void *from, size_t count) const {
    if (needed) *needed = count;
    if (to && room < count) return UR_RESULT_ERROR_INVALID_SIZE;
    if (to) std::memcpy(to, from, count);
    return UR_RESULT_SUCCESS;
  }
  template <class T>
  ur_result_t value(T what) const { return bytes(&what, sizeof what); }
  ur_result_t text(const char *what) const { return bytes(what, std::strlen(what) + 1); }
};

// Replaces a function of a table and returns the one that was there.
template <class Function>
Function replace(Function &slot, Function ours) {
  return std::exchange(slot, ours);
}

ur_result_t refused() {
  static std::atomic_flag shown = ATOMIC_FLAG_INIT;
  if (!shown.test_and_set())
    std::fputs("xpubuild stand-in: a native handle of Level Zero was asked for, but there is no GPU\n", stderr);
  return UR_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

template <class... Arguments>
void refuse(ur_result_t(UR_APICALL *&slot)(Arguments...)) {
  slot = [](Arguments...) -> ur_result_t { return refused(); };
}

template <class Table>
void without_native_handles(Table *table) {
  refuse(table->pfnGetNativeHandle);
  refuse(table->pfnCreateWithNativeHandle);
}

decltype(ur_adapter_dditable_t::pfnGetInfo) adapter_info;
decltype(ur_platform_dditable_t::pfnGetInfo) platform_info;
decltype(ur_device_dditable_t::pfnGet) devices;
decltype(ur_device_dditable_t::pfnGetInfo) device_info;
decltype(ur_kernel_dditable_t::pfnGetGroupInfo) group_info;
decltype(ur_event_dditable_t::pfnWait) event_wait;
decltype(ur_event_dditable_t::pfnGetProfilingInfo) profiling_info;
decltype(ur_event_dditable_t::pfnGetInfo) event_get_info;
decltype(ur_event_dditable_t::pfnRelease) event_release;
decltype(ur_enqueue_dditable_t::pfnEventsWaitWithBarrier) barrier;

ur_result_t UR_APICALL our_adapter_info(
    ur_adapter_handle_t adapter, ur_adapter_info_t what, size_t room, void *to, size_t *needed) {
  if (what == UR_ADAPTER_INFO_BACKEND) return Answer{room, to, needed}.value(UR_BACKEND_LEVEL_ZERO);
  return adapter_info(adapter, what, room, to, needed);
}

ur_result_t UR_APICALL our_platform_info(
    ur_platform_handle_t platform, ur_platform_info_t what, size_t room, void *to, size_t *needed) {
  const Answer answer{room, to, needed};
  switch (what) {
    case UR_PLATFORM_INFO_BACKEND: return answer.value(UR_BACKEND_LEVEL_ZERO);
    case UR_PLATFORM_INFO_NAME: return answer.text(kPlatform);
    case UR_PLATFORM_INFO_VERSION: return answer.text("1.6");
    default: return platform_info(platform, what, room, to, needed);
  }
}

ur_result_t UR_APICALL our_devices(
    ur_platform_handle_t platform, ur_device_type_t type, uint32_t room, ur_device_handle_t *to, uint32_t *found) {
  // The one device is a GPU, and there is no CPU beside it.
  if (type == UR_DEVICE_TYPE_GPU) type = UR_DEVICE_TYPE_ALL;
  else if (type == UR_DEVICE_TYPE_CPU) type = UR_DEVICE_TYPE_GPU;
  return devices(platform, type, room, to, found);
}

// What a Max 1100 says of itself, as far as libsycl and torch ask.
ur_result_t UR_APICALL our_device_info(
    ur_device_handle_t device, ur_device_info_t what, size_t room, void *to, size_t *needed) {
  static const uint32_t sub_groups[] = {16, 32};
  const Answer answer{room, to, needed};
  switch (what) {
    case UR_DEVICE_INFO_TYPE: return answer.value(UR_DEVICE_TYPE_GPU);
    case UR_DEVICE_INFO_NAME: return answer.text(kDevice);
    case UR_DEVICE_INFO_DEVICE_ID: return answer.value(uint32_t{0x0BDA});
    case UR_DEVICE_INFO_PCI_ADDRESS: return answer.text("0000:00:00.0");
    case UR_DEVICE_INFO_IP_VERSION: return answer.value(12u << 22 | 60u << 14 | 7u);
    case UR_DEVICE_INFO_GPU_EU_COUNT: return answer.value(448u);
    case UR_DEVICE_INFO_GPU_EU_SIMD_WIDTH: return answer.value(16u);
    case UR_DEVICE_INFO_GPU_EU_SLICES: return answer.value(1u);
    case UR_DEVICE_INFO_GPU_SUBSLICES_PER_SLICE: return answer.value(56u);
    case UR_DEVICE_INFO_GPU_EU_COUNT_PER_SUBSLICE: return answer.value(8u);
    case UR_DEVICE_INFO_GPU_HW_THREADS_PER_EU: return answer.value(8u);
    case UR_DEVICE_INFO_MAX_MEMORY_BANDWIDTH: return answer.value(uint64_t{1'228'800'000'000});
    case UR_DEVICE_INFO_MEMORY_CLOCK_RATE: return answer.value(3200u);
    case UR_DEVICE_INFO_MEMORY_BUS_WIDTH: return answer.value(8192u);
    case UR_DEVICE_INFO_GLOBAL_MEM_FREE:
      return answer.value(static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE));
    case UR_DEVICE_INFO_TIMESTAMP_RECORDING_SUPPORT_EXP: return answer.value(ur_bool_t{true});
    case UR_DEVICE_INFO_SUB_GROUP_SIZES_INTEL: return answer.bytes(sub_groups, sizeof sub_groups);
    case UR_DEVICE_INFO_MAX_WORK_GROUP_SIZE: return answer.value(kWorkGroup);
    default: return device_info(device, what, room, to, needed);
  }
}

ur_result_t UR_APICALL our_group_info(
    ur_kernel_handle_t kernel, ur_device_handle_t device, ur_kernel_group_info_t what, size_t room, void *to,
    size_t *needed) {
  const ur_result_t result = group_info(kernel, device, what, room, to, needed);
  if (result == UR_RESULT_SUCCESS && what == UR_KERNEL_GROUP_INFO_WORK_GROUP_SIZE && to)
    *static_cast<size_t *>(to) = std::min(*static_cast<size_t *>(to), kWorkGroup);
  return result;
}

// Events that only tell the time (torch.xpu.Event with timing): the adapter for OpenCL has none. Ours wait for
// the work before them; the time is noted here and answered from here.
std::mutex noting;
std::unordered_map<ur_event_handle_t, uint64_t> noted;

ur_result_t UR_APICALL our_timestamp(
    ur_queue_handle_t queue, bool, uint32_t count, const ur_event_handle_t *before, ur_event_handle_t *event) {
  ur_event_handle_t own = nullptr;
  ur_result_t result = barrier(queue, count, before, &own);
  if (result == UR_RESULT_SUCCESS) result = event_wait(1, &own);
  if (result != UR_RESULT_SUCCESS) return result;
  if (!event) return event_release(own);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::lock_guard<std::mutex> guard(noting);
  noted[own] = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  *event = own;
  return UR_RESULT_SUCCESS;
}

ur_result_t UR_APICALL our_profiling_info(
    ur_event_handle_t event, ur_profiling_info_t what, size_t room, void *to, size_t *needed) {
  {
    const std::lock_guard<std::mutex> guard(noting);
    const auto found = noted.find(event);
    if (found != noted.end()) return Answer{room, to, needed}.value(found->second);
  }
  return profiling_info(event, what, room, to, needed);
}

// The address of an event that is gone may become that of another one.
ur_result_t UR_APICALL our_event_release(ur_event_handle_t event) {
  uint32_t users = 0;
  event_get_info(event, UR_EVENT_INFO_REFERENCE_COUNT, sizeof users, &users, nullptr);
  if (users <= 1) {
    const std::lock_guard<std::mutex> guard(noting);
    noted.erase(event);
  }
  return event_release(event);
}

}  // namespace

// What a loader looks up by name, one function for each table. They have another name in C++, since ur_ddi.h of
// one release declares some of these and a loader may ask for those of another.
#define TABLE(Name, type)                                                                        \
  ur_result_t table_##Name(ur_api_version_t, type *) __asm__("urGet" #Name "ProcAddrTable");     \
  ur_result_t table_##Name(ur_api_version_t version, type *table)
#define FILL(Name)                                                                               \
  const ur_result_t result = fill("urGet" #Name "ProcAddrTable", version, table);                \
  if (result != UR_RESULT_SUCCESS) return result
#define FORWARD(Name) TABLE(Name, void) { return fill("urGet" #Name "ProcAddrTable", version, table); }
#define WITHOUT_NATIVE(Name, type) TABLE(Name, type) { FILL(Name); without_native_handles(table); return result; }

FORWARD(BindlessImagesExp) FORWARD(CommandBufferExp) FORWARD(DeviceExp) FORWARD(EventExp) FORWARD(GraphExp)
FORWARD(IPCExp) FORWARD(KernelExp) FORWARD(MemoryExportExp) FORWARD(PhysicalMem) FORWARD(ProgramExp)
FORWARD(QueueExp) FORWARD(Sampler) FORWARD(USM) FORWARD(USMExp) FORWARD(UsmP2PExp) FORWARD(VirtualMem)
WITHOUT_NATIVE(Context, ur_context_dditable_t)
WITHOUT_NATIVE(Program, ur_program_dditable_t)
WITHOUT_NATIVE(Queue, ur_queue_dditable_t)

TABLE(Mem, ur_mem_dditable_t) {
  FILL(Mem);
  refuse(table->pfnGetNativeHandle);
  refuse(table->pfnBufferCreateWithNativeHandle);
  refuse(table->pfnImageCreateWithNativeHandle);
  return result;
}

TABLE(Adapter, ur_adapter_dditable_t) {
  FILL(Adapter);
  adapter_info = replace(table->pfnGetInfo, &our_adapter_info);
  return result;
}

TABLE(Platform, ur_platform_dditable_t) {
  FILL(Platform);
  platform_info = replace(table->pfnGetInfo, &our_platform_info);
  without_native_handles(table);
  return result;
}

TABLE(Device, ur_device_dditable_t) {
  FILL(Device);
  devices = replace(table->pfnGet, &our_devices);
  device_info = replace(table->pfnGetInfo, &our_device_info);
  without_native_handles(table);
  return result;
}

TABLE(Kernel, ur_kernel_dditable_t) {
  FILL(Kernel);
  group_info = replace(table->pfnGetGroupInfo, &our_group_info);
  without_native_handles(table);
  return result;
}

TABLE(Event, ur_event_dditable_t) {
  FILL(Event);
  event_wait = table->pfnWait;
  event_get_info = table->pfnGetInfo;
  event_release = replace(table->pfnRelease, &our_event_release);
  profiling_info = replace(table->pfnGetProfilingInfo, &our_profiling_info);
  without_native_handles(table);
  return result;
}

TABLE(Enqueue, ur_enqueue_dditable_t) {
  FILL(Enqueue);
  barrier = table->pfnEventsWaitWithBarrier;
  return result;
}

TABLE(EnqueueExp, ur_enqueue_exp_dditable_t) {
  FILL(EnqueueExp);
  table->pfnTimestampRecordingExp = &our_timestamp;
  return result;
}
