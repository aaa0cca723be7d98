// The units under a separate systemd, set up with the commands in docs/admin.md. They cover
// sockets, sandbox, reload and watchdog.

package program

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// bootScript makes the files of another machine from this machine's files, without changing any of
// these. It then starts systemd as the init process of new namespaces. Arguments: an empty
// directory; the source, and Go's root, modules and cache.
const bootScript = `
mount --make-rprivate /
R=$1/root
mount -t tmpfs tmpfs "$1" && mkdir "$1/up" "$1/work" "$R"
mount -t overlay -o lowerdir=/,upperdir=$1/up,workdir=$1/work overlay "$R"
ip link set lo up
mount -t proc proc "$R/proc" && mount -t sysfs -o ro sysfs "$R/sys"
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
	mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup"
else
	mount -t tmpfs tmpfs "$R/sys/fs/cgroup" && mkdir "$R/sys/fs/cgroup/systemd" && mount -t cgroup -o none,name=systemd cgroup "$R/sys/fs/cgroup/systemd"
fi
for d in run tmp dev srv; do mount -t tmpfs -o mode=755 tmpfs "$R/$d"; done
chmod 1777 "$R/tmp"
for d in null zero full random urandom tty; do touch "$R/dev/$d" && mount --bind "/dev/$d" "$R/dev/$d"; done
mkdir "$R/dev/shm" "$R/dev/pts" && mount -t devpts -o ptmxmode=666 devpts "$R/dev/pts" && ln -s pts/ptmx "$R/dev/ptmx" && ln -s /proc/self/fd "$R/dev/fd"
for d in "$2" "$3" "$4" "$5"; do mkdir -p "$R$d" && mount --rbind "$d" "$R$d"; done
# Nothing is enabled, and what is always there and needs a machine is not.
rm -rf "$R"/etc/systemd/system/*.wants "$R"/etc/systemd/system/nfsrdmad* "$R/etc/nfsrdma" "$R/var/lib/nfsrdma" "$R"/usr/local/*bin/nfsrdma* "$R/etc/fstab"
for u in systemd-udevd systemd-logind getty@tty1 console-getty systemd-resolved systemd-networkd systemd-timesyncd; do ln -sf /dev/null "$R/etc/systemd/system/$u.service"; done
exec chroot "$R" env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target
`

// A booted machine runs its own systemd in namespaces.
type booted struct {
	t   *testing.T
	pid string // the process ID of the machine's systemd
	env []string
}

// boot starts a booted machine, which ends with the test.
func boot(t *testing.T) *booted {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatalf("go: %v", err)
	}
	goDirs := strings.Fields(string(out))
	source, err := filepath.Abs("../../..")
	if err != nil || len(goDirs) != 3 {
		t.Fatal(err, goDirs)
	}
	args := append([]string{"-m", "-p", "-n", "-u", "-i", "-C", "--fork", "--kill-child", "sh", "-euc", machine.LeaveMounts(`""`) + bootScript, "sh", t.TempDir(), source}, goDirs...)
	cmd := exec.Command("unshare", args...)
	log := new(sharedBuffer)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	b := &booted{t: t, env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + goDirs[0] + "/bin", "HOME=/root", "GOFLAGS=-buildvcs=false -mod=mod",
		"GOPROXY=off", "GOMODCACHE=" + goDirs[1], "GOCACHE=" + goDirs[2], "SOURCE=" + source}}
	t.Cleanup(func() {
		if t.Failed() {
			journal, _ := b.run("journalctl -b --no-pager | tail -n 60")
			t.Logf("%s\n%s", log, journal)
		}
		select {
		case <-ended: // another process may have the number by now
		default:
			_ = cmd.Process.Kill()
		}
		<-ended
	})
	unshare := strconv.Itoa(cmd.Process.Pid)
	b.await("systemd", func() bool {
		select {
		case <-ended:
			machine.Skip(t, "systemd cannot be started in namespaces: "+log.String())
		default:
		}
		children, _ := os.ReadFile("/proc/" + unshare + "/task/" + unshare + "/children")
		b.pid = strings.TrimSpace(string(children))
		name, _ := os.ReadFile("/proc/" + b.pid + "/comm")
		return string(name) == "systemd\n"
	})
	b.await("the end of its start", func() bool {
		state, _ := b.run("systemctl is-system-running")
		// other units of this machine may fail, so "degraded" is enough
		return state == "running\n" || state == "degraded\n"
	})
	return b
}

