// The command line of QEMU, and whether KVM can be trusted.

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

// One CPU is what runs, yet the machine is made for two: QEMU before 8.1 leaves out the
// guest's memory barriers on a machine made for one, and its network then stops for good
// after some hundred megabytes.
const cpus = "1,maxcpus=2"

// emulated is the processor without KVM. Linux's allocator uses CMPXCHG16B where there is one, and
// beside it QEMU 7.2 lost two guests of some hundred: in an interrupt there the flags were none
// that a processor has (04f7aa02, 0426e602: parts of pointers), and its return was a double fault.
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

// kvmUsable asks the kernel for a virtual machine: a device node alone says little. Even
// then the first boot has the last word.
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
