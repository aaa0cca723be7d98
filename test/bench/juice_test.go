// Tests for the measurement groups on JuiceFS. They need no volume: figures from processes, Redis
// and perf, the work on a directory, and calls to our own server.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestCPUTime: after 20 ms of work this process's figure is at least 10 ms larger. An ended process
// has none.
func TestCPUTime(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatalf("cpuTime: %v", err)
	}
	var start, now unix.Rusage
	for used := time.Duration(0); used < 20*time.Millisecond; used = time.Duration(now.Utime.Nano() + now.Stime.Nano() - start.Utime.Nano() - start.Stime.Nano()) {
		if start.Maxrss == 0 {
			err = unix.Getrusage(unix.RUSAGE_SELF, &start)
		}
		if e := unix.Getrusage(unix.RUSAGE_SELF, &now); err != nil || e != nil {
			t.Fatal(err, e)
		}
	}
	after, err := cpuTime(os.Getpid())
	if err != nil || after-before < 10e3 || before <= 0 {
		t.Errorf("%v µs, then %v, %v", before, after, err)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatalf("cmd.Run: %v", err)
	}
	if v, err := cpuTime(cmd.Process.Pid); err == nil {
		t.Errorf("%v µs of a process that has gone", v)
	}
}

func TestInfo(t *testing.T) {
	const info = "# Memory\r\nused_memory:1000\r\nused_memory_human:1K\r\n# Commandstats\r\ncmdstat_get:calls=7,usec=9\r\ncmdstat_info:calls=100,usec=1\r\ncmdstat_config|get:calls=3,usec=1\r\n"
	commands, memory, ok := parseInfo(info)
	if !ok || commands != 10 || memory != 1000 {
		t.Errorf("%v %v %v", commands, memory, ok)
	}
	if _, _, ok := parseInfo("-NOAUTH"); ok {
		t.Error("a refusal is taken")
	}
}

func TestPerf(t *testing.T) {
	const script = `
	ffffffff81 tcp_sendmsg
	    4a1b2c syscall.write
	    4b1b2c github.com/redis/go-redis/v9.(*Client).process
	    4c1b2c github.com/juicedata/juicefs/pkg/meta.(*redisMeta).doGetAttr
	    4d1b2c github.com/nfsrdma/nfsrdma/nfsserver/juicefs.(*FS).Getattr

	    4c1b2c github.com/juicedata/juicefs/pkg/meta.(*baseMeta).GetAttr
	    4d1b2c github.com/nfsrdma/nfsrdma/nfsserver/juicefs.(*FS).Getattr

	    4d1b2c runtime.memmove
	    4d1b2d github.com/nfsrdma/nfsrdma/rnic/iwarp.(*QP).send

	    4d1b2c runtime.findRunnable
	    4d1b2d runtime.mcall

	    4d1b2e github.com/nfsrdma/nfsrdma/nfsserver.getattr
`
	counts, err := parsePerf(strings.NewReader(script))
	if err != nil || len(counts) != len(owners) {
		t.Fatalf("%v, %v", counts, err)
	}
	for _, o := range owners {
		if counts[o.key] != 1 {
			t.Errorf("%s: %d samples", o.key, counts[o.key])
		}
	}
}

// TestWorks: each kind of work does its work once.
func TestWorks(t *testing.T) {
	dir := t.TempDir()
	small := filepath.Join(dir, "small")
	must.Succeed(t, os.Mkdir(small, 0o755))
	for _, c := range []struct {
		kind, dir string
		n         string
		count     float64
		left      int // names in small
	}{
		{"write", dir, "0", fileSize >> 20, 0}, {"read", dir, "0", fileSize >> 20, 0},
		{"touch", small, "20", 20, 20}, {"stat", small, "20", 20, 20}, {"list", small, "20", 20, 20}, {"walk", small, "20", 20, 20},
		{"remove", small, "20", 20, 0}, {"create", small, "20", 20, 20},
	} {
		var out bytes.Buffer
		if err := load([]string{"_work", c.kind, c.dir, c.n, "3"}, nil, &out); err != nil {
			t.Fatalf("load: %v", err)
		}
		var d done
		if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Count != c.count || d.Seconds <= 0 {
			t.Errorf("%s: %s, %v", c.kind, &out, err)
		}
		if names, err := os.ReadDir(small); err != nil || len(names) != c.left {
			t.Errorf("%s: %d names left, %v", c.kind, len(names), err)
		}
	}
	for _, kind := range []string{"create", "list", "walk"} { // 20 names, not 10 or none
		if err := load([]string{"_work", kind, small, "10", "1"}, nil, io.Discard); err == nil {
			t.Errorf("%s is content with another directory", kind)
		}
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, fileSize), 0o644))
	if _, err := readLarge(dir, 0, 1); err == nil || !strings.Contains(err.Error(), "is wrong") {
		t.Errorf("other bytes are read: %v", err)
	}
	if n, err := bytesBelow(dir); err != nil || n != fileSize+20*workSmall {
		t.Errorf("%v bytes, %v", n, err)
	}
}

