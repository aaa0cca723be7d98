// Checks of this machine: requirements of a kernel mount and a FUSE mount.

package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// file returns a path on this machine, or below a test's root.
func (cu *checkup) file(parts ...string) string {
	return filepath.Join(append([]string{cu.Root}, parts...)...)
}

func (cu *checkup) exists(parts ...string) bool {
	_, err := os.Stat(cu.file(parts...))
	return err == nil
}

// text returns the content of a small file without surrounding blanks; "" if it is unreadable.
func (cu *checkup) text(parts ...string) string {
	b, _ := os.ReadFile(cu.file(parts...))
	return string(bytes.TrimSpace(b))
}

// program looks for a program in the directories for administrators.
func (cu *checkup) program(name string) string {
	for _, dir := range []string{"/sbin", "/usr/sbin", "/bin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"} {
		if cu.exists(dir, name) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// addSIW returns the command that makes a soft-iWARP device on the interface to the server.
func (cu *checkup) addSIW() string {
	return fmt.Sprintf("modprobe -a siw rdma_cm rpcrdma && rdma link add siw0 type siw netdev %s (Debian's kernels have no siw: docs/linux.md builds it)", cu.netdev())
}

// addDevice returns the command that makes a device for the server. RoCE comes first: each usual
// kernel has its driver, and the iWARP checks do not try the server for RoCE.
func (cu *checkup) addDevice() string {
	if cu.roce {
		return cu.addRXE()
	}
	return cu.addRXE() + " (if the server takes RoCE: nfsrdma doctor --rdma roce), or by iWARP: " + cu.addSIW()
}

// deviceFits reports whether a kernel device, by its directory in sysfs, can reach the server
// through the examined provider.
func (cu *checkup) deviceFits(dir, node string) bool {
	if cu.roce {
		// a CA with another link layer is InfiniBand
		return node == "CA" && cu.text(dir, "ports/1/link_layer") == "Ethernet"
	}
	return node == "RNIC"
}

// checkDevice looks for the kernel's RDMA devices. Only kernel mounts need a device.
func checkDevice(_ context.Context, cu *checkup) Finding {
	entries, _ := os.ReadDir(cu.file("/sys/class/infiniband"))
	var words []string
	at, found, active := "", false, false // results for the best fitting device
	for _, e := range entries {
		name := e.Name()
		dir := "/sys/class/infiniband/" + name
		_, node, _ := strings.Cut(cu.text(dir, "node_type"), ": ")
		_, state, _ := strings.Cut(cu.text(dir, "ports/1/state"), ": ")
		netdev := cu.text(dir, "ports/1/gid_attrs/ndevs/0")
		words = append(words, fmt.Sprintf("%s (%s, %s%s)", name, node, state, yes(netdev == "", "", " on "+netdev)))
		if cu.deviceFits(dir, node) && (!found || netdev == cu.device) {
			at, found, active = netdev, true, state == "ACTIVE"
		}
	}
	text := strings.Join(words, ", ")
	switch {
	case len(entries) == 0:
		return warn("for a kernel mount over RDMA: "+cu.addDevice(), "none; nfsrdma's own commands need none")
	case !found && cu.roce:
		return warn("iWARP (siw) and InfiniBand devices do not talk RoCE: "+cu.addRXE(), "%s: none is RoCE", text)
	case !found:
		return warn("it needs a server that takes RoCE: see with nfsrdma doctor --rdma roce. By iWARP: "+cu.addSIW(), "%s: none is iWARP", text)
	case !active:
		return warn("bring the network interface up: ip link set "+cu.netdev()+" up", "%s: not active", text)
	case at != "" && cu.device != "" && at != cu.device:
		return warn("add one there: "+cu.addDevice(), "%s, but the server is reached by %s", text, cu.device)
	}
	return ok("%s", text)
}

// Modules for a kernel mount: over siw, and over rxe.
var (
	siwModules = []string{"rpcrdma", "rdma_cm", "iw_cm", "siw"}
	rxeModules = []string{"rpcrdma", "rdma_cm", "ib_cm", "rdma_rxe"}
)

// checkModules checks whether the modules are loaded or available.
func checkModules(_ context.Context, cu *checkup) Finding {
	release := cu.text("/proc/sys/kernel/osrelease")
	loaded := cu.text("/proc/modules")
	dir := "/lib/modules/" + release
	known := cu.text(dir, "modules.dep") + "\n" + cu.text(dir, "modules.builtin")
	var up, there, missing []string
	needed := siwModules
	if cu.roce {
		needed = rxeModules
	}
	for _, m := range needed {
		switch {
		case strings.HasPrefix(loaded, m+" ") || strings.Contains(loaded, "\n"+m+" ") || cu.exists("/sys/module", m):
			up = append(up, m)
		case hasModule(known, m):
			there = append(there, m)
		default:
			missing = append(missing, m)
		}
	}
	text := "kernel " + release
	for _, part := range []struct {
		names []string
		what  string
	}{{up, "loaded"}, {there, "not loaded yet"}, {missing, "not there"}} {
		if len(part.names) > 0 {
			text += fmt.Sprintf("; %s: %s", part.what, strings.Join(part.names, " "))
		}
	}
	switch {
	case len(missing) > 0:
		other := yes(cu.roce, "", ", or use rxe, if the server takes RoCE")
		return warn("for a kernel mount over RDMA: install or build them (docs/linux.md)"+other+"; mount over TCP needs none", "%s", text)
	case len(there) > 0:
		return warn("modprobe -a "+strings.Join(there, " "), "%s", text)
	}
	return ok("%s", text)
}

// hasModule looks for a module in a list of paths. In module names - and _ are equal.
func hasModule(list, name string) bool {
	for line := range strings.Lines(list) {
		p, _, _ := strings.Cut(line, ":")
		base, _, _ := strings.Cut(filepath.Base(strings.TrimSpace(p)), ".ko")
		if strings.ReplaceAll(base, "-", "_") == name {
			return true
		}
	}
	return false
}

// checkKernelClient looks for the kernel's NFS client and its mount helper.
func checkKernelClient(_ context.Context, cu *checkup) Finding {
	helper := cu.program("mount.nfs")
	release := cu.text("/proc/sys/kernel/osrelease")
	dir := "/lib/modules/" + release
	nfs := strings.Contains(cu.text("/proc/filesystems"), "\tnfs\n") || strings.HasSuffix(cu.text("/proc/filesystems"), "\tnfs") ||
		hasModule(cu.text(dir, "modules.dep")+"\n"+cu.text(dir, "modules.builtin"), "nfs")
	switch {
	case helper == "" && !nfs:
		return warn("for a kernel mount: apt install nfs-common, and a kernel with NFS", "no mount.nfs, and a kernel (%s) without NFS", release)
	case helper == "":
		return warn("apt install nfs-common (or nfs-utils)", "no mount.nfs")
	case !nfs:
		return warn("for a kernel mount: a kernel with CONFIG_NFS_V3, or its modules package", "%s, but a kernel (%s) without NFS", helper, release)
	}
	return ok("%s, and a kernel with NFS", helper)
}

// checkLocking compares the lock services of the server with this machine's.
func checkLocking(_ context.Context, cu *checkup) Finding {
	if cu.rdma == nil && cu.tcp == nil {
		return skip("", "not tried: no connection that answers")
	}
	switch bound := boundPort(cu.bound, progNLM, 4) != 0; {
	case !cu.locks && !bound:
		return ok("the server has no NLM: mount with nolock, as below; locks hold on this machine only")
	case !bound:
		return warn("for a kernel mount: have rpcbind run on the server (nfsrdmad serve --rpcbind serve is one), or mount with nolock, as below: locks then hold on this machine only",
			"the server has NLM, but no rpcbind that tells a kernel its port; nfsrdma mount needs none")
	}
	if cu.program("rpc.statd") == "" {
		return warn("apt install nfs-common, or mount with nolock: locks then hold on this machine only", "the server has NLM, but there is no rpc.statd here")
	}
	return ok("the server has NLM, and rpc.statd is here")
}

// checkFUSE looks for the requirements of FUSE mounts.
func checkFUSE(_ context.Context, cu *checkup) Finding {
	helper := cu.program("fusermount3")
	// opening the device shows a container's limits, which the file's mode does not
	f, err := os.OpenFile(cu.file("/dev/fuse"), os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() == 0:
		return warn("only for FUSE mounts: give the container the device /dev/fuse", "root is not allowed to open /dev/fuse here")
	case errors.Is(err, fs.ErrPermission):
		return warn("only for FUSE mounts: chmod 666 /dev/fuse as root, or mount as root", "this user is not allowed to open /dev/fuse")
	case err != nil:
		return warn("only for FUSE mounts: modprobe fuse", "no /dev/fuse: %v", err)
	case helper == "":
		return warn("only for FUSE mounts by ordinary users: apt install fuse3", "/dev/fuse is there, fusermount3 is not")
	}
	return ok("/dev/fuse and %s", helper)
}

// fewFiles is a descriptor limit that a busy client may exceed.
const fewFiles = 256

// checkLimits checks the limits of this process.
func checkLimits(context.Context, *checkup) Finding {
	var files, lock unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return warn("", "open files: %v", err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lock); err != nil {
		return warn("", "locked memory: %v", err)
	}
	locked := "unlimited"
	if lock.Cur != unix.RLIM_INFINITY {
		locked = size(lock.Cur)
	}
	text := fmt.Sprintf("%d open files, %s of locked memory (which only RDMA adapters need)", files.Cur, locked)
	if files.Cur < fewFiles {
		return warn("ulimit -n 1024", "%s", text)
	}
	return ok("%s", text)
}