// await waits for a condition.
func (b *booted) await(what string, is func() bool) {
	b.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatal("waited in vain for " + what)
		}
	}
}

// run runs a shell script in the booted machine.
func (b *booted) run(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "-t", b.pid, "-m", "-p", "-n", "-u", "-i", "-C", "-r", "-w", "sh", "-euc", script)
	cmd.Env = b.env
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (b *booted) must(script string) string {
	b.t.Helper()
	out, err := b.run(script)
	if err != nil {
		b.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return out
}

// property returns a property of the service.
func (b *booted) property(name string) string {
	b.t.Helper()
	return strings.TrimSpace(b.must("systemctl show -P " + name + " nfsrdmad.service"))
}

// firstCommands returns the commands in docs/admin.md that turn an empty machine into a server.
func firstCommands(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/admin.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	m := regexp.MustCompile("(?s)\n## From an empty machine .*?\n```\n(.*?)```\n").FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/admin.md has no such commands")
	}
	return string(m[1])
}

// TestFirstServer: the commands in docs/admin.md turn an empty machine into a server as described.
func TestFirstServer(t *testing.T) {
	machine.NeedRoot(t, "runs services as the system does: needs root", "unshare", "nsenter", "chroot", "ip", "systemctl", "rpcbind")
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		machine.Skip(t, "needs systemd")
	}
	b := boot(t)
	began := time.Now()
	said := b.must("cd $SOURCE\n" + firstCommands(t))
	t.Logf("took %v", time.Since(began).Round(time.Second))
	for _, want := range []string{"/srv/data  10.0.0.0/24,127.0.0.1\n", "0 failed, "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q:\n%s", want, said)
		}
	}
	if state := b.property("ActiveState") + " " + b.property("Result") + " " + b.property("StatusText"); state != "active success serves 2 exports" {
		t.Error(state)
	}
	b.must("man -w nfsrdmad.8 nfsrdma-exports.5 > /dev/null || ls /usr/local/share/man/man8/nfsrdmad.8 /usr/local/share/man/man5/nfsrdma-exports.5")
	t.Run("sandbox", func(t *testing.T) { (&booted{t, b.pid, b.env}).sandbox() })
	t.Run("reload", func(t *testing.T) { (&booted{t, b.pid, b.env}).reload() })
	t.Run("sockets", func(t *testing.T) { (&booted{t, b.pid, b.env}).sockets() })
	t.Run("watchdog", func(t *testing.T) { (&booted{t, b.pid, b.env}).watchdog() })
}

// sandbox checks that users act as themselves in the exports, and that the server has only the
// unit's permissions.
func (b *booted) sandbox() {
	b.must(`chown 0:0 /srv/data && chmod 1777 /srv/data
echo text > /tmp/text && chmod 644 /tmp/text
nfsrdma cp /tmp/text 127.0.0.1:/srv/data/of-root
setpriv --reuid 1000 --regid 1000 --clear-groups nfsrdma cp /tmp/text 127.0.0.1:/srv/data/of-user
! setpriv --reuid 1000 --regid 1000 --clear-groups nfsrdma rm 127.0.0.1:/srv/data/of-root 2> /dev/null
! nfsrdma cp /tmp/text 127.0.0.1:/srv/pub/x 2> /dev/null
cmp /tmp/text /srv/data/of-user`)
	if owners := b.must("stat -c '%n %u:%g' /srv/data/of-*"); owners != "/srv/data/of-root 0:0\n/srv/data/of-user 1000:1000\n" {
		b.t.Error(owners)
	}
	pid := b.property("MainPID")
	status := b.must("cat /proc/" + pid + "/status")
	for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
		if !strings.Contains(status, want) {
			b.t.Errorf("no %q:\n%s", want, status)
		}
	}
	mounts := b.must("cat /proc/" + pid + "/mountinfo")
	for _, dir := range []string{"/usr", "/etc", "/proc/sys"} {
		if !regexp.MustCompile(` ` + dir + ` ro[, ]`).MatchString(mounts) {
			b.t.Errorf("%s can be written to:\n%s", dir, mounts)
		}
	}
}

