/* A Level Zero driver that reports what a file tells it to: a stand-in for Intel's behind the real loader.
 *
 * It is built from the specification's headers (libze-dev) and installed as libze_intel_gpu.so.1 in a simulated
 * host. It does nothing but enumerate. Like the driver it stands for it opens the render node of each device
 * for reading and writing and leaves out those it cannot open, and it honours ZE_FLAT_DEVICE_HIERARCHY
 * (FLAT by default) and ZE_AFFINITY_MASK.
 *
 * The file is named by FAKE_ZE. Its lines:
 *   api MAJOR MINOR                what zeDriverGetApiVersion says
 *   init NUMBER                    what zeInit returns
 *   largest BYTES                  what every device gives in one piece; without the line all of its memory
 *   act crash|abort|hang PLACE     in zeInit ("init") or zeDeviceGetProperties ("properties")
 *   device ID DOMAIN BUS DEVICE FUNCTION TILES BYTES_PER_TILE INTEGRATED NODE NAME...   (numbers as in C; NODE - for none)
 */
#include <fcntl.h>
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_CARDS 32
#define MAX_TILES 8
#define DRIVER_VERSION (0x01030000u + 27642u)

typedef struct device {
  struct device *card;                /* itself for a card */
  struct device *tiles[MAX_TILES];
  unsigned id, pci[4], count, number; /* count: sub-devices that are shown; number: of a tile in its card */
  unsigned long long memory;          /* bytes */
  int integrated;
  char name[ZE_MAX_DEVICE_NAME];
} device;

static device *shown[MAX_CARDS * MAX_TILES];
static unsigned shown_count;
static unsigned api_major = 1, api_minor = 3, init_result;
static unsigned long long largest; /* bytes in one piece; 0: all of the memory */
static char act_what[16], act_where[16];
static int driver_handle;

static void act(const char *where) {
  if (strcmp(act_where, where) != 0) return;
  if (strcmp(act_what, "crash") == 0) raise(SIGSEGV);
  if (strcmp(act_what, "abort") == 0) abort();
  if (strcmp(act_what, "hang") == 0)
    for (;;) pause();
}

