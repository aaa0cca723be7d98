// Rules of an exports file as Linux's client meets them: refused, read-only, squashed, changed at work.

package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// underRules mounts each directory; what it prints is what differs from what the rules say.
const underRules = `
mount $opt $host:$dir/other /mnt 2> /tmp/said && echo "mounted what is another client's"
grep -q "access denied" /tmp/said || cat /tmp/said
mount $opt $host:$dir/ro /mnt || exit 1
cat /mnt/kept > /dev/null || echo "cannot read"
touch /mnt/new 2> /tmp/said && echo "wrote to what is read-only"
grep -q "Read-only file system" /tmp/said || cat /tmp/said
umount /mnt
mount $opt $host:$dir/rw /mnt || exit 1
echo text > /mnt/of-root-$proto
umount /mnt
mount $opt $host:$dir/squash /mnt || exit 1
echo text > /mnt/of-nobody-$proto
umount /mnt
`

// TestExportsFile: a guest is told "access denied" where the file names another client, reads where it may only read,
// while a client here writes to the same directory, and is squashed as its rule says. It notices nothing of
// new rules that leave its own as they were, and has a stale handle when its own has gone.
func TestExportsFile(t *testing.T) {
	enter(t, "6.1")
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error()) // the server would see an address of this machine
	}
	g := client(t, "6.1")
	dir := exportDir(t)
	for _, name := range []string{"rw", "ro", "other", "squash", "third"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"ro": 0o755, "squash": 0o777} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "ro", "kept"), []byte("kept"))
	file := filepath.Join(t.TempDir(), "exports")
	rules := func(more ...string) {
		text := fmt.Sprintf("%[1]s/ro %[2]s(ro) %[3]s(rw,no_root_squash,insecure)\n%[1]s/squash %[2]s(rw)\n%[1]s/other 192.0.2.7(rw)\n", dir, g.Guest, g.Host)
		write(t, file, []byte(text+strings.Join(more, "\n")+"\n"))
	}
	rw := fmt.Sprintf("%s/rw %s(rw,no_root_squash)", dir, g.Guest)
	rules(rw)
	s := &server{t: t, g: g, dir: t.TempDir(), behind: 20049, rdma: 20049, tcp: 2049,
		args: []string{"--crc", "auto", "--rdma", "iwarp", "--rpcbind", "serve", "--exports", file, "--control", filepath.Join(t.TempDir(), "control")}}
	s.start()
	t.Cleanup(s.stop)
	for _, proto := range []string{"rdma", "tcp"} {
		opt := fmt.Sprintf("-t nfs -o vers=3,nolock,proto=%s", proto)
		if out := run(t, g, fmt.Sprintf("proto=%s host=%s dir=%s opt=%q", proto, g.Host, dir, opt)+underRules); out != "" {
			t.Errorf("over %s:\n%s", proto, out)
		}
		ownedBy(t, filepath.Join(dir, "rw", "of-root-"+proto), 0)
		ownedBy(t, filepath.Join(dir, "squash", "of-nobody-"+proto), 65534)
	}
	c, err := nfsclient.Dial(t.Context(), s.address(2049), nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	here, err := c.Mount(t.Context(), dir+"/ro")
	if err != nil {
		t.Fatal(err)
	}
	if err := here.WriteFile(t.Context(), "kept", []byte("written here"), 0o644); err != nil {
		t.Errorf("beside a client that may only read: %v", err)
	}
	changedAtWork(t, g, s, dir, func(i int) { rules(rw, fmt.Sprintf("%s/third 192.0.2.%d(ro)", dir, i)) })
	rules()
	s.hangup()
	run(t, g, `n=0; until stat /mnt/last 2>&1 | grep -q "Stale file handle"; do n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.2; done; umount -l /mnt`)
	quiet(t, g)
}

// changedAtWork changes the rules of others over and over while the guest works under rules that stay.
func changedAtWork(t *testing.T, g *guest.Guest, s *server, dir string, change func(i int)) {
	t.Helper()
	write(t, filepath.Join(g.Share, "work"), []byte(`i=0; while [ ! -e /share/stop ]; do
	i=$((i + 1)); echo $i > /mnt/f$i && [ "$(cat /mnt/f$i)" = $i ] && mv /mnt/f$i /mnt/last || echo $i >> /share/failed
done; echo $i > /share/rounds
`))
	for _, name := range []string{"stop", "failed", "rounds"} {
		os.Remove(filepath.Join(g.Share, name))
	}
	run(t, g, fmt.Sprintf("mount -t nfs -o vers=3,nolock,proto=rdma,noac %s:%s/rw /mnt || exit 1\nsetsid sh /share/work > /share/noise 2>&1 < /dev/null &", g.Host, dir))
	last := filepath.Join(dir, "rw", "last")
	for i := range 10 {
		change(i)
		s.hangup()
		before, _ := os.ReadFile(last)
		comes(t, "the guest goes on", func() bool {
			now, err := os.ReadFile(last)
			return err == nil && len(now) > 0 && string(now) != string(before)
		})
	}
	write(t, filepath.Join(g.Share, "stop"), nil)
	comes(t, "the guest stops", func() bool { _, err := os.Stat(filepath.Join(g.Share, "rounds")); return err == nil })
	rounds, _ := os.ReadFile(filepath.Join(g.Share, "rounds"))
	t.Logf("%s rounds, 10 changes", strings.TrimSpace(string(rounds)))
	if failed, err := os.ReadFile(filepath.Join(g.Share, "failed")); err == nil {
		noise, _ := os.ReadFile(filepath.Join(g.Share, "noise"))
		t.Errorf("failed in rounds %s: %s", strings.Fields(string(failed)), noise)
	}
}

// hangup has the server read its exports file again, and waits until it says that it has.
func (s *server) hangup() {
	s.t.Helper()
	const says = " exports are served"
	before := strings.Count(s.log.String(), says)
	s.cmd.Process.Signal(syscall.SIGHUP)
	comes(s.t, "the server takes the exports file in", func() bool { return strings.Count(s.log.String(), says) > before })
	time.Sleep(10 * time.Millisecond) // for calls of the guest in between
}

// ownedBy checks who owns a file on this machine.
func ownedBy(t *testing.T, path string, uid uint32) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != uid {
		t.Errorf("%s belongs to %d, want %d", path, st.Uid, uid)
	}
}