// reload checks that a reload applies a changed file, and refuses a file with a mistake.
func (b *booted) reload() {
	pid := b.property("MainPID")
	b.must(`mkdir /srv/more && echo '/srv/more *(ro)' >> /etc/nfsrdma/exports && systemctl reload nfsrdmad && nfsrdma showmount 127.0.0.1 | grep -q ^/srv/more`)
	b.must(`cp /etc/nfsrdma/exports /tmp/exports && echo 'a mistake' >> /etc/nfsrdma/exports && ! systemctl reload nfsrdmad 2> /dev/null
nfsrdma showmount 127.0.0.1 | grep -q ^/srv/more && cp /tmp/exports /etc/nfsrdma/exports`)
	if b.property("MainPID") != pid {
		b.t.Error("it was started again")
	}
	if journal := b.must("journalctl -u nfsrdmad --no-pager"); !regexp.MustCompile(`exports:\d+:\d+: `).MatchString(journal) {
		b.t.Errorf("the journal does not say where the mistake is:\n%s", journal)
	}
}

// sockets checks that systemd owns the ports while the server is stopped. When a client connects,
// systemd starts the server, and the client gets its answer.
func (b *booted) sockets() {
	for _, client := range []string{"nfsrdma ls -l 127.0.0.1:/srv/data", "nfsrdma --proto tcp ls -l 127.0.0.1:/srv/data"} {
		b.must("systemctl stop nfsrdmad.service")
		if state := b.property("ActiveState"); state != "inactive" {
			b.t.Errorf("%s after a stop", state)
		}
		if out := b.must(client); !strings.Contains(out, "of-user") {
			b.t.Errorf("%s: %s", client, out)
		}
		// The server answers on its sockets before it notifies systemd of its readiness.
		b.await("the service to be active, by "+client, func() bool { return b.property("ActiveState") == "active" })
	}
	if n, used := b.must("nfsrdmad status"), b.property("TriggeredBy"); !strings.Contains(n, "2049") || used != "nfsrdmad.socket" {
		b.t.Errorf("%s, %s", n, used)
	}
}

// watchdog checks that systemd ends a server that hangs, and starts another one.
func (b *booted) watchdog() {
	b.must(`mkdir -p /etc/systemd/system/nfsrdmad.service.d
printf '[Service]\nWatchdogSec=20s\nWatchdogSignal=KILL\n' > /etc/systemd/system/nfsrdmad.service.d/test.conf
systemctl daemon-reload && systemctl restart nfsrdmad.service`)
	restarts := func() int {
		n, err := strconv.Atoi(b.property("NRestarts"))
		if err != nil {
			b.t.Fatalf("strconv.Atoi: %v", err)
		}
		return n
	}
	had, pid := restarts(), b.property("MainPID")
	b.must("kill -STOP " + pid)
	b.await("another server", func() bool {
		return restarts() > had && b.property("ActiveState") == "active" && b.property("MainPID") != pid
	})
	if journal := b.must("journalctl -u nfsrdmad --no-pager"); !strings.Contains(journal, "Watchdog timeout") {
		b.t.Errorf("not by the watchdog:\n%s", journal)
	}
	if out := b.must("nfsrdma ls 127.0.0.1:/srv/data"); !strings.Contains(out, "of-user") {
		b.t.Error(out)
	}
}