static int can_open(const char *node) {
  int fd;
  if (strcmp(node, "-") == 0) return 1;
  fd = open(node, O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  close(fd);
  return 1;
}

static device *new_device(const device *like) {
  device *made = malloc(sizeof *made);
  if (made == NULL) abort();
  *made = *like;
  made->card = made;
  return made;
}

static void add_card(const device *like, unsigned tiles, device **cards, unsigned *cards_count) {
  device *card = new_device(like);
  unsigned long long each = card->memory;
  card->count = tiles > 1 ? tiles : 0;
  card->memory = each * tiles;
  for (unsigned i = 0; i < card->count; i++) {
    card->tiles[i] = new_device(like);
    card->tiles[i]->card = card;
    card->tiles[i]->count = 0;
    card->tiles[i]->number = i;
  }
  cards[(*cards_count)++] = card;
}

static unsigned read_file(device **cards) {
  const char *path = getenv("FAKE_ZE");
  FILE *file = path ? fopen(path, "r") : NULL;
  unsigned cards_count = 0;
  char line[1024];
  while (file && fgets(line, sizeof line, file)) {
    device read = {0};
    unsigned tiles;
    char node[256];
    if (sscanf(line, "api %u %u", &api_major, &api_minor) == 2) continue;
    if (sscanf(line, "init %i", (int *)&init_result) == 1) continue;
    if (sscanf(line, "largest %llu", &largest) == 1) continue;
    if (sscanf(line, "act %15s %15s", act_what, act_where) == 2) continue;
    if (sscanf(line, "device %i %i %i %i %i %u %llu %d %255s %255[^\n]", (int *)&read.id, (int *)&read.pci[0],
               (int *)&read.pci[1], (int *)&read.pci[2], (int *)&read.pci[3], &tiles, &read.memory,
               &read.integrated, node, read.name) == 10 &&
        tiles <= MAX_TILES && cards_count < MAX_CARDS && can_open(node))
      add_card(&read, tiles, cards, &cards_count);
  }
  if (file) fclose(file);
  return cards_count;
}

/* One word of the mask: "2" is a device, "2.1" a tile of it. In FLAT mode devices are tiles and have none. */
static void show_masked(const char *word, device **roots, unsigned count) {
  char *end;
  unsigned long number = strtoul(word, &end, 10), tile;
  if (end == word || number >= count) return;
  if (*end == '\0') {
    shown[shown_count++] = roots[number];
  } else if (*end == '.') {
    tile = strtoul(end + 1, &end, 10);
    if (*end == '\0' && tile < roots[number]->count) shown[shown_count++] = roots[number]->tiles[tile];
  }
}

static void choose(device **cards, unsigned cards_count) {
  const char *hierarchy = getenv("ZE_FLAT_DEVICE_HIERARCHY"), *mask = getenv("ZE_AFFINITY_MASK");
  int composite = hierarchy && strcasecmp(hierarchy, "COMPOSITE") == 0;
  device *roots[MAX_CARDS * MAX_TILES];
  unsigned count = 0;
  for (unsigned i = 0; i < cards_count; i++) {
    if (composite || cards[i]->count == 0) roots[count++] = cards[i];
    else for (unsigned t = 0; t < cards[i]->count; t++) roots[count++] = cards[i]->tiles[t];
  }
  shown_count = 0;
  if (mask == NULL || *mask == '\0') {
    memcpy(shown, roots, sizeof roots);
    shown_count = count;
    return;
  }
  char copy[256], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", mask);
  for (char *word = strtok_r(copy, ",", &rest); word && shown_count < MAX_CARDS; word = strtok_r(NULL, ",", &rest))
    show_masked(word, roots, count);
}

static ze_result_t ZE_APICALL init(ze_init_flags_t flags) {
  device *cards[MAX_CARDS];
  unsigned count = read_file(cards);
  (void)flags;
  act("init");
  if (init_result) return (ze_result_t)init_result;
  choose(cards, count);
  return shown_count ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNINITIALIZED;
}

static ze_result_t ZE_APICALL driver_get(uint32_t *count, ze_driver_handle_t *drivers) {
  if (*count && drivers) drivers[0] = (ze_driver_handle_t)&driver_handle;
  *count = 1;
  return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL driver_version(ze_driver_handle_t driver, ze_api_version_t *version) {
  (void)driver;
  *version = (ze_api_version_t)ZE_MAKE_VERSION(api_major, api_minor);
  return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL driver_properties(ze_driver_handle_t driver, ze_driver_properties_t *properties) {
  (void)driver;
  properties->driverVersion = DRIVER_VERSION;
  return ZE_RESULT_SUCCESS;
}

static ze_result_t give(device *const *from, unsigned have, uint32_t *count, ze_device_handle_t *to) {
  if (*count == 0 || to == NULL) {
    *count = have;
    return ZE_RESULT_SUCCESS;
  }
  if (*count > have) *count = have;
  for (unsigned i = 0; i < *count; i++) to[i] = (ze_device_handle_t)from[i];
  return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL device_get(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *devices) {
  (void)driver;
  return give(shown, shown_count, count, devices);
}

static ze_result_t ZE_APICALL sub_devices(ze_device_handle_t handle, uint32_t *count, ze_device_handle_t *devices) {
  device *parent = (device *)handle;
  return give(parent->tiles, parent->count, count, devices);
}

static ze_result_t ZE_APICALL device_properties(ze_device_handle_t handle, ze_device_properties_t *properties) {
  device *one = (device *)handle;
  act("properties");
  properties->type = ZE_DEVICE_TYPE_GPU;
  properties->vendorId = 0x8086;
  properties->deviceId = one->id;
  properties->flags = (one->integrated ? ZE_DEVICE_PROPERTY_FLAG_INTEGRATED : 0) |
                      (one->card != one ? ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE : 0);
  properties->subdeviceId = one->number;
  properties->maxMemAllocSize = largest ? largest : one->memory;
  memset(properties->uuid.id, 0, sizeof properties->uuid.id);
  for (int i = 0; i < 4; i++) properties->uuid.id[8 + i] = (uint8_t)one->pci[i];
  properties->uuid.id[12] = (uint8_t)(one->card != one ? one->number + 1 : 0);
  snprintf(properties->name, sizeof properties->name, "%s", one->name);
  return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL memory_properties(ze_device_handle_t handle, uint32_t *count,
                                                ze_device_memory_properties_t *properties) {
  if (*count && properties) {
    properties->totalSize = ((device *)handle)->memory;
    snprintf(properties->name, sizeof properties->name, "HBM");
  }
  *count = 1;
  return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL pci_properties(ze_device_handle_t handle, ze_pci_ext_properties_t *properties) {
  device *one = (device *)handle;
  properties->address.domain = one->pci[0];
  properties->address.bus = one->pci[1];
  properties->address.device = one->pci[2];
  properties->address.function = one->pci[3];
  properties->maxSpeed.genVersion = properties->maxSpeed.width = -1;
  properties->maxSpeed.maxBandwidth = -1;
  return ZE_RESULT_SUCCESS;
}

/* The loader asks for every table, also of tools and sysman, and drops a driver that lacks one; empty ones pass. */
#define TABLE(name, type, fill)                                                    \
  ZE_DLLEXPORT ze_result_t ZE_APICALL name(ze_api_version_t version, type *table) { \
    (void)version;                                                                 \
    if (table == NULL) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;                \
    memset(table, 0, sizeof *table);                                               \
    fill return ZE_RESULT_SUCCESS;                                                 \
  }

TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t, table->pfnInit = init;)
TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t, table->pfnGet = driver_get;
      table->pfnGetApiVersion = driver_version; table->pfnGetProperties = driver_properties;)
TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t, table->pfnGet = device_get;
      table->pfnGetSubDevices = sub_devices; table->pfnGetProperties = device_properties;
      table->pfnGetMemoryProperties = memory_properties; table->pfnPciGetPropertiesExt = pci_properties;)
TABLE(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t, )
TABLE(zeGetContextProcAddrTable, ze_context_dditable_t, )
TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t, )
TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t, )
TABLE(zeGetImageProcAddrTable, ze_image_dditable_t, )
TABLE(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t, )
TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t, )
TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t, )
TABLE(zeGetEventProcAddrTable, ze_event_dditable_t, )
TABLE(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t, )
TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t, )
TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t, )
TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t, )
TABLE(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t, )
TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t, )
TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t, )
TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t, )
TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t, )
TABLE(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t, )
TABLE(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t, )
TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t, )
TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t, )
TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t, )
TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t, )
TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t, )
TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t, )
TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t, )
TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t, )
TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t, )
TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t, )
TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t, )
TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t, )
TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t, )
TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t, )
TABLE(zesGetLedProcAddrTable, zes_led_dditable_t, )
TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t, )
TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t, )
TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t, )
TABLE(zetGetContextProcAddrTable, zet_context_dditable_t, )
TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t, )
TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t, )
TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t, )
TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t, )
TABLE(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t, )
TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t, )
TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t, )
TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t, )
TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t, )
TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t, )
TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t, )
