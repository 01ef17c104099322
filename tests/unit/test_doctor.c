/* doctor and RDMA devices: a made /sys and /dev, and numbers. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/doctor/doctor.h"

#define FOUND_MAX 16

struct scene {
    char root[64];
    struct gw_config config;
    struct gw_doctor doctor;
    size_t n;
    enum gw_verdict verdict[FOUND_MAX];
    char text[FOUND_MAX][GW_DOCTOR_TEXT_MAX];
};

static void on_found(void *owner,
                     enum gw_verdict verdict,
                     const char *check,
                     const char *text)
{
    struct scene *scene = owner;
    (void)check;
    assert_true(scene->n < FOUND_MAX);
    scene->verdict[scene->n] = verdict;
    snprintf(scene->text[scene->n++], GW_DOCTOR_TEXT_MAX, "%s", text);
}

static unsigned port_mtu(const char *device, unsigned port, unsigned *most_p)
{
    (void)port;
    *most_p = 4096;
    return strcmp(device, "mlx5_10") == 0 ? 4096 : 1024;
}

/* The answer of gw_rdma_gpu_memory for a device of that name. */
static enum gw_status
gpu_memory(const char *device, int has_dma_buf, char *text, size_t room)
{
    assert_true(has_dma_buf);
    if (strcmp(device, "mlx5_0") == 0) {
        snprintf(text, room, "dma-buf");
        return GW_OK;
    }
    snprintf(text, room, "not by peermem: no module");
    return strcmp(device, "rxe0") == 0 ? GW_EUNSUPPORTED : GW_EIO;
}

static unsigned no_port_mtu(const char *device, unsigned port, unsigned *most_p)
{
    (void)device, (void)port, (void)most_p;
    return 0;
}

/* ---- a tree of files ---- */

