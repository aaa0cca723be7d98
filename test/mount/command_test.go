// The commands around a mount: their exit status, their output, and what mount(8), fstab and
// service managers find.

package mount

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestLooksLikeAMount: a mount has the usual source, type, options and statfs, and its process
// holds no directory.
func TestLooksLikeAMount(t *testing.T) {
	needMounts(t)
	s := startServer(t)
	dir := s.mount(t, "rdma", "/export")
	if line := mountLine(dir); !strings.Contains(line, " - fuse.nfsrdma 127.0.0.1:/export ") || !strings.Contains(line, "allow_other") || strings.Contains(line, "nosuid") {
		t.Errorf("mountinfo: %s", line)
	}
	other := s.mount(t, "tcp", "/export", "ro", "nosuid", "nodev", "noexec", "noallow_other")
	if f := strings.Fields(mountLine(other)); len(f) < 6 || !strings.HasPrefix(f[5], "ro,nosuid,nodev,noexec") || strings.Contains(f[len(f)-1], "allow_other") {
		t.Errorf("mountinfo: %s", f)
	}
	mustWork(t, "touch", other, "EROFS")
	df, code := command(t, "", nil, "df", "--output=source,fstype,size,target", dir)
	local, _ := command(t, "", nil, "df", "--output=size", s.dir)
	size := strings.Fields(local)
	if f := strings.Fields(df); code != 0 || len(f) < 8 || f[len(f)-4] != "127.0.0.1:/export" || f[len(f)-3] != "fuse.nfsrdma" || !sameMiB(f[len(f)-2], size[len(size)-1]) {
		t.Errorf("df: %s; local size %s", df, size)
	}
	looksOpen(t, dir)
	if cwd, err := os.Readlink("/proc/" + strconv.Itoa(processOf(t, dir)) + "/cwd"); err != nil || cwd != "/" {
		t.Errorf("its process is in %s, %v", cwd, err)
	}
	if out, _ := nfsrdma(t, "mount"); !strings.Contains(out, "127.0.0.1:/export on "+dir+" type fuse.nfsrdma (rw,nodev,relatime,proto=rdma,rdma=iwarp,crc=on,") {
		t.Errorf("list: %s", out)
	}
	if out, code := nfsrdma(t, "mount", "127.0.0.1:/export", dir); code != 32 || !strings.Contains(out, "is mounted there already") {
		t.Errorf("mounted twice: status %d, %s", code, out)
	}
}

// looksOpen checks what lsof and fuser rely on: an open file has its path, and the device in the
// mount's line. statfs has the number for FUSE, which stat(1) calls fuseblk, and the block size of
// the calls, as a kernel mount has.
func looksOpen(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "opened")
	w := startWorker(t, "hold", file)
	fd := ""
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", w.cmd.Process.Pid))
	for _, l := range links {
		if name, _ := os.Readlink(l); name == file {
			fd = l
		}
	}
	device, _, _ := strings.Cut(strings.Join(strings.Fields(mountLine(dir))[2:], " "), " ")
	got, _ := command(t, "", nil, "stat", "-L", "-c", "%Hd:%Ld %n %s", fd)
	if want := fmt.Sprintf("%s %s %d", device, fd, heldSize); fd == "" || got != want {
		t.Errorf("an open file is %q, want %q", got, want)
	}
	if got, _ := command(t, "", nil, "stat", "-f", "-c", "%t %s %S %l", dir); got != "65735546 1048576 1048576 255" {
		t.Errorf("statfs: %s", got)
	}
	if last, err := w.stop(); err != nil {
		t.Errorf("%s, %v", last, err)
	}
	script(t, dir, "rm opened")
}

// sameMiB reports whether two numbers of KiB are the same but for rounding to a block of 1 MiB.
func sameMiB(a, b string) bool {
	x, errx := strconv.Atoi(a)
	y, erry := strconv.Atoi(b)
	return errx == nil && erry == nil && x-y <= 1024 && y-x <= 1024
}

