// Two Linux guests in QEMU that mount one volume through two servers, over RDMA and TCP.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// scriptTime limits a script that hangs.
const scriptTime = 15 * time.Minute

// A client is a guest that mounts the volume through its own server.
type client struct {
	t       *testing.T
	g       *guest.Guest
	server  *process
	fscheck string // shell commands in the guest
	locker  string
}

// bootClient starts a guest with a kernel of the given series.
func bootClient(t *testing.T, series string) *client {
	t.Helper()
	img, err := image.Get(t.Context(), series, t.Logf)
	var g *guest.Guest
	if err == nil {
		g, err = guest.Boot(t.Context(), guest.Config{Image: img, MemoryMB: 512, Direct: true})
	}
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the guest's console:\n%s", g.Console())
		}
		g.Close()
	})
	return &client{t: t, g: g}
}

// equip copies programs into the guest and starts its lock services.
func (c *client) equip(programs string) {
	c.t.Helper()
	for name, command := range map[string]*string{"fscheck": &c.fscheck, "locker": &c.locker} {
		b, err := os.ReadFile(filepath.Join(programs, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(c.g.Share, name), b, 0o755)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		*command = "/tmp/" + name // in the guest's memory, not in the shared directory
		c.run("cp /share/" + name + " /tmp && rm /share/" + name)
	}
	statd, err := c.g.FromHost(c.t.Context(), "rpc.statd")
	if errors.Is(err, exec.ErrNotFound) {
		machine.Skip(c.t, "needs rpc.statd (Debian: nfs-common)")
	}
	if err != nil {
		c.t.Fatalf("FromHost: %v", err)
	}
	c.run("client_up && ip link set lo up; mkdir -p /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/sm.bak; rpcbind -w && " + statd + " --no-notify")
}

// try runs a script in the guest.
func (c *client) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), scriptTime)
	defer cancel()
	return c.g.Run(ctx, script)
}

// run runs a script, and fails the test if the script fails.
func (c *client) run(script string) string {
	c.t.Helper()
	out, err := c.try(script)
	if err != nil {
		c.t.Fatalf("try: %v", err)
	}
	return out
}

// unmounted is a script that unmounts /mnt if it is mounted.
const unmounted = "cd /; if grep -q ' /mnt ' /proc/mounts; then umount /mnt || exit 1; fi"

// mount mounts the volume with additional options, replacing the previous mount.
func (c *client) mount(options string) {
	c.t.Helper()
	c.run(unmounted + "; mount -t nfs -o vers=3," + options + " " + c.g.Host + ":/vol /mnt || { dmesg | tail -n 15; exit 1; }")
}

// buildForGuests builds the guests' programs with static linking.
func buildForGuests(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.Command("go", "build", "-o", dir+"/", "./test/linux/cmd/fscheck", "./test/linux/cmd/locker")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestLinuxGuests: on a volume over RDMA, Linux behaves as on a disk. Two guests, each with its own
// server, have close-to-open consistency. Their locks and renames exclude each other. This is
// tested with both guests over RDMA, and with one over TCP.
func TestLinuxGuests(t *testing.T) {
	if os.Getenv("NFSRDMA_LINUX") == "" {
		t.Skip("the Linux suite runs with NFSRDMA_LINUX=1, as in ./test/run")
	}
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	programs := buildForGuests(t)
	both := []*client{bootClient(t, "6.12"), bootClient(t, "6.1")}
	for _, c := range both {
		c.equip(programs)
	}
	for _, m := range []struct {
		name  string
		start metadata
	}{{"redis", juicefstest.Redis}, {"postgres", juicefstest.Postgres}} {
		t.Run(m.name, func(t *testing.T) { guestsShare(t, both, m.start) })
	}
	for _, c := range both {
		if out := c.run("dmesg"); strings.Contains(out, "BUG:") || strings.Contains(out, "Oops") || strings.Contains(out, "blocked for more than") {
			t.Errorf("the guest's kernel says:\n%s", out)
		}
	}
}

// guestsShare runs TestLinuxGuests with one service for the metadata.
func guestsShare(t *testing.T, both []*client, start metadata) {
	_, url := start(t)
	juicefstest.Format(t, url, juicefstest.StartS3(t))
	for _, c := range both {
		c.server = startProcessAt(t, c.g.Listen, "20049", "2049", url, "--addr", c.g.Listen, "--rpcbind", "serve", "--crc", "auto")
		defer c.run(unmounted)
	}
	both[0].mount("proto=rdma")
	t.Run("semantics", func(t *testing.T) { both[0].checks(t, "-large 8") })
	t.Run("random", func(t *testing.T) { both[0].checks(t, "-ops 500") })
	t.Run("tree", func(t *testing.T) { both[0].run(guest.TreeScript) })
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			for i, c := range both {
				c.mount("proto=" + []string{"rdma", proto}[i])
			}
			t.Run("exchange", func(t *testing.T) { exchange(t, both) })
			t.Run("locks", func(t *testing.T) { together(t, both, counting, 2*2*10) })
			// With these options each look-up of a name asks the server, so changes by the other
			// guest are seen.
			for i, c := range both {
				c.mount("actimeo=0,lookupcache=none,proto=" + []string{"rdma", proto}[i])
			}
			t.Run("rename", func(t *testing.T) { together(t, both, renaming, 2*10) })
			t.Run("names", func(t *testing.T) { namesTogether(t, both) })
		})
	}
}

// charged matches a FAIL line for a known difference to a disk: in JuiceFS a file is charged its
// whole size, including holes (docs/scale.md).
var charged = regexp.MustCompile(`^sparse \S+ a file with holes has size \d+ and \d+ blocks$`)