// TestAgain: an interrupted call is repeated. The given error then means success, because the
// interrupted attempt may have succeeded.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		answers []error
		want    error
	}{
		{[]error{nil}, nil},
		{[]error{unix.EINTR, unix.EINTR, nil}, nil},
		{[]error{unix.EINTR, unix.EEXIST}, nil},
		{[]error{unix.EEXIST}, unix.EEXIST},
		{[]error{unix.EINTR, unix.EIO}, unix.EIO},
	} {
		left := c.answers
		err := retryInterrupted(func() error {
			err := left[0]
			left = left[1:]
			return err
		}, unix.EEXIST)
		if !errors.Is(err, c.want) || len(left) > 0 {
			t.Errorf("%v: %v with %v left", c.answers, err, left)
		}
	}
}

// testCalls makes calls of each kind, which leave the directory as it was.
func testCalls(t *testing.T, b *bed) {
	dir := filepath.Join(b.served, "calls")
	must.Succeed(t, os.Mkdir(dir, 0o777))
	defer os.RemoveAll(dir)
	must.Succeed(t, os.Chmod(dir, 0o777))
	for _, k := range callKinds {
		var out bytes.Buffer
		if err := load([]string{"_calls", k.name, "70", "4", b.ours.url("nfsrdma", "calls")}, strings.NewReader("\n"), &out); err != nil {
			t.Fatalf("load: %v", err)
		}
		first, rest, _ := strings.Cut(out.String(), "\n")
		var d done
		if err := json.Unmarshal([]byte(rest), &d); err != nil || first != "ready" || d.Count != 70 || d.Seconds <= 0 {
			t.Errorf("%s: %s, %v", k.name, &out, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
	if err := load([]string{"_calls", "GETATTR", "1", "1", b.ours.url("nfsrdma", "calls")}, strings.NewReader("\n"), io.Discard); err == nil {
		t.Error("calls about files that are not there")
	}
	if _, err := b.volumeOf(t.Context()); err == nil && !isolated() {
		t.Error("a volume is made outside of namespaces")
	}
}

// TestJuiceRows: each key has one row and begins with its group's name. The groups are measured
// only if they are named.
func TestJuiceRows(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range extraGroups {
		if !strings.HasPrefix(g.name, "juicefs") || len(g.rows) == 0 {
			t.Errorf("%s has %d rows", g.name, len(g.rows))
		}
		for _, r := range g.rows {
			if seen[r.value] || !strings.HasPrefix(r.value, g.name+"/") || r.unit == "" {
				t.Errorf("%s: %+v", g.name, r)
			}
			seen[r.value] = true
		}
	}
	c := config{rows: "juicefs-calls"}
	if chosen, err := c.settle(); err != nil || len(chosen) != 1 || chosen[0].name != "juicefs-calls" {
		t.Errorf("%v, %v", chosen, err)
	}
}

// TestPlantedTree: a dump has the requested tree, as JSON, with an inode number for each entry.
func TestPlantedTree(t *testing.T) {
	const empty = `{"FSTree": {"attr": {"inode":1}, "entries": {
    }}, "Trash": {"entries": {
    }}}`
	text, err := plantTree([]byte(empty), 2, 3)
	if err != nil {
		t.Fatalf("plantTree: %v", err)
	}
	type object struct {
		Attr    struct{ Inode int }
		Entries map[string]object
	}
	var dump struct{ FSTree, Trash object }
	if err := json.Unmarshal(text, &dump); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	inodes, files := map[int]bool{}, 0
	var walk func(o object)
	walk = func(o object) {
		inodes[o.Attr.Inode] = true
		if o.Entries == nil {
			files++
		}
		for _, below := range o.Entries {
			walk(below)
		}
	}
	walk(dump.FSTree)
	if tree := dump.FSTree.Entries["tree"]; len(tree.Entries) != 2 || files != 2*3 || len(inodes) != 1+1+2+2*3 || len(dump.Trash.Entries) > 0 {
		t.Errorf("%s", text)
	}
	if _, err := plantTree([]byte("{}"), 1, 1); err == nil {
		t.Error("what is no dump is taken")
	}
}
