// What Linux sees when things go wrong: the server killed, connections cut, errors that
// must come through as themselves.

package linux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/wire"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// reconnects are what the guest's kernel says when a connection breaks and comes back.
var reconnects = []string{
	`nfs: server 10\.0\.2\.2 (not responding|OK)`,
	`siw: .*`,
	`rpcrdma: .*(closed|unreachable|refused|failed|flushed).*`,
}

// start runs a script in the background; the function that it returns waits for its end.
func start(t *testing.T, g *guest.Guest, script string) func() string {
	t.Helper()
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	go func() {
		out, err := g.Run(ctx, script)
		done <- result{out, err}
	}()
	return func() string {
		t.Helper()
		defer cancel()
		r := <-done
		if ctx.Err() != nil {
			forget(g)
		}
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.out
	}
}

// await waits until a condition on the host holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// killScript appends records and syncs each; the number of the last one that fsync has
// acknowledged is known to the host at any time. At its end it reads all of them back.
const killScript = `
exec 3> /mnt/held
i=0
while [ $i -lt 400 ]; do
	head -c 4000 /dev/zero | tr '\0' "$(printf '\\%03o' $((65 + i % 26)))" > /tmp/rec
	dd if=/tmp/rec of=/mnt/log bs=4000 seek=$i conv=notrunc,fsync 2>/dev/null || exit 1
	i=$((i + 1))
	echo $i > /share/acknowledged.tmp && mv /share/acknowledged.tmp /share/acknowledged
done
echo "written through the whole time" >&3 || exit 1
exec 3>&-
grep -q written /mnt/held || exit 1
drop_caches
[ $(stat -c %s /mnt/log) = 1600000 ] || exit 1
md5sum < /mnt/log
cat /mnt/hello.txt
cd /; umount /mnt`

// The server is killed and started again while the guest writes. The mount recovers by
// itself, what fsync acknowledged was there at each kill, and no handle is stale.
func TestServerKilled(t *testing.T) {
	kernel(t, "6.1")
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			dir := exportDir(t)
			s := serve(t, dir)
			g := client(t, "6.1")
			progress := filepath.Join(g.Share, "acknowledged")
			os.Remove(progress)
			acknowledged := func() (n int) {
				text, _ := os.ReadFile(progress)
				fmt.Sscan(string(text), &n)
				return n
			}
			run(t, g, s.mount(proto, ""))
			wait := start(t, g, killScript)
			for _, at := range []int{40, 150, 280} {
				await(t, fmt.Sprintf("%d records", at), func() bool { return acknowledged() >= at })
				n := acknowledged()
				s.kill()
				b, err := os.ReadFile(filepath.Join(dir, "log"))
				if err != nil || len(b) < n*4000 {
					t.Errorf("%d records were acknowledged, the file has %d octets, %v", n, len(b), err)
				}
				s.start()
			}
			out := wait()
			var want strings.Builder
			for i := range 400 {
				want.WriteString(strings.Repeat(string(rune('A'+i%26)), 4000))
			}
			sameFile(t, filepath.Join(dir, "log"), []byte(want.String()))
			if !strings.Contains(out, "hello from nfsrdmad") {
				t.Errorf("the guest says %q", out)
			}
			quiet(t, g, reconnects...)
		})
	}
}

// The RDMA connection is cut in the middle of a READ, a WRITE and a READDIR. The guest
// connects anew and its operation goes on.
func TestConnectionCut(t *testing.T) {
	kernel(t, "6.1")
	dir := exportDir(t)
	want := pattern(24<<20, 5)
	write(t, filepath.Join(dir, "big"), want)
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o777); err != nil {
		t.Fatal(err)
	}
	const names = 5000
	for i := range names {
		write(t, filepath.Join(many, fmt.Sprintf("a-rather-long-name-%d", i)), nil)
	}
	s := serve(t, dir)
	g := client(t, "6.1")
	fscheck := intoGuest(t, g, program(t, "test/linux/cmd/fscheck"))
	for _, c := range []struct {
		name   string
		d      tap.Direction
		after  int64
		script string
	}{
		{"READ", tap.ToClient, 3_333_333, "drop_caches; cmp /mnt/big /share/want"},
		{"WRITE", tap.ToServer, 3_333_333, "dd if=/share/want of=/mnt/new bs=1M conv=fsync 2>/dev/null && drop_caches && cmp /mnt/new /share/want"},
		{"READDIR", tap.ToClient, 150_000, fmt.Sprintf("drop_caches; %s -dir /mnt/many -names %d", fscheck, names)},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, filepath.Join(g.Share, "want"), want)
			tp, err := tap.New(fmt.Sprintf("127.0.0.1:%d", s.rdma), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tp.Close()
			run(t, g, mountCommand("rdma", tp.Port(), s.tcp, ""))
			tp.CutAfter(c.d, c.after)
			wait := start(t, g, c.script)
			wait()
			if tp.Cuts() != 1 {
				t.Errorf("%d cuts", tp.Cuts())
			}
			run(t, g, "cat /mnt/hello.txt && "+unmount)
			quiet(t, g, reconnects...)
		})
	}
	sameFile(t, filepath.Join(dir, "new"), want)
}

