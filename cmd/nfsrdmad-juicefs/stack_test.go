// The whole stack: Redis and S3, two servers that are killed in turn, and programs on two mounts
// over RDMA.

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
)

// file makes a file in the volume, through one of its servers.
func (c *cluster) file(name, content string) {
	c.t.Helper()
	fs, err := mount(c.t, c.servers[0].addr(), "/vol")
	if err == nil {
		err = fs.WriteFile(c.t.Context(), name, []byte(content), 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// atServer checks a file's records directly at a server, as writtenWorker does in a mount.
func (c *cluster) atServer(s *process, name string, n int) {
	c.t.Helper()
	fs, err := mount(c.t, s.addr(), "/vol")
	if err != nil {
		c.t.Fatalf("mount: %v", err)
	}
	got, err := fs.ReadFile(c.t.Context(), name)
	if err != nil || len(got) != recordPlaces*recordSize {
		c.t.Fatalf("%s: %d bytes, %v", name, len(got), err)
	}
	for i := n - recordPlaces; i < n; i++ {
		if at := got[place(i) : place(i)+recordSize]; string(at) != string(record(i)) {
			c.t.Errorf("%s at the server: record %d of %d is %.10q…", name, i, n, at)
		}
	}
}

// onEach runs a test with mounts on a volume of each metadata service.
func onEach(t *testing.T, test func(t *testing.T, c *cluster), flags ...string) {
	t.Parallel()
	needMounts(t)
	for name, start := range map[string]metadata{"redis": juicefstest.Redis, "postgres": juicefstest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newServersOn(t, start, juicefstest.StartS3(t), flags...))
		})
	}
}

const (
	killRounds  = 4
	killRecords = 40 // records that each writer writes in a round
)

// TestMountsWhoseServersAreKilled: the servers are killed in turn under writers and readers of two
// mounts. After each kill all data acknowledged by fsync is present, in both mounts and at the
// servers, with no older byte; and data closed in one mount is visible after an open in the other.
func TestMountsWhoseServersAreKilled(t *testing.T) { onEach(t, mountsOfKilledServers) }

func mountsOfKilledServers(t *testing.T, c *cluster) {
	c.mount("timeo=100", 0, 1)
	c.mount("timeo=100", 1, 0)
	names := []string{"records-0", "records-1"}
	all := []*worker{startWorker(t, "exchange", c.mounts...)}
	for i, dir := range c.mounts {
		all = append(all, startWorker(t, "records", filepath.Join(dir, names[i])))
	}
	for round := range killRounds {
		n := (round + 1) * killRecords
		for _, w := range all {
			w.do(killRecords)
		}
		victim := c.servers[round%2]
		all[1+round%2].await(n - killRecords + 1 + rand.IntN(killRecords/2))
		victim.kill()
		for _, w := range all {
			w.await(n)
		}
		for i, name := range names {
			mustRun(t, "written", filepath.Join(c.mounts[1-i], name), strconv.Itoa(n))
			c.atServer(c.servers[1-round%2], name, n)
		}
		victim.start()
	}
	for _, w := range all {
		w.end()
	}
}

// distinct checks that each number from 1 on occurs once, and returns the count.
func distinct(t *testing.T, all []string) int {
	t.Helper()
	var got []int
	for _, text := range all {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("strconv.Atoi: %v", err)
		}
		got = append(got, n)
	}
	slices.Sort(got)
	for i, n := range got {
		if n != i+1 {
			t.Fatalf("of %d numbers, number %d is %d", len(got), i+1, n)
		}
	}
	return len(got)
}

// exclusive makes workers of both mounts increment a number, one at a time, while the servers are
// killed in turn.
func exclusive(t *testing.T, c *cluster, start func(dir string, k int) *worker, rounds, each int) {
	t.Helper()
	var all []*worker
	for k := range 4 {
		all = append(all, start(c.mounts[k%2], k))
	}
	for round := range rounds {
		for _, w := range all {
			w.do(each)
		}
		all[round%4].await(round*each + 1 + rand.IntN(each/2))
		c.servers[round%2].kill()
		c.servers[round%2].start()
		for _, w := range all {
			w.await((round + 1) * each)
		}
	}
	var numbers []string
	for _, w := range all {
		w.end()
		numbers = append(numbers, w.results()...)
	}
	distinct(t, numbers)
}

// TestLocksOfMountsWhoseServersAreKilled: programs of two mounts exclude each other by locks, also
// when the server dies that granted the locks. (If a mount has failed over without reclaiming its
// locks, they are free after the grace period. The heartbeat is the default: see
// TestLocksOfServerThatStaysAway.)
func TestLocksOfMountsWhoseServersAreKilled(t *testing.T) { onEach(t, locksOfKilledServers) }

func locksOfKilledServers(t *testing.T, c *cluster) {
	c.mount("timeo=100", 0, 1)
	c.mount("timeo=100", 1, 0)
	c.file("number", "00000000")
	exclusive(t, c, func(dir string, _ int) *worker { return startWorker(t, "count", filepath.Join(dir, "number")) }, 2, 20)
}

// TestRenamesOfMountsWhoseServersAreKilled: if programs of two mounts rename one file, exactly one
// succeeds, even when a server dies.
func TestRenamesOfMountsWhoseServersAreKilled(t *testing.T) { onEach(t, renamesOfKilledServers) }

func renamesOfKilledServers(t *testing.T, c *cluster) {
	c.mount("timeo=100,actimeo=0", 0, 1)
	c.mount("timeo=100,actimeo=0", 1, 0)
	c.file("number", "00000000")
	c.file("token", "")
	exclusive(t, c, func(dir string, k int) *worker { return startWorker(t, "token", dir, fmt.Sprint(k)) }, killRounds, 20)
}

// TestMetadataRestartedUnderMounts: the metadata service is killed and restarted twice under
// programs of two mounts that write, rename, lock and exchange files. They wait for it without
// errors, and all acknowledged data is present.
func TestMetadataRestartedUnderMounts(t *testing.T) { onEach(t, metadataRestarted) }

func metadataRestarted(t *testing.T, c *cluster) {
	c.mount("timeo=100", 0)
	c.mount("timeo=100", 1)
	c.file("number", "00000000")
	const rounds, each = 2, 20
	names := []string{"records-0", "records-1"}
	var all, counts []*worker
	for i, dir := range c.mounts {
		counts = append(counts, startWorker(t, "count", filepath.Join(dir, "number")))
		all = append(all, startWorker(t, "records", filepath.Join(dir, names[i])))
	}
	all = append(append(all, counts...), startWorker(t, "exchange", c.mounts...))
	for round := range rounds {
		for _, w := range all {
			w.do(each)
		}
		all[round%len(all)].await(round*each + 1 + rand.IntN(each/2))
		c.meta.Kill()
		c.meta.Start()
		for _, w := range all {
			w.await((round + 1) * each)
		}
		for i, name := range names {
			mustRun(t, "written", filepath.Join(c.mounts[1-i], name), strconv.Itoa((round+1)*each))
			c.atServer(c.servers[1-i], name, (round+1)*each)
		}
	}
	var numbers []string
	for _, w := range all {
		w.end()
	}
	for _, w := range counts {
		numbers = append(numbers, w.results()...)
	}
	if n := distinct(t, numbers); n != len(counts)*rounds*each {
		t.Errorf("%d numbers", n)
	}
}