// TestMountFails: a mistake, or a missing server, gives one line and the exit status of mount(8).
func TestMountFails(t *testing.T) {
	needMounts(t)
	s := startServer(t)
	dir, free := tempDir(t, "mnt"), strconv.Itoa(machine.Port(t))
	file := filepath.Join(dir, "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o644))
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{`unknown option "sofft": did you mean soft?`, 1, []string{"-o", "sofft", "h:/x", dir}},
		{"options soft and hard contradict", 1, []string{"-o", "soft,hard", "h:/x", dir}},
		{"--timeout: a mount has the options soft", 1, []string{"--timeout", "3s", "h:/x", dir}},
		{"options proto=rdma and proto=tcp contradict", 1, []string{"--proto", "rdma", "-o", "proto=tcp", "h:/x", dir}},
		{"/x on " + dir + ": not an export: write SERVER:/export", 1, []string{"/x", dir}},
		{"an argument is missing: usage is nfsrdma mount", 1, []string{"h:/x"}},
		{dir + "/no: no such directory: make it with mkdir", 32, []string{"h:/x", dir + "/no"}},
		{file + ": not a directory", 32, []string{"h:/x", file}},
		{"no such export", 32, []string{"-o", s.options("rdma"), "127.0.0.1:/nothing", dir}},
		{"127.0.0.1:/export/file: Not a directory", 32, []string{"-o", s.options("rdma"), "127.0.0.1:/export/file", dir}},
		{"connection refused", 32, []string{"-o", "port=" + free, "127.0.0.1:/export", dir}},
		{"is not RDMA but ONC RPC over TCP", 32, []string{"-o", "port=" + strconv.Itoa(s.tcp), "127.0.0.1:/export", dir}},
		{"host no.such.host.invalid", 32, []string{"no.such.host.invalid:/export", dir}},
	} {
		if c.want == "127.0.0.1:/export/file: Not a directory" {
			must.Succeed(t, os.WriteFile(filepath.Join(s.dir, "file"), nil, 0o644))
		}
		out, code := nfsrdma(t, append([]string{"mount"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.want) || strings.Contains(out, "\n") {
			t.Errorf("%q: status %d, %s\nwant %d, %s", c.args, code, out, c.code, c.want)
		}
		if isMounted(dir) {
			t.Fatalf("%q left a mount", c.args)
		}
	}
	if out, code := nfsrdma(t, "umount", dir); code != 32 || !strings.Contains(out, "not mounted") {
		t.Errorf("umount: status %d, %s", code, out)
	}
}

// TestMountBelowExport: a directory below the export can be mounted, as by the kernel's client,
// also with a URL as its name.
func TestMountBelowExport(t *testing.T) {
	needMounts(t)
	s := startServer(t)
	must.Succeed(t, os.MkdirAll(filepath.Join(s.dir, "a b/c"), 0o777))
	dir := s.mount(t, "rdma", "/export/a b/c")
	mustWork(t, "touch", dir, "OK")
	if _, err := os.Stat(filepath.Join(s.dir, "a b/c/touched")); err != nil {
		t.Errorf("os.Stat: %v", err)
	}
	if line := mountLine(dir); !strings.Contains(line, ` 127.0.0.1:/export/a\040b/c `) {
		t.Error(line)
	}
	other := tempDir(t, "mnt")
	url := "nfs://127.0.0.1:" + strconv.Itoa(s.tcp) + "/export/a%20b"
	if out, code := nfsrdma(t, "mount", url, other); code != 0 {
		t.Fatalf("status %d, %s", code, out)
	}
	t.Cleanup(func() { unmount(t, other) })
	if line := mountLine(other); !strings.Contains(line, ` 127.0.0.1:/export/a\040b `) {
		t.Error(line)
	}
}

// TestTransferSizes: wsize bounds the size of a WRITE, so that a file of 1 MiB needs at least 16 of
// 64 KiB.
func TestTransferSizes(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, s *server, dir string) {
		script(t, dir, "head -c 1048576 /dev/urandom > $(basename $PWD); sync $(basename $PWD)")
		if n := figures(t, dir).Data.Writes; n < 1048576/65536 {
			t.Errorf("%d WRITEs of a MiB with wsize=65536", n)
		}
	}, "rsize=32768", "wsize=65536")
}

// TestBackground: with bg, mount waits in the background for a server that is not up yet.
func TestBackground(t *testing.T) {
	t.Parallel()
	needMounts(t)
	s := startServer(t)
	s.end(os.Kill)
	dir := tempDir(t, "mnt")
	out, code := nfsrdma(t, "mount", "-o", "bg,"+s.options("rdma"), "127.0.0.1:/export", dir)
	if code != 0 || !strings.Contains(out, "trying again in the background") {
		t.Fatalf("status %d, %s", code, out)
	}
	t.Cleanup(func() { unmount(t, dir) })
	if err := s.start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	waitFor(t, "the mount", func() bool { return isMounted(dir) })
	mustWork(t, "touch", dir, "OK")
}

