// Rules of an exports file for Linux's client: refused, read-only, squashed, and changed while it
// works.

package linux

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/wire"
)

// underRules mounts each directory; it prints the differences from the rules.
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

// TestExportsFile: a guest gets "access denied" for a directory exported to another client. It only
// reads a read-only directory, to which a local client writes, and is squashed by its rule. New
// rules that keep its own do not disturb it. Without its own rule it gets a stale handle.
func TestExportsFile(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) { exportsFile(t, series) })
	}
}

func exportsFile(t *testing.T, series string) {
	enter(t, series)
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error()) // the server would see an address of this machine
	}
	g := client(t, series)
	if linuxServes() {
		exportsOfLinux(t, series, g)
		return
	}
	dir := exportDir(t)
	for _, name := range []string{"rw", "ro", "other", "squash", "third"} {
		must.Succeed(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	for name, mode := range map[string]os.FileMode{"ro": 0o755, "squash": 0o777} {
		must.Succeed(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	write(t, filepath.Join(dir, "ro", "kept"), []byte("kept"))
	file := filepath.Join(t.TempDir(), "exports")
	rules := func(more ...string) {
		write(t, file, []byte(fmt.Sprintf(exportRules, dir, g.Guest, g.Host)+strings.Join(more, "\n")+"\n"))
	}
	rw := fmt.Sprintf(exportRW, dir, g.Guest)
	rules(rw)
	s := &server{t: t, g: g, dir: t.TempDir(), behind: 20049, rdma: 20049, tcp: 2049,
		args: []string{"--crc", "auto", "--rdma", "iwarp", "--rpcbind", "serve", "--exports", file, "--control", filepath.Join(t.TempDir(), "control")}}
	s.start()
	t.Cleanup(s.stop)
	for _, proto := range []string{"rdma", "tcp"} {
		meetRules(t, g, dir, proto)
		ownedBy(t, filepath.Join(dir, "rw", "of-root-"+proto), 0)
		ownedBy(t, filepath.Join(dir, "squash", "of-nobody-"+proto), 65534)
	}
	c, err := nfsclient.Dial(t.Context(), s.address(2049), nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	here, err := c.Mount(t.Context(), dir+"/ro")
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	if err := here.WriteFile(t.Context(), "kept", []byte("written here"), 0o644); err != nil {
		t.Errorf("beside a client that may only read: %v", err)
	}
	changedAtWork(t, g, s, dir, func(i int) { rules(rw, fmt.Sprintf("%s/third 192.0.2.%d(ro)", dir, i)) })
	rules()
	s.hangup()
	run(t, g, becomesStale)
	quiet(t, g)
}

// exportRules is an exports file with a directory, a client with fewer rights, and one with more;
// exportRW is a rule that is removed.
const (
	exportRules = "%[1]s/ro %[2]s(ro) %[3]s(rw,no_root_squash,insecure)\n%[1]s/squash %[2]s(rw)\n%[1]s/other 192.0.2.7(rw)\n"
	exportRW    = "%s/rw %s(rw,no_root_squash)"
)

// becomesStale waits until the mounted directory has gone from the exports, and unmounts it.
const becomesStale = `n=0; until stat /mnt/last 2>&1 | grep -q "Stale file handle"; do n=$((n + 1)); [ $n -lt 3000 ] || exit 1; sleep 0.2; done; umount -l /mnt`

// meetRules makes the guest mount the allowed and the forbidden exports, with a mount line that
// names no port.
func meetRules(t *testing.T, g *guest.Guest, dir, proto string) {
	t.Helper()
	opt := fmt.Sprintf("-t nfs -o vers=3,nolock,proto=%s", proto)
	if out := run(t, g, fmt.Sprintf("proto=%s host=%s dir=%s opt=%q", proto, g.Host, dir, opt)+underRules); out != "" {
		t.Errorf("over %s:\n%s", proto, out)
	}
}

// makeExports makes the directories in a guest, on a file system that has handles without fsid=.
const makeExports = `modprobe ext4 && modprobe brd rd_nr=1 rd_size=24576 && /sbin/mke2fs -q -t ext4 -J size=2 /dev/ram0 || exit 1
mkdir /rules && mount -t ext4 /dev/ram0 /rules && cd /rules && mkdir rw ro other squash && chmod 777 squash && echo kept > ro/kept
`

// exportsOfLinux checks the same rules with Linux's server in another guest. That server sees the
// address of this machine, which relays, and no reserved port. So its rules have insecure, too.
func exportsOfLinux(t *testing.T, series string, g *guest.Guest) {
	s := knfsd(t, series, guest.Fixed, g, wire.Want{})
	for _, port := range []int{111, 2049, 20048, 20049} {
		relayPort(t, port, g.Listen, s.Guest.Guest)
	}
	run(t, s.Guest, makeExports)
	rules := func(text string) {
		text = strings.ReplaceAll(strings.ReplaceAll(text, ",insecure", ""), ")", ",insecure)")
		run(t, s.Guest, "cat > /etc/exports << E\n"+text+"\nE\nexportfs -ra 2> /dev/null")
	}
	most := fmt.Sprintf(exportRules, "/rules", s.Host, "192.0.2.9")
	rules(most + fmt.Sprintf(exportRW, "/rules", s.Host))
	for _, proto := range []string{"rdma", "tcp"} {
		meetRules(t, g, "/rules", proto)
		owners := run(t, s.Guest, fmt.Sprintf("stat -c %%u /rules/rw/of-root-%[1]s /rules/squash/of-nobody-%[1]s", proto))
		if strings.Join(strings.Fields(owners), " ") != "0 65534" {
			t.Errorf("over %s the owners are %q", proto, owners)
		}
	}
	run(t, g, fmt.Sprintf("mount -t nfs -o vers=3,nolock,proto=rdma,noac %s:/rules/rw /mnt && touch /mnt/last", g.Host))
	rules(most)
	run(t, g, becomesStale)
	quiet(t, s.Guest)
	quiet(t, g)
}

// relayPort relays a port of listen to the same port of another machine, for a guest that cannot
// reach that machine.
func relayPort(t *testing.T, port int, listen, upstream string) {
	t.Helper()
	at := strconv.Itoa(port)
	l, err := net.Listen("tcp4", net.JoinHostPort(listen, at))
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp4", net.JoinHostPort(upstream, at))
			if err != nil {
				c.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{c, up}, {up, c}} {
				go func() {
					io.Copy(ends[0], ends[1])
					ends[0].Close()
				}()
			}
		}
	}()
}

// changedAtWork repeatedly changes other clients' rules while the guest works under rules that
// stay.
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

// hangup makes the server read its exports file again, and waits until it reports that it has.
func (s *server) hangup() {
	s.t.Helper()
	const says = " is in force: "
	before := strings.Count(s.log.String(), says)
	s.cmd.Process.Signal(syscall.SIGHUP)
	comes(s.t, "the server takes the exports file in", func() bool { return strings.Count(s.log.String(), says) > before })
	time.Sleep(10 * time.Millisecond) // for calls of the guest in between
}

// ownedBy checks a file's owner on this machine.
func ownedBy(t *testing.T, path string, uid uint32) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Errorf("os.Lstat: %v", err)
		return
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != uid {
		t.Errorf("%s belongs to %d, want %d", path, st.Uid, uid)
	}
}
