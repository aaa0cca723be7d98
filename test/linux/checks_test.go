// Linux mounts us and does what users do: file semantics, random operations, trees, archives,
// programs, large directories.

package linux

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/wire"
)

// checks runs fscheck in the guest and turns each of its lines into a subtest.
func checks(t *testing.T, g *guest.Guest, args string) {
	t.Helper()
	out := run(t, g, fmt.Sprintf("%s %s; true", intoGuest(t, g, program(t, "test/linux/cmd/fscheck")), args))
	lines := 0
	for line := range strings.Lines(out) {
		verdict, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, detail, _ := strings.Cut(rest, " ")
		if verdict != "ok" && verdict != "FAIL" {
			continue
		}
		lines++
		t.Run(name, func(t *testing.T) {
			t.Log(detail)
			if verdict == "FAIL" {
				t.Fail()
			}
		})
	}
	if lines == 0 || strings.Contains(out, "panic:") {
		t.Errorf("fscheck said:\n%s", out)
	}
}

// export is the server that the guest mounts: ours, or Linux's when NFSRDMA_LINUX_PEER=knfsd tests
// whether a failure is ours.
type export interface {
	mount(proto, options string) string
}

func linuxServes() bool { return os.Getenv("NFSRDMA_LINUX_PEER") == "knfsd" }

func serveOrPeer(t *testing.T, g *guest.Guest, series, dir string, args ...string) export {
	t.Helper()
	if linuxServes() {
		return knfsd(t, series, guest.Fixed, g, wire.Want{})
	}
	return serve(t, g, dir, args...)
}

const unmount = "cd /; umount /mnt"

// TestFileSemantics: 6.1 runs the whole list over RDMA, with a 64 MB file. The other rows run the
// parts with most transport work.
func TestFileSemantics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		series, proto, crc, run string
		large                   int
	}{
		{"6.1", "rdma", "auto", "", 64},
		{"6.1", "rdma", "on", "sizes|large|mmap|symlinks|names|parallel", 16},
		{"6.1", "tcp", "auto", "", 16},
		{"6.12", "rdma", "auto", "sizes|large|mmap|symlinks|names|readdir|processes|rename|unlink-open|attributes", 16},
		{"6.12", "tcp", "auto", "sizes|mmap|symlinks|rename|unlink-open|attributes", 16},
	} {
		t.Run(fmt.Sprintf("%s-%s-crc-%s", c.series, c.proto, c.crc), func(t *testing.T) {
			enter(t, c.series)
			g := client(t, c.series)
			s := serveOrPeer(t, g, c.series, exportDir(t), "--crc", c.crc)
			run(t, g, s.mount(c.proto, ""))
			checks(t, g, fmt.Sprintf("-dir /mnt -large %d -run '%s'", c.large, c.run))
			run(t, g, unmount)
			quiet(t, g)
		})
	}
}

// seed returns a new seed, or NFSRDMA_SEED, and logs it.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano()) % 1_000_000
	if s := os.Getenv("NFSRDMA_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("strconv.ParseUint: %v", err)
		}
	}
	t.Logf("repeat with NFSRDMA_SEED=%d", n)
	return n
}

func TestRandomOperations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		series, proto, crc string
		ops                int
	}{
		{"6.1", "rdma", "auto", 5000},
		{"6.1", "tcp", "auto", 1000},
		{"6.12", "rdma", "on", 3000},
	} {
		t.Run(fmt.Sprintf("%s-%s-crc-%s", c.series, c.proto, c.crc), func(t *testing.T) {
			enter(t, c.series)
			g := client(t, c.series)
			s := serveOrPeer(t, g, c.series, memoryDir(t), "--crc", c.crc)
			run(t, g, s.mount(c.proto, ""))
			checks(t, g, fmt.Sprintf("-dir /mnt -ops %d -seed %d", c.ops, seed(t)))
			run(t, g, unmount)
			quiet(t, g)
		})
	}
}

// TestLargeDirectory: the guest lists a directory of many names, made on the host, with READDIRPLUS
// and with READDIR.
func TestLargeDirectory(t *testing.T) {
	t.Parallel()
	type listing struct{ proto, options string }
	for _, c := range []struct {
		series   string
		names    int
		listings []listing
	}{
		{"6.1", 20_000, []listing{{"rdma", ""}, {"rdma", "nordirplus"}, {"tcp", ""}}},
		{"6.12", 5000, []listing{{"rdma", ""}, {"rdma", "nordirplus"}}},
	} {
		t.Run(c.series, func(t *testing.T) {
			enter(t, c.series)
			dir := exportDir(t)
			many := manyNames(t, dir, c.names)
			g := client(t, c.series)
			s := serve(t, g, dir)
			for _, l := range c.listings {
				run(t, g, s.mount(l.proto, l.options))
				checks(t, g, fmt.Sprintf("-dir /mnt/%s -names %d", many, c.names))
				run(t, g, unmount)
			}
			quiet(t, g)
		})
	}
}

func TestTrees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ series, proto string }{{"6.1", "rdma"}, {"6.12", "tcp"}} {
		t.Run(c.series+"-"+c.proto, func(t *testing.T) {
			enter(t, c.series)
			g := client(t, c.series)
			s := serveOrPeer(t, g, c.series, exportDir(t))
			run(t, g, s.mount(c.proto, "")+guest.TreeScript)
			quiet(t, g)
		})
	}
}
