// The promises to several clients of one file, with Linux as the client.

package linux

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/several"
)

// TestSeveralClients: two mounts of a guest without a common cache, and one with noac, use our
// server over RDMA and TCP as package several permits. One of them then runs the same schedules
// with mounts of ours and a process on the server. With NFSRDMA_LINUX_PEER=knfsd the guest is also
// the server, with a process in its directory among the actors: Linux is the reference.
func TestSeveralClients(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) { severalClients(t, series) })
	}
}

func severalClients(t *testing.T, series string) {
	enter(t, series)
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	g := client(t, series)
	tool := intoGuest(t, g, program(t, "test/several/cmd/several"))
	source, local, dir := g.Host+":/export /mnt/", "", exportDir(t)
	if linuxServes() {
		run(t, g, "ip link set lo up && mount -t tmpfs -o size=300m tmpfs /export && chmod 777 /export && knfsd_up /export 8")
		source, local = "127.0.0.1:/export /mnt/", " local:/export"
	} else {
		s := &server{t: t, g: g, dir: dir, behind: 20049, rdma: 20049, tcp: 2049, args: []string{"--crc", "auto", "--rdma", "iwarp", "--rpcbind", "serve"}}
		s.start()
		t.Cleanup(s.stop)
	}
	lockUp(t, g)
	mounts := "mkdir -p /mnt/a /mnt/b /mnt/c"
	for _, m := range [][2]string{{"a", "proto=tcp,lookupcache=pos"}, {"b", "proto=rdma,lookupcache=pos"}, {"c", "proto=tcp,noac"}} {
		if linuxServes() {
			m[1] = strings.Replace(m[1], "rdma", "tcp", 1)
		}
		mounts += fmt.Sprintf(" && mount -t nfs -o vers=3,nosharecache,%s %s%s", m[1], source, m[0])
	}
	run(t, g, mounts)
	defer run(t, g, "umount /mnt/a; umount /mnt/b; umount /mnt/c")
	tick, cells := "/mnt/c/tick", "60"
	if linuxServes() {
		tick, cells = "/export/tick", "1"
	}
	actors := fmt.Sprintf(" -tick %s -seed %d -steps 2000 mount:/mnt/a mount:/mnt/b noac:/mnt/c%s", tick, severalSeed(t), local)
	run(t, g, tool+" check"+actors)
	run(t, g, tool+" check -matrix "+cells+actors)
	if linuxServes() {
		return
	}
	needMounts(t)
	severalBoth(t, g, tool, dir)
}

// severalBoth runs schedules with a mount of the guest, two mounts of ours and a process in the
// served directory.
func severalBoth(t *testing.T, g *guest.Guest, tool, dir string) {
	t.Helper()
	w := several.NewWorld("both")
	add := func(k several.Kind, dir string) {
		if err := w.Process(k, dir); err != nil {
			t.Fatalf("Process: %v", err)
		}
	}
	add(several.Kind{Name: "our mount over RDMA", Unasked: true}, mountOurs(t, "rdma,lookupcache=pos", g.Listen))
	add(several.Kind{Name: "our mount over TCP with noac", Unasked: true, NoCache: true}, mountOurs(t, "tcp,noac", g.Listen))
	add(several.Kind{Name: "a process on the server", Local: true}, dir)
	tick, err := several.TickOf(filepath.Join(dir, "tick-of-both"))
	if err != nil {
		t.Fatalf("TickOf: %v", err)
	}
	w.Tick = tick

	const port = 7000 // of the guest
	serving := start(t, g, fmt.Sprintf("%s serve :%d /mnt/a", tool, port))
	var c net.Conn
	serving.until("it serves", func() bool {
		c, err = net.Dial("tcp", g.Address(port))
		return err == nil
	})
	w.Add(several.Kind{Name: "the guest's mount", Kernel: true}, several.NewRemote(c, c))
	taken, err := w.Check(severalSeed(t), 1000, func(failure error) bool {
		t.Error(failure)
		return false
	})
	c.Close()
	t.Logf("%d steps of the guest's client and ours", taken)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Error(err)
	}
	serving.wait()
}

// severalSeed returns a fixed seed, unless the run has NFSRDMA_SEED: the model lacks some behavior
// of the kernels. In this seed's schedules Linux removes a file that it has open, because the
// removed name is not the one that it opened. knfsd then loses the file as our server does.
func severalSeed(t *testing.T) uint64 {
	t.Helper()
	if os.Getenv("NFSRDMA_SEED") == "" {
		return 512928
	}
	return seed(t)
}
