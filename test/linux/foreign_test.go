// Servers of other projects in place of ours, if NFSRDMA_LINUX_PEER names one: Linux's in a guest
// of its own, or nfs-ganesha on this machine.

package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// peerName returns "knfsd", "ganesha", or empty for our own server.
func peerName() string { return os.Getenv("NFSRDMA_LINUX_PEER") }

// A foreign is another project's server that guests reach at the ports of its rpcbind. The tests
// log its answers, because they differ from ours.
type foreign struct {
	t      *testing.T
	name   string
	g      *guest.Guest // where knfsd is
	export string       // the path that clients mount
	dir    string       // the same for programs on its machine

	// For nfs-ganesha only.
	state  string   // a directory
	inside []string // the command prefix for running a command in its namespaces
}

// startForeign starts the server named by NFSRDMA_LINUX_PEER. series is the kernel of knfsd.
func startForeign(t *testing.T, series string) *foreign {
	t.Helper()
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	f := &foreign{t: t, name: peerName(), export: "/export", dir: "/export"}
	switch f.name {
	case "knfsd":
		f.bootKnfsd(series)
	case "ganesha":
		f.startGanesha()
	default:
		t.Fatalf("NFSRDMA_LINUX_PEER=%s: no such server", f.name)
	}
	return f
}

// address returns the server's address for a guest.
func (f *foreign) address(client *guest.Guest) string {
	if f.g != nil {
		return f.g.Guest
	}
	return client.Host
}

// mount returns the command by which a guest mounts the export with locks.
func (f *foreign) mount(client *guest.Guest, proto string) string {
	if f.g == nil {
		proto = "tcp"
	}
	return fmt.Sprintf("mount -t nfs -o vers=3,proto=%s %s:%s /mnt", proto, f.address(client), f.export)
}

// there runs a shell line on the server's machine, and returns its output, with its errors.
func (f *foreign) there(line string) string {
	f.t.Helper()
	if f.g != nil {
		return run(f.t, f.g, "exec 2>&1\n"+line)
	}
	out, err := exec.Command(f.inside[0], append(f.inside[1:], "sh", "-c", line)...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// bootKnfsd starts Linux's server in a guest that clients in other guests reach through this
// machine, which forwards packets.
func (f *foreign) bootKnfsd(series string) {
	t := f.t
	t.Helper()
	g, err := guest.Boot(t.Context(), guest.Config{Image: kernel(t, series), MTU: 1500, MemoryMB: 768, Direct: true})
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatalf("Boot: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the serving guest's console:\n%s", g.Console())
		}
		g.Close()
	})
	f.g = g
	forwards(t, g.Device)
	run(t, g, "hostname server && siw_up fixed && mount -t tmpfs -o size=300m tmpfs /export && chmod 777 /export && echo 'hello from knfsd' > /export/hello.txt && knfsd_up /export 8")
	lockUp(t, g)
}

// forwards lets packets from a device go on to other machines.
func forwards(t *testing.T, device string) {
	t.Helper()
	must.Succeed(t, os.WriteFile("/proc/sys/net/ipv4/conf/"+device+"/forwarding", []byte("1"), 0))
}

// ganeshaRules exports a directory to all hosts, and another to a nonexistent host. Other settings
// have their defaults.
const ganeshaRules = `
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = true; Enable_RQUOTA = false; mount_path_pseudo = true; }
NFSV4 { RecoveryRoot = "%[1]s"; }
EXPORT_DEFAULTS { Protocols = 3; Transports = TCP; SecType = sys; Squash = No_Root_Squash; }
EXPORT { Export_Id = 1; Path = "%[2]s"; Pseudo = "/export"; Access_Type = RW; FSAL { Name = VFS; } }
EXPORT { Export_Id = 2; Path = "%[1]s"; Pseudo = "/other"; Access_Type = NONE; FSAL { Name = VFS; } CLIENT { Clients = 192.0.2.7; Access_Type = RW; } }
EXPORT { Export_Id = 3; Path = "%[1]s"; Pseudo = "/ro"; Access_Type = RO; FSAL { Name = VFS; } }
`

