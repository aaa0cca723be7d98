// QEMU's command line, and the check for KVM.

package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const qemu = "qemu-system-x86_64"

// One CPU runs, but the machine is configured for two CPUs. On a machine configured for one CPU,
// QEMU before 8.1 omits the guest's memory barriers, and its network stops permanently after some
// hundred megabytes.
const cpus = "1,maxcpus=2"

// emulated is the CPU without KVM. Linux's allocator uses CMPXCHG16B if available, and with that
// instruction QEMU 7.2 lost two of some hundred guests: during an interrupt in the instruction the
// flags were invalid (04f7aa02, 0426e602: parts of pointers), and the interrupt's return caused a
// double fault.
const emulated = "max,-cx16"

func arguments(cfg Config, net *Network, dir, accel string) []string {
	memory := cfg.MemoryMB
	if memory == 0 {
		memory = 768
	}
	cmdline := []string{"console=ttyS0", "quiet", "loglevel=4", "panic=-1", "mitigations=off", "nokaslr", "no_timer_check", "random.trust_cpu=on"}
	cmdline = append(cmdline, net.cmdline()...)
	cpu := "max"
	if strings.HasPrefix(accel, "tcg") {
		cpu = emulated
		cmdline = append(cmdline, "tsc=reliable")
	}
	console := []string{"-serial", "file:" + filepath.Join(dir, "console.log"), "-monitor", "none"}
	if cfg.shell {
		cmdline = append(cmdline, "h.shell=1")
		console = []string{"-serial", "mon:stdio"}
	}
	return slices.Concat([]string{
		"-accel", accel, "-cpu", cpu, "-M", "pc", "-m", fmt.Sprint(memory), "-smp", cpus,
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", cfg.Image.Kernel, "-initrd", cfg.Image.Initrd, "-append", strings.Join(cmdline, " "),
		"-virtfs", "local,path=" + filepath.Join(dir, "share") + ",mount_tag=share,security_model=none,multidevs=remap",
		"-object", "rng-random,id=r0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=r0",
	}, net.arguments(cfg.Isolated), console)
}

var kvmBroken atomic.Bool

// kvmUsable asks the kernel for a virtual machine, because a device node alone proves little. Even
// with a virtual machine only the first boot decides.
var kvmUsable = sync.OnceValue(func() bool {
	if os.Getenv("NFSRDMA_LINUX_ACCEL") == "tcg" {
		return false
	}
	dev, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dev)
	const createVM = 0xAE01 // KVM_CREATE_VM
	vm, err := unix.IoctlRetInt(dev, createVM)
	if err != nil {
		return false
	}
	unix.Close(vm)
	return true
})

func useKVM() bool { return !kvmBroken.Load() && kvmUsable() }