// Errors reach the guest's programs as what they are.
func TestErrors(t *testing.T) {
	kernel(t, "6.1")
	says := func(t *testing.T, g *guest.Guest, script, want string) {
		t.Helper()
		if out := run(t, g, "("+script+") 2>&1; true"); !strings.Contains(out, want) {
			t.Errorf("%s says %q, want %q", script, out, want)
		}
	}
	t.Run("EROFS", func(t *testing.T) {
		g := client(t, "6.1")
		s := serve(t, exportDir(t), "--read-only")
		run(t, g, s.mount("rdma", "")+"\ncat /mnt/hello.txt")
		for _, script := range []string{"echo x > /mnt/new", "rm -f /mnt/hello.txt", "mkdir /mnt/d", "mv /mnt/hello.txt /mnt/x", "ln -s a /mnt/l", "chmod 600 /mnt/hello.txt"} {
			says(t, g, script, "Read-only file system")
		}
		run(t, g, unmount)
	})
	t.Run("EACCES", func(t *testing.T) {
		g := client(t, "6.1")
		dir := exportDir(t)
		write(t, filepath.Join(dir, "secret"), []byte("s"))
		if err := os.Chmod(filepath.Join(dir, "secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() != 0 {
			t.Skip("the server must be root to act for others")
		}
		s := serve(t, dir)
		run(t, g, s.mount("rdma", ""))
		says(t, g, "su u1000 -c 'cat /mnt/secret'", "Permission denied")
		run(t, g, unmount)
	})
	t.Run("ESTALE", func(t *testing.T) {
		g := client(t, "6.1")
		dir := exportDir(t)
		write(t, filepath.Join(dir, "gone"), pattern(100_000, 6))
		s := serve(t, dir)
		run(t, g, s.mount("rdma", ""))
		// Held open by a process that lives on, while the host removes the file.
		run(t, g, "(exec 3< /mnt/gone; echo up > /run/held; while [ -e /run/held ]; do sleep 0.1; done; drop_caches; cat <&3 > /run/stale 2>&1; echo done >> /run/stale) > /dev/null 2>&1 & \nwhile [ ! -e /run/held ]; do sleep 0.1; done")
		if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
			t.Fatal(err)
		}
		says(t, g, "rm /run/held; while ! grep -q done /run/stale 2>/dev/null; do sleep 0.1; done; cat /run/stale", "Stale file handle")
		run(t, g, "rm -f /run/stale; "+unmount)
	})
	t.Run("ENOSPC", func(t *testing.T) {
		g := client(t, "6.1")
		dir := smallDisk(t)
		s := serve(t, dir)
		run(t, g, s.mount("rdma", ""))
		says(t, g, "dd if=/dev/zero of=/mnt/full bs=1M count=12 conv=fsync", "No space left")
		run(t, g, "rm /mnt/full && echo fits > /mnt/small && sync && cat /mnt/small && "+unmount)
	})
	quiet(t, client(t, "6.1"))
}

// smallDisk mounts a tmpfs of 4 MB, which only root can.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=777"); err != nil {
		skip(t, fmt.Sprintf("a small disk to fill cannot be mounted: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// What Linux and we say to each other is lawful, message by message, with CRC and without.
func TestLinuxMountsUsOnTheWire(t *testing.T) {
	for _, c := range []struct{ series, crc string }{{"6.1", "auto"}, {"6.1", "on"}, {"6.12", "on"}} {
		t.Run(c.series+"-crc-"+c.crc, func(t *testing.T) {
			kernel(t, c.series)
			s := serve(t, exportDir(t), "--crc", c.crc)
			g := client(t, c.series)
			port, judge := tapped(t, s.rdma)
			run(t, g, mountCommand("rdma", port, s.tcp, ""))
			checks(t, g, "-dir /mnt -run 'sizes|symlinks|names|truncate|rename|parallel'")
			run(t, g, unmount)
			run(t, g, mountCommand("rdma", port, s.tcp, "nordirplus")+"\nls -la /mnt > /dev/null\n"+unmount)
			judge(wire.Want{CRC: c.crc == "on", ServerOurs: true})
			quiet(t, g)
		})
	}
}