// ganeshaLoop runs rpcbind, a status monitor and nfs-ganesha, which starts again when it has ended,
// but not while there is a file "away".
const ganeshaLoop = `mount -t tmpfs none /run; mount -t tmpfs none /var/lib/nfs; mkdir /var/lib/nfs/sm /var/lib/nfs/sm.bak; cd "$1"
rpcbind; rpc.statd --no-notify
while :; do
	while [ -e away ]; do sleep 0.05; done
	ganesha.nfsd -F -f conf -L "$1/log" -p "$1/pid" -N NIV_EVENT || true
done`

func (f *foreign) startGanesha() {
	t := f.t
	t.Helper()
	for _, name := range []string{"ganesha.nfsd", "rpcbind", "rpc.statd", "unshare", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil {
			machine.Skip(t, err.Error())
		}
	}
	f.state, f.dir = t.TempDir(), exportDir(t)
	must.Succeed(t, os.Chmod(f.dir, 0o777))
	write(t, filepath.Join(f.state, "conf"), fmt.Appendf(nil, ganeshaRules, f.state, f.dir))
	cmd := exec.Command("unshare", "-m", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", ganeshaLoop, "sh", f.state)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	first := ""
	t.Cleanup(func() {
		if n, err := strconv.Atoi(first); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log, _ := os.ReadFile(filepath.Join(f.state, "log"))
		t.Logf("nfs-ganesha logged:\n%s", log)
	})
	pid := strconv.Itoa(cmd.Process.Pid)
	comes(t, "a process of nfs-ganesha's", func() bool {
		b, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
		first = strings.TrimSpace(string(b))
		return first != ""
	})
	f.inside = []string{"nsenter", "--target", first, "--mount", "--pid"}
	f.await(1)
}

// await waits until nfs-ganesha has started n times.
func (f *foreign) await(n int) {
	f.t.Helper()
	comes(f.t, "nfs-ganesha has started", func() bool {
		log, _ := os.ReadFile(filepath.Join(f.state, "log"))
		return strings.Count(string(log), "NFS SERVER INITIALIZED") >= n
	})
}

// kill ends the server and its locks. Linux's server can only be stopped.
func (f *foreign) kill() {
	f.t.Helper()
	if f.g != nil {
		f.there("rpc.nfsd 0")
		return
	}
	f.there(fmt.Sprintf("cd %s && : > away && kill -9 $(cat pid)", f.state))
}

// again starts the server again after kill.
func (f *foreign) again() {
	f.t.Helper()
	if f.g != nil {
		f.there("rpc.nfsd 8 && echo 'rdma 20049' > /proc/fs/nfsd/portlist")
		return
	}
	log, _ := os.ReadFile(filepath.Join(f.state, "log"))
	f.there("rm " + filepath.Join(f.state, "away"))
	f.await(strings.Count(string(log), "NFS SERVER INITIALIZED") + 1)
}

// notify informs all machines in the status monitor's records that this machine has started again.
func (f *foreign) notify() {
	f.t.Helper()
	command := "sm-notify"
	if f.g != nil {
		command = fromHost(f.t, f.g, command)
	}
	f.t.Logf("whom the status monitor knows: %s", strings.Join(strings.Fields(f.there("ls /var/lib/nfs/sm; "+command+" -f")), " "))
}

// guestFile is a file on a serving guest, with the lock owner as a program there sees it.
type guestFile struct{ l *locking }

func (f guestFile) taken() bool { return f.has(0, 0) }

func (f guestFile) has(start, n int64) bool {
	f.l.t.Helper()
	return strings.TrimSpace(f.l.run(fmt.Sprintf("%s %s try w %d %d", f.l.command, f.l.path, start, n))) != "granted"
}

// within waits for a condition, but not for longer than d, and returns how long it has taken.
func within(d time.Duration, ok func() bool) (took string, held bool) {
	began := time.Now()
	for !ok() {
		if time.Since(began) > d {
			return fmt.Sprintf("never in %v", d), false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return "after " + time.Since(began).Round(10*time.Millisecond).String(), true
}