// checks runs fscheck on the volume in the guest.
func (c *client) checks(t *testing.T, args string) {
	out, err := c.try(c.fscheck + " -dir /mnt " + args)
	code := 0
	if exit := (*guest.ExitError)(nil); errors.As(err, &exit) {
		code = exit.Code
	} else if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range complaints(out, code) {
		t.Error(wrong)
	}
}

// complaints returns the errors in a run of fscheck with its output and status. Status 1 means FAIL
// lines, which may all be expected differences to a disk; any other status means that fscheck did
// not finish.
func complaints(out string, code int) (list []string) {
	n, failed := 0, 0
	for line := range strings.Lines(out) {
		verdict, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verdict {
		case "ok":
			n++
		case "FAIL":
			if failed++; !charged.MatchString(rest) {
				list = append(list, rest)
			}
		}
	}
	if n == 0 || code != min(failed, 1) || strings.Contains(out, "panic:") {
		list = append(list, fmt.Sprintf("fscheck ended with %d and said:\n%s", code, out))
	}
	return list
}

// TestComplaintsOfChecks: an early end of a run is a complaint, even if all checks before it
// passed.
func TestComplaintsOfChecks(t *testing.T) {
	const holes = "FAIL sparse 1ms a file with holes has size 1000 and 8 blocks\n"
	for _, c := range []struct {
		out  string
		code int
		want int
	}{
		{"ok a 1ms\nok b 1ms\n", 0, 0},
		{"ok a 1ms\n" + holes, 1, 0},
		{"ok a 1ms\nFAIL b 1ms no\n" + holes, 1, 1},
		{"ok a 1ms\n", 137, 1},         // fscheck was killed
		{"ok a 1ms\n" + holes, 137, 1}, // fscheck was killed after expected failures
		{"ok a 1ms\n" + holes, 0, 1},
		{"ok a 1ms\nmkdir check-b: no space\n", 1, 1},
		{"ok a 1ms\nFAIL b 1ms no\npanic: it\n", 2, 2},
		{"", 0, 1},
	} {
		if got := complaints(c.out, c.code); len(got) != c.want {
			t.Errorf("%q with code %d: %q", c.out, c.code, got)
		}
	}
}

// exchange makes the guests write a file in turn, always with the same size. Each time the other
// guest must read the new content.
func exchange(t *testing.T, both []*client) {
	for i := range 10 {
		from, to := both[i%2], both[1-i%2]
		want := fmt.Sprintf("version %03d", i)
		from.run("echo " + want + " > /mnt/exchanged")
		if got := strings.TrimSpace(to.run("cat /mnt/exchanged")); got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
}

// counting returns a script that runs two processes at once. Each increments a number 10 times,
// under a lock.
func counting(c *client, _ int) string {
	return fmt.Sprintf("%[1]s /mnt/number count 10 > /tmp/one & %[1]s /mnt/number count 10 > /tmp/two; a=$?; wait $! && [ $a = 0 ]; a=$?; cat /tmp/one /tmp/two; exit $a", c.locker)
}

// renaming returns a script that increments a number 10 times. For each increment it renames a
// file, which only one guest can do at a time.
func renaming(_ *client, i int) string {
	return fmt.Sprintf(`cd /mnt; for i in $(seq 10); do
	until mv token token-%[1]d 2> /dev/null; do :; done
	n=$(($(cat number) + 1)); echo $n > number; echo $n
	mv token-%[1]d token || exit 1
done`, i)
}

// atOnce runs a script concurrently in both guests.
func atOnce(t *testing.T, both []*client, script func(c *client, i int) string) (outs []string) {
	t.Helper()
	outs = make([]string, len(both))
	errs := make([]error, len(both))
	var wg sync.WaitGroup
	for i, c := range both {
		wg.Go(func() { outs[i], errs[i] = c.try(script(c, i)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return outs
}

// together runs a script concurrently in both guests. Afterwards each number up to n must have been
// printed once.
func together(t *testing.T, both []*client, script func(c *client, i int) string, n int) {
	both[0].run("echo 0 > /mnt/number; : > /mnt/token")
	outs := atOnce(t, both, script)
	if got := distinct(t, strings.Fields(strings.Join(outs, " "))); got != n {
		t.Errorf("%d numbers, want %d", got, n)
	}
}

// namesTogether makes both guests create, write and rename files in one directory. Afterwards both
// see all files with their content, and remove each other's.
func namesTogether(t *testing.T, both []*client) {
	const each = 30
	both[0].run("mkdir /mnt/dir")
	atOnce(t, both, func(_ *client, i int) string {
		return fmt.Sprintf(`cd /mnt/dir && for k in $(seq %d); do echo "%d $k" > new-%[2]d && mv new-%[2]d file-%[2]d-$k || exit 1; done`, each, i)
	})
	const list = "cd /mnt/dir && ls | sort | while read -r f; do echo $f $(cat $f); done"
	lists := atOnce(t, both, func(*client, int) string { return list })
	if lists[0] != lists[1] || strings.Count(lists[0], "\n") != 2*each {
		t.Errorf("one guest sees\n%s\nthe other\n%s", lists[0], lists[1])
	}
	for line := range strings.Lines(lists[0]) {
		var name, guest, number string
		if n, err := fmt.Sscan(line, &name, &guest, &number); n != 3 || err != nil || name != "file-"+guest+"-"+number {
			t.Errorf("%s holds what another file is to hold", strings.TrimSpace(line))
		}
	}
	atOnce(t, both, func(_ *client, i int) string { return fmt.Sprintf("cd /mnt/dir && rm file-%d-*", 1-i) })
	if out := both[1].run("rmdir /mnt/dir && ls /mnt/dir 2>&1; true"); !strings.Contains(out, "No such file") {
		t.Errorf("the directory is not empty, or still there: %s", out)
	}
}