static void make(const struct scene *scene, const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", scene->root, path);
    for (char *at = strchr(whole + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_port(const struct scene *scene,
                      const char *device,
                      unsigned port,
                      const char *name,
                      const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "sys/class/infiniband/%s/ports/%u/%s", device,
             port, name);
    make(scene, path, text);
}

static void make_device(const struct scene *scene,
                        const char *device,
                        const char *state,
                        const char *layer,
                        const char *interface)
{
    char path[256];
    make_port(scene, device, 1, "state", state);
    make_port(scene, device, 1, "phys_state", "5: LinkUp\n");
    make_port(scene, device, 1, "link_layer", layer);
    make_port(scene, device, 1, "rate", "100 Gb/sec (4X EDR)\n");
    snprintf(path, sizeof path, "sys/class/infiniband/%s/device/net/%s/x",
             device, interface);
    make(scene, path, "");
}

static void
make_interface(const struct scene *scene, const char *name, const char *flags)
{
    char path[256];
    snprintf(path, sizeof path, "sys/class/net/%s/flags", name);
    make(scene, path, flags);
    snprintf(path, sizeof path, "sys/class/net/%s/mtu", name);
    make(scene, path, "1500\n");
}

static void make_gid(const struct scene *scene,
                     const char *device,
                     unsigned index,
                     const char *gid,
                     const char *type)
{
    char name[64];
    snprintf(name, sizeof name, "gids/%u", index);
    make_port(scene, device, 1, name, gid);
    snprintf(name, sizeof name, "gid_attrs/types/%u", index);
    make_port(scene, device, 1, name, type);
}

/* 10.0.0.1 is eth0's, 10.0.0.2 eth1's. */
static void
add_address(struct scene *scene, const char *interface, uint8_t last)
{
    struct gw_doctor_address *one =
        &scene->doctor.address[scene->doctor.addresses++];
    *one = (struct gw_doctor_address){
        .gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = last},
        .up = 1,
        .running = 1};
    snprintf(one->interface, sizeof one->interface, "%s", interface);
    snprintf(one->host, sizeof one->host, "10.0.0.%u", last);
}

static int setup(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    strcpy(scene->root, "/tmp/test_doctor.XXXXXX");
    assert_non_null(mkdtemp(scene->root));
    gw_config_default(&scene->config);
    scene->doctor = (struct gw_doctor){.root = scene->root,
                                       .config = &scene->config,
                                       .port_mtu = port_mtu,
                                       .gpu_memory = gpu_memory,
                                       .found = on_found,
                                       .owner = scene};
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", scene->root);
    int failed = system(command);
    free(scene);
    return failed;
}

/* Runs a check; the finding with `text` must have the verdict. */
static void finds(struct scene *scene,
                  const char *check,
                  enum gw_verdict verdict,
                  const char *text)
{
    scene->n = 0;
    assert_true(gw_doctor_run_one(&scene->doctor, check));
    for (size_t i = 0; i < scene->n; i++) {
        if (!strstr(scene->text[i], text))
            continue;
        if (scene->verdict[i] != verdict)
            fail_msg("%s: %s", gw_verdict_name(scene->verdict[i]),
                     scene->text[i]);
        return;
    }
    fail_msg("%s: not found: %s; but: %s", check, text,
             scene->n ? scene->text[0] : "nothing");
}

static void set(struct scene *scene, const char *assignment)
{
    struct gw_error error;
    assert_int_equal(gw_config_set(&scene->config, assignment, &error), GW_OK);
}

/* ---- cases ---- */

static void no_device(void **state)
{
    struct scene *scene = *state;
    finds(scene, "device", GW_VERDICT_NOTE, "tensors go over tcp");
    finds(scene, "gid", GW_VERDICT_NOTE, "nothing to look at");
    finds(scene, "files", GW_VERDICT_NOTE, "nothing to look at");
    set(scene, "cluster.transport=rdma");
    finds(scene, "device", GW_VERDICT_FIX, "rdma link add");
}

static void ports_that_are_down(void **state)
{
    struct scene *scene = *state;
    make_device(scene, "mlx5_0", "1: DOWN\n", "Ethernet\n", "eth0");
    make_interface(scene, "eth0", "0x1002\n");
    finds(scene, "device", GW_VERDICT_FIX, "ip link set eth0 up");
    make_interface(scene, "eth0", "0x1003\n");
    finds(scene, "device", GW_VERDICT_FIX, "no link: look at cable");
    make_device(scene, "mlx5_2", "2: INIT\n", "InfiniBand\n", "ib0");
    make_interface(scene, "ib0", "0x1003\n");
    finds(scene, "device", GW_VERDICT_FIX, "systemctl start opensm");
    finds(scene, "gid", GW_VERDICT_NOTE, "nothing to look at");
    /* one that is active is enough, and so is tcp */
    make_device(scene, "mlx5_10", "4: ACTIVE\n", "Ethernet\n", "eth1");
    finds(scene, "device", GW_VERDICT_NOTE, "mlx5_0 port 1 is DOWN");
    finds(scene, "device", GW_VERDICT_OK,
          "mlx5_10 port 1 is active: LinkUp, Ethernet, 100 Gb/sec (4X EDR), "
          "interface eth1");
    make_device(scene, "mlx5_10", "1: DOWN\n", "Ethernet\n", "eth1");
    finds(scene, "device", GW_VERDICT_FIX, "mlx5_0 port 1 is DOWN");
    set(scene, "cluster.transport=tcp");
    finds(scene, "device", GW_VERDICT_NOTE, "mlx5_0 port 1 is DOWN");
}

static void devices_in_the_order_of_their_numbers(void **state)
{
    struct scene *scene = *state;
    make_device(scene, "mlx5_10", "4: ACTIVE\n", "Ethernet\n", "eth1");
    make_device(scene, "mlx5_2", "4: ACTIVE\n", "Ethernet\n", "eth0");
    finds(scene, "device", GW_VERDICT_OK, "mlx5_2 port 1");
    assert_int_equal(scene->n, 2);
    assert_non_null(strstr(scene->text[0], "mlx5_2 "));
    assert_non_null(strstr(scene->text[1], "mlx5_10 "));
}

static void path_mtu(void **state)
{
    struct scene *scene = *state;
    make_device(scene, "mlx5_0", "4: ACTIVE\n", "Ethernet\n", "eth0");
    make_device(scene, "mlx5_10", "4: ACTIVE\n", "Ethernet\n", "eth1");
    make_interface(scene, "eth0", "0x1003\n");
    finds(scene, "mtu", GW_VERDICT_NOTE,
          "mlx5_0 port 1: path MTU 1024 of 4096, as interface eth0 has 1500");
    finds(scene, "mtu", GW_VERDICT_OK, "mlx5_10 port 1: path MTU 4096 of 4096");
    scene->doctor.port_mtu = no_port_mtu;
    finds(scene, "mtu", GW_VERDICT_UNKNOWN, "mlx5_0 port 1: its path MTU");
}

static void gid_that_is_used(void **state)
{
    struct scene *scene = *state;
    static const char *const zero = "0000:0000:0000:0000:0000:0000:0000:0000\n";
    static const char *const first =
        "0000:0000:0000:0000:0000:ffff:0a00:0001\n";
    make_device(scene, "mlx5_0", "4: ACTIVE\n", "Ethernet\n", "eth0");
    make_gid(scene, "mlx5_0", 0, "fe80:0000:0000:0000:0000:0000:0000:0001\n",
             "RoCE v2\n");
    make_gid(scene, "mlx5_0", 2, zero, "");
    finds(scene, "gid", GW_VERDICT_FIX,
          "interface eth0 has no address, and peers are met by address: ip "
          "addr add ADDRESS/PREFIX dev eth0");
    add_address(scene, "eth0", 1);
    add_address(scene, "eth1", 2);
    finds(scene, "gid", GW_VERDICT_FIX, "no GID for 10.0.0.1 of eth0");
    assert_int_equal(scene->n, 1);
    make_gid(scene, "mlx5_0", 3, first, "IB/RoCE v1\n");
    finds(scene, "gid", GW_VERDICT_NOTE,
          "index 3 for 10.0.0.1 of eth0 is RoCE v1");
    make_gid(scene, "mlx5_0", 10, first, "RoCE v2\n");
    finds(scene, "gid", GW_VERDICT_OK,
          "mlx5_0 port 1: index 10 for 10.0.0.1 of eth0, RoCE v2");
    /* an interface on top of the device's */
    add_address(scene, "eth0.5", 5);
    make_gid(scene, "mlx5_0", 11, "0000:0000:0000:0000:0000:ffff:0a00:0005\n",
             "RoCE v2\n");
    finds(scene, "gid", GW_VERDICT_OK, "index 11 for 10.0.0.5 of eth0.5");
    assert_int_equal(scene->n, 2);
    /* an interface without an address, and one of no device */
    add_address(scene, "eth2", 7);
    scene->doctor.address[3].host[0] = '\0';
    finds(scene, "gid", GW_VERDICT_OK, "index 11 for 10.0.0.5 of eth0.5");
    assert_int_equal(scene->n, 2);
    set(scene, "cluster.interface=10.0.0.2");
    finds(scene, "gid", GW_VERDICT_NOTE, "set it to eth0, which is that of");
    set(scene, "cluster.transport=rdma");
    finds(scene, "gid", GW_VERDICT_FIX,
          "cluster.interface 10.0.0.2 is not that of an active RDMA device");
    set(scene, "cluster.interface=eth0,eth1");
    finds(scene, "gid", GW_VERDICT_NOTE, "eth1 of cluster.interface is not");
    set(scene, "cluster.interface=10.0.0.1");
    finds(scene, "gid", GW_VERDICT_OK, "index 10");
    assert_int_equal(scene->n, 2);
}

static void interface_of_a_device_without_a_bus(void **state)
{
    struct scene *scene = *state;
    make_port(scene, "rxe0", 1, "state", "4: ACTIVE\n");
    finds(scene, "gid", GW_VERDICT_UNKNOWN, "cannot be told");
    make(scene, "sys/class/infiniband/rxe0/parent", "d0\n");
    finds(scene, "device", GW_VERDICT_OK, "interface d0");
    make_port(scene, "rxe0", 1, "gid_attrs/ndevs/0", "d1\n");
    finds(scene, "device", GW_VERDICT_OK, "interface d1");
}

static void device_files(void **state)
{
    struct scene *scene = *state;
    char path[128];
    make_device(scene, "mlx5_0", "4: ACTIVE\n", "Ethernet\n", "eth0");
    finds(scene, "files", GW_VERDICT_FIX, "modprobe rdma_ucm");
    finds(scene, "files", GW_VERDICT_FIX, "modprobe ib_uverbs");
    make(scene, "sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
    make(scene, "sys/class/infiniband_verbs/abi_version", "6\n");
    make(scene, "dev/infiniband/rdma_cm", "");
    finds(scene, "files", GW_VERDICT_OK, "rdma_cm (librdmacm) can be opened");
    finds(scene, "files", GW_VERDICT_FIX, "uverbs0 (mlx5_0) is not there");
    assert_int_equal(scene->n, 2);
    make(scene, "dev/infiniband/uverbs0", "");
    snprintf(path, sizeof path, "%s/dev/infiniband/uverbs0", scene->root);
    chmod(path, 0);
    if (access(path, R_OK) != 0) /* root may open everything */
        finds(scene, "files", GW_VERDICT_FIX, "chmod 666");
    chmod(path, 0600);
    finds(scene, "files", GW_VERDICT_OK, "uverbs0 (mlx5_0) can be opened");
}

static void locked_memory(void **state)
{
    struct scene *scene = *state;
    struct gw_doctor *doctor = &scene->doctor;
    doctor->limits = (struct gw_doctor_limits){.locked = 64 << 10};
    finds(scene, "memlock", GW_VERDICT_UNKNOWN, "gradweir doctor JOB");
    doctor->job = "job";
    strcpy(doctor->no_memory.text, "no data here");
    finds(scene, "memlock", GW_VERDICT_UNKNOWN, "no data here");
    doctor->has_memory = 1;
    doctor->memory = (struct gw_doctor_memory){3 << 20, 5 << 20};
    set(scene, "cluster.transport=rdma");
    finds(scene, "memlock", GW_VERDICT_FIX,
          "3 MiB per worker and 5 MiB per server, and a process may lock 64 "
          "KiB: ulimit -l unlimited");
    set(scene, "cluster.transport=tcp");
    finds(scene, "memlock", GW_VERDICT_NOTE, "should it go over rdma");
    doctor->limits.locked = 5 << 20;
    finds(scene, "memlock", GW_VERDICT_OK, "may lock 5120 KiB");
    doctor->limits = (struct gw_doctor_limits){.locked = 0, .may_lock = 1};
    finds(scene, "memlock", GW_VERDICT_OK, "does not hold for this user");
    doctor->limits = (struct gw_doctor_limits){.locked = UINT64_MAX};
    finds(scene, "memlock", GW_VERDICT_OK, "no limit");
}

static void memory_of_gpus(void **state)
{
    struct scene *scene = *state;
    make_device(scene, "mlx5_0", "4: ACTIVE\n", "Ethernet\n", "eth0");
    make_device(scene, "mlx5_1", "4: ACTIVE\n", "Ethernet\n", "eth1");
    make_device(scene, "mlx5_2", "1: DOWN\n", "Ethernet\n", "eth2");
    make_device(scene, "rxe0", "4: ACTIVE\n", "Ethernet\n", "eth3");
    finds(scene, "gpu", GW_VERDICT_NOTE, "mlx5_0 takes GPU memory by dma-buf");
    finds(scene, "gpu", GW_VERDICT_UNKNOWN, "whether mlx5_1 takes GPU memory");
    finds(scene, "gpu", GW_VERDICT_NOTE,
          "rxe0 takes GPU memory through a pinned mirror in host memory, "
          "because not by peermem: no module");
    assert_int_equal(scene->doctor.count[GW_VERDICT_OK], 0);
}

static void open_files(void **state)
{
    struct scene *scene = *state;
    set(scene, "cluster.workers=500");
    set(scene, "cluster.connections=4");
    scene->doctor.limits.files = 1024;
    finds(scene, "nofile", GW_VERDICT_FIX,
          "a server of this job has up to 2542 ");
    scene->doctor.limits.files = 2541;
    finds(scene, "nofile", GW_VERDICT_FIX, "ulimit -n 2542");
    scene->doctor.limits.files = 2542;
    finds(scene, "nofile", GW_VERDICT_OK, "2542 are enough");
}

static void interfaces(void **state)
{
    struct scene *scene = *state;
    struct gw_doctor *doctor = &scene->doctor;
    finds(scene, "interface", GW_VERDICT_FIX, "ip link set lo up");
    add_address(scene, "lo", 9);
    doctor->address[0].loopback = 1;
    finds(scene, "interface", GW_VERDICT_NOTE, "no other interface is up");
    add_address(scene, "eth0", 1);
    add_address(scene, "eth1", 2);
    finds(scene, "interface", GW_VERDICT_NOTE,
          "one of these: eth0 10.0.0.1, eth1 10.0.0.2");
    doctor->address[2].up = 0;
    finds(scene, "interface", GW_VERDICT_NOTE, "this: eth0 10.0.0.1");
    finds(scene, "interface", GW_VERDICT_NOTE, "ip link set eth1 up");
    set(scene, "cluster.interface=eth1");
    finds(scene, "interface", GW_VERDICT_FIX, "ip link set eth1 up");
    set(scene, "cluster.interface=10.0.0.1");
    finds(scene, "interface", GW_VERDICT_OK, "eth0, address 10.0.0.1");
    set(scene, "cluster.interface=eth0,eth1");
    finds(scene, "interface", GW_VERDICT_OK, "eth0, address 10.0.0.1");
    finds(scene, "interface", GW_VERDICT_FIX, "ip link set eth1 up");
    finds(scene, "interface", GW_VERDICT_NOTE, "spread over these 2");
    set(scene, "cluster.interface=10.0.0.1");
    doctor->address[1].running = 0;
    finds(scene, "interface", GW_VERDICT_FIX, "has no link");
    set(scene, "cluster.interface=eth7");
    finds(scene, "interface", GW_VERDICT_FIX, "set it to one of: eth0");
    finds(scene, "port", GW_VERDICT_NOTE, "cluster.port is 0");
    set(scene, "cluster.port=7000");
    finds(scene, "port", GW_VERDICT_UNKNOWN, "not tried");
    add_address(scene, "eth7", 0);
    doctor->address[3].host[0] = '\0';
    finds(scene, "interface", GW_VERDICT_FIX, "ip addr add");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(no_device),
        CASE(ports_that_are_down),
        CASE(devices_in_the_order_of_their_numbers),
        CASE(path_mtu),
        CASE(gid_that_is_used),
        CASE(interface_of_a_device_without_a_bus),
        CASE(device_files),
        CASE(locked_memory),
        CASE(memory_of_gpus),
        CASE(open_files),
        CASE(interfaces),
    };
    return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
