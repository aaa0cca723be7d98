// The checks of this machine, on file trees that represent machines.

package doctor

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
	"golang.org/x/sys/unix"
)

// examined returns a checkup of a new tree that contains files.
func examined(t *testing.T, files map[string]string) *checkup {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must.Succeed(t, os.WriteFile(p, []byte(text+"\n"), 0o644))
	}
	cu := newCheckup(Options{Root: root})
	cu.device = "eth0"
	return cu
}

const ib = "/sys/class/infiniband/"

func TestThisMachine(t *testing.T) {
	siw := map[string]string{ib + "siw0/node_type": "4: RNIC", ib + "siw0/ports/1/state": "4: ACTIVE", ib + "siw0/ports/1/gid_attrs/ndevs/0": "eth0"}
	rxe := map[string]string{ib + "rxe0/node_type": "1: CA", ib + "rxe0/ports/1/state": "4: ACTIVE", ib + "rxe0/ports/1/gid_attrs/ndevs/0": "eth0",
		ib + "rxe0/ports/1/link_layer": "Ethernet"}
	with := func(more ...string) map[string]string {
		m := map[string]string{}
		for k, v := range siw {
			m[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	release := "/proc/sys/kernel/osrelease"
	for name, c := range map[string]struct {
		files map[string]string
		check func(*checkup) Finding
		want  wanted
	}{
		"no device":          {nil, device, wanted{Warn, "for a kernel mount over RDMA: modprobe -a rdma_rxe rdma_cm rpcrdma && rdma link add rxe0 type rxe netdev eth0 (if the server takes RoCE"}},
		"no device, iWARP":   {nil, device, wanted{Warn, "rdma link add siw0 type siw netdev eth0 (Debian's kernels have no siw"}},
		"siw":                {siw, device, wanted{OK, "siw0 (RNIC, ACTIVE on eth0)"}},
		"siw down":           {with(ib+"siw0/ports/1/state", "1: DOWN"), device, wanted{Warn, "not active"}},
		"siw elsewhere":      {with(ib+"siw0/ports/1/gid_attrs/ndevs/0", "eth1"), device, wanted{Warn, "reached by eth0"}},
		"no device, RoCE":    {nil, roceDevice, wanted{Warn, "rdma link add rxe0 type rxe netdev eth0"}},
		"siw, RoCE":          {siw, roceDevice, wanted{Warn, "none is RoCE"}},
		"rxe, RoCE":          {rxe, roceDevice, wanted{OK, "rxe0 (CA, ACTIVE on eth0)"}},
		"InfiniBand, RoCE":   {map[string]string{ib + "mlx0/node_type": "1: CA", ib + "mlx0/ports/1/link_layer": "InfiniBand"}, roceDevice, wanted{Warn, "none is RoCE"}},
		"modules, RoCE":      {map[string]string{release: "6.1", "/proc/modules": "rdma_rxe 1 0\nrpcrdma 1 0\nrdma_cm 2\nib_cm 3"}, roceModules, wanted{OK, "loaded: rpcrdma rdma_cm ib_cm rdma_rxe"}},
		"rxe, not asked for": {rxe, device, wanted{Warn, "nfsrdma doctor --rdma roce"}},
		"rxe only":           {map[string]string{ib + "rxe0/node_type": "1: CA", ib + "rxe0/ports/1/state": "4: ACTIVE"}, device, wanted{Warn, "none is iWARP"}},
		"rxe and siw":        {with(ib+"rxe0/node_type", "1: CA", ib+"rxe0/ports/1/state", "4: ACTIVE"), device, wanted{OK, "rxe0 (CA"}},
		"modules at hand":    {map[string]string{release: "6.1", "/lib/modules/6.1/modules.dep": "kernel/a/rpcrdma.ko.xz: x\nkernel/rdma_cm.ko:\nkernel/iw_cm.ko:\nkernel/siw.ko:"}, modules, wanted{Warn, "modprobe -a rpcrdma rdma_cm iw_cm siw"}},
		"modules loaded":     {map[string]string{release: "6.1", "/proc/modules": "siw 1 0\nrpcrdma 1 0\nrdma_cm 2\niw_cm 3"}, modules, wanted{OK, "loaded: rpcrdma rdma_cm iw_cm siw"}},
		"no siw":             {map[string]string{release: "6.1", "/proc/modules": "rpcrdma 1 0\nrdma_cm 2\niw_cm 3"}, modules, wanted{Warn, "not there: siw"}},
		"no siw, but rxe":    {map[string]string{release: "6.1", "/proc/modules": "rpcrdma 1 0\nrdma_cm 2\niw_cm 3"}, modules, wanted{Warn, "or use rxe"}},
		"kernel client":      {map[string]string{"/sbin/mount.nfs": "", "/proc/filesystems": "nodev\tnfs\n\text4"}, kernel, wanted{OK, "mount.nfs"}},
		"nfsd is no nfs":     {map[string]string{"/sbin/mount.nfs": "", "/proc/filesystems": "nodev\tnfsd"}, kernel, wanted{Warn, "without NFS"}},
		"no mount.nfs":       {map[string]string{"/proc/filesystems": "nodev\tnfs"}, kernel, wanted{Warn, "nfs-common"}},
		"nothing":            {nil, kernel, wanted{Warn, "nfs-common"}},
		"FUSE":               {map[string]string{"/dev/fuse": "", "/usr/bin/fusermount3": ""}, fuse, wanted{OK, "fusermount3"}},
		"FUSE for root only": {map[string]string{"/dev/fuse": ""}, fuse, wanted{Warn, "fuse3"}},
		"no FUSE":            {nil, fuse, wanted{Warn, "no /dev/fuse"}},
	} {
		if f := c.check(examined(t, c.files)); f.Status != c.want.status || !strings.Contains(f.Text+" → "+f.Advice, c.want.part) {
			t.Errorf("%s: %+v, want %v with %q", name, f, c.want.status, c.want.part)
		}
	}
}

// An existing device is useless for a user without permission to open it.
func TestFUSEThatCannotBeOpened(t *testing.T) {
	cu := examined(t, map[string]string{"/dev/fuse": "", "/usr/bin/fusermount3": ""})
	must.Succeed(t, os.Chmod(filepath.Join(cu.Root, "/dev/fuse"), 0))
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must.Succeed(t, unix.Setfsuid(4242))
		defer unix.Setfsuid(0)
		for dir := filepath.Dir(cu.Root); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
			unix.Chmod(dir, 0o755)
		}
	}
	if f := checkFUSE(t.Context(), cu); f.Status != Warn || !strings.Contains(f.Text, "not allowed to open /dev/fuse") {
		t.Errorf("%+v, want a warning that it cannot be opened", f)
	}
}

// Locks of a kernel mount need NLM in rpcbind and rpc.statd on this machine.
func TestLocking(t *testing.T) {
	up := new(transport.Client)
	nlm := []rpcbind.Mapping{{Prog: progNLM, Vers: 4, Prot: rpcbind.TCP, Port: 4045}}
	statd := map[string]string{"/sbin/rpc.statd": ""}
	for name, c := range map[string]struct {
		files map[string]string
		tcp   *transport.Client
		locks bool
		bound []rpcbind.Mapping
		want  wanted
	}{
		"no server":                   {statd, nil, false, nil, wanted{Skip, ""}},
		"no NLM":                      {statd, up, false, nil, wanted{OK, "mount with nolock"}},
		"NLM without rpcbind":         {statd, up, true, nil, wanted{Warn, "no rpcbind"}},
		"NLM, other than rpcbind has": {statd, up, true, []rpcbind.Mapping{{Prog: progNLM, Vers: 3, Prot: rpcbind.TCP, Port: 4045}}, wanted{Warn, "no rpcbind"}},
		"NLM by rpcbind":              {statd, up, false, nlm, wanted{OK, "rpc.statd is here"}},
		"no rpc.statd":                {nil, up, true, nlm, wanted{Warn, "nfs-common"}},
	} {
		cu := examined(t, c.files)
		cu.tcp, cu.locks, cu.bound = c.tcp, c.locks, c.bound
		if f := checkLocking(t.Context(), cu); f.Status != c.want.status || !strings.Contains(f.Text+" → "+f.Advice, c.want.part) {
			t.Errorf("%s: %+v, want %v with %q", name, f, c.want.status, c.want.part)
		}
	}
}

func device(cu *checkup) Finding  { return checkDevice(context.Background(), cu) }
func modules(cu *checkup) Finding { return checkModules(context.Background(), cu) }

// roceDevice and roceModules run the checks device and modules as for a server that answers over
// RoCE.
func roceDevice(cu *checkup) Finding {
	cu.roce = true
	return device(cu)
}

func roceModules(cu *checkup) Finding {
	cu.roce = true
	return modules(cu)
}

func kernel(cu *checkup) Finding { return checkKernelClient(context.Background(), cu) }
func fuse(cu *checkup) Finding   { return checkFUSE(context.Background(), cu) }

// A server's text is one line on a terminal, whatever it contains.
func TestPrint(t *testing.T) {
	var b strings.Builder
	Print(&b, Finding{Check: "exports", Status: Warn, Text: "/a\n\x1b[2J", Advice: "do\rthis"})
	if b.String() != "WARN  exports         /a\\n\\x1b[2J\n                      → do\\rthis\n" {
		t.Errorf("%q", b.String())
	}
}