// TestForeground: in the foreground, the process reports to a service manager once the mount works.
// It logs that the server is away and back, once each. A signal ends it cleanly.
func TestForeground(t *testing.T) {
	t.Parallel()
	needMounts(t)
	s := startServer(t)
	dir, sock := tempDir(t, "mnt"), filepath.Join(tempDir(t, "notify"), "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: sock, Net: "unixgram"})
	if err != nil {
		t.Fatalf("net.ListenUnixgram: %v", err)
	}
	defer l.Close()
	log := filepath.Join(rig.base, "foreground.log")
	cmd := exec.Command(filepath.Join(rig.bin, "nfsrdma"), "mount", "--foreground", "--log-file", log, "-o", s.options("rdma"), "127.0.0.1:/export", dir)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+sock)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	state := func() string {
		b := make([]byte, 1000)
		_ = l.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := l.Read(b)
		if err != nil {
			t.Fatalf("l.Read: %v", err)
		}
		return string(b[:n])
	}
	if got := state(); !strings.Contains(got, "READY=1") || !isMounted(dir) {
		t.Errorf("told the service manager %q", got)
	}
	logged := func(what string) int {
		b, _ := os.ReadFile(log)
		return strings.Count(string(b), what)
	}
	w := startWorker(t, "writer", filepath.Join(dir, "f"))
	s.end(os.Kill)
	waitFor(t, "a line that the server is away", func() bool { return logged("server 127.0.0.1 not responding, still trying") == 1 })
	if err := s.start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	waitFor(t, "a line that it is back", func() bool { return logged("server 127.0.0.1 OK") == 1 })
	w.progress(t, 5)
	w.check(t, s, "f")
	_ = cmd.Process.Signal(os.Interrupt)
	if got := state(); got != "STOPPING=1" {
		t.Errorf("told the service manager %q", got)
	}
	if err := cmd.Wait(); err != nil || isMounted(dir) {
		t.Errorf("its end: %v, mounted %v", err, isMounted(dir))
	}
	if n := logged("not responding"); n != 1 {
		t.Errorf("%d lines about one absence", n)
	}
}

// TestOrdinaryUser: a user mounts by fusermount3, for himself, and unmounts. The kernel keeps root
// out.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	needMounts(t)
	need(t, "fusermount3", "unshare", "setpriv")
	s := startServer(t)
	runScript(t, "user.sh", []string{"unshare", "-m"}, s.options("rdma"), tempDir(t, "user"), rig.bin)
}

// runScript runs a script of testdata by a program, with arguments.
func runScript(t *testing.T, name string, by []string, args ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	line := append(append(by[1:], "sh", "-euxc", leaveMounts+string(text), "sh"), args...)
	if out, code := command(t, "", nil, by[0], line...); code != 0 {
		t.Errorf("status %d: %s", code, lastLines(out, 40))
	}
}

// TestMountstats: mountstats counts the work, as text, as JSON, and repeatedly.
func TestMountstats(t *testing.T) {
	t.Parallel()
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		script(t, dir, "name=$(basename $PWD); echo x > $name; cat $name; ls no-such || true")
		out, code := nfsrdma(t, "mountstats", "--json", dir)
		var report struct {
			Source, Dir string
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
			t.Fatalf("status %d, %v, %s", code, err, out)
		}
		stats := statsOf(t, out)
		if report.Source != "127.0.0.1:/export" || report.Dir != dir || stats.Operations["CREATE"] == 0 || stats.Calls["LOOKUP"].Count == 0 {
			t.Errorf("%s", out)
		}
		text, code := nfsrdma(t, "mountstats", dir)
		if code != 0 || !strings.HasPrefix(text, "127.0.0.1:/export mounted on "+dir+" (proto=") || !strings.Contains(text, "CREATE") {
			t.Errorf("status %d, %s", code, text)
		}
		again, _ := command(t, "", nil, "sh", "-c", `"$1" mountstats --interval 100ms --json "$2" | head -n 2`, "sh", filepath.Join(rig.bin, "nfsrdma"), dir)
		if strings.Count(again, `{"source"`) != 2 {
			t.Errorf("--interval: %s", again)
		}
	})
}

// TestMountHelper: mount(8) finds mount.nfsrdma, also for a line in fstab, and proto=auto finds the
// available transport. The test uses the default ports, in a separate network.
func TestMountHelper(t *testing.T) {
	t.Parallel()
	needMounts(t)
	need(t, "unshare", "ip", "mount", "setpriv", "fusermount3")
	runScript(t, "helper.sh", []string{"unshare", "-n", "-m"}, tempDir(t, "helper"), rig.bin)
}

// TestManyMounts: a program that mounts and unmounts repeatedly keeps no resources.
func TestManyMounts(t *testing.T) {
	t.Parallel()
	needMounts(t)
	s := startServer(t)
	t.Log(mustWork(t, "many", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.rdma)), tempDir(t, "mnt"), strconv.Itoa(scaled(20, 1000)), nfsclient.RDMA.String()))
	t.Log(mustWork(t, "many", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tcp)), tempDir(t, "mnt"), strconv.Itoa(scaled(20, 1000)), nfsclient.TCP.String()))
}
