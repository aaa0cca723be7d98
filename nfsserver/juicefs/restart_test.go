// Data that Sync has acknowledged survives when the process is killed, and so do Refs.

package juicefs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
)

// killedDir is the environment variable that makes the test binary the process to be killed.
const killedDir = "NFSRDMA_JUICEFS_KILLED"

// TestMain runs the writer in the process that TestKilled starts.
func TestMain(m *testing.M) {
	objectTimeout = 10 * time.Minute
	if dir := os.Getenv(killedDir); dir != "" {
		if err := writeForEver(dir); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	rc := m.Run()
	juicefstest.Done()
	os.Exit(rc)
}

// contentOf returns the content of file i: up to 300 kB, at an offset.
func contentOf(i int) (b []byte, off uint64) {
	rnd := rand.New(rand.NewSource(int64(i)))
	b = make([]byte, 1+rnd.Intn(300000))
	rnd.Read(b)
	return b, uint64(rnd.Intn(100000))
}

// writeForEver makes files and overwrites one of them, and prints a line for each Sync that
// succeeds.
func writeForEver(dir string) error {
	l := Local{Dir: dir, UID: me.UID, GID: me.GID}
	url, err := l.Make()
	if err != nil {
		return err
	}
	f, err := Open(Options{Meta: url})
	if err != nil {
		return err
	}
	counter, _, err := f.Create(me, f.Root(), "counter", &nfsserver.SetAttr{})
	for i := 0; err == nil; i++ {
		err = f.writeOne(counter, i)
		if err == nil {
			fmt.Println("synced", i)
		}
	}
	return err
}

func (f *FS) writeOne(counter nfsserver.Ref, i int) error {
	r, _, err := f.Create(me, f.Root(), fmt.Sprint("f", i), &nfsserver.SetAttr{})
	if err != nil {
		return err
	}
	b, off := contentOf(i)
	half := len(b) / 2
	if _, err := f.WriteAt(me, r, b[half:], off+uint64(half)); err != nil {
		return err
	}
	if _, err := f.WriteAt(me, r, b[:half], off); err != nil {
		return err
	}
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(i))
	if _, err := f.WriteAt(me, counter, n[:], 0); err != nil {
		return err
	}
	for _, o := range []nfsserver.Ref{r, counter, f.Root()} {
		if err := f.Sync(o, false); err != nil {
			return err
		}
	}
	return nil
}

func TestKilled(t *testing.T) {
	dir := t.TempDir() // on a disk, if TMPDIR is
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	last := -1
	for lines := bufio.NewScanner(out); last < 20 && lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "synced %d", &last); err != nil {
			t.Errorf("the writer says %q", lines.Text())
			break
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if last < 20 {
		t.Fatalf("the writer ended after file %d", last)
	}
	f := reopen(t, Local{Dir: dir})
	defer closeFS(t, f)
	for i := range last + 1 {
		want, off := contentOf(i)
		r, a, err := f.Lookup(me, f.Root(), fmt.Sprint("f", i))
		if err != nil || a.Size != off+uint64(len(want)) {
			t.Errorf("file %d: %d bytes, want %d, and %v", i, a.Size, off+uint64(len(want)), err)
			continue
		}
		got := make([]byte, len(want))
		if n, err := f.ReadAt(me, r, got, off); n != len(want) || err != nil {
			t.Errorf("file %d: read %d of %d bytes, %v", i, n, len(want), err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("file %d: other bytes than those written", i)
		}
	}
	counter, _, err := f.Lookup(me, f.Root(), "counter")
	var n [8]byte
	if err == nil {
		_, err = f.ReadAt(me, counter, n[:], 0)
	}
	if v := binary.BigEndian.Uint64(n[:]); err != nil || int(v) < last {
		t.Errorf("the counter is %d, %v, after %d was acknowledged", v, err, last)
	}
}

func closeFS(t *testing.T, f *FS) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestRefsOutliveRestart: Refs are the same after a restart, and stale Refs stay stale. Refs of
// another volume are stale.
func TestRefsOutliveRestart(t *testing.T) {
	l := Local{Dir: newDir(t), UID: me.UID, GID: me.GID}
	f := reopen(t, l)
	root := f.Root()
	r, a := create(t, f, root, "f")
	gone, _ := create(t, f, root, "gone")
	if err := f.Remove(me, root, "gone"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	closeFS(t, f)

	f = reopen(t, l)
	if f.Root() != root {
		t.Error("the root has another Ref")
	}
	if b, err := f.Getattr(r); err != nil || b != a {
		t.Errorf("after the restart %+v, %v, want %+v", b, err, a)
	}
	n, _ := create(t, f, root, "gone")
	if _, err := f.Getattr(gone); !errors.Is(err, nfsserver.ErrStale) || n == gone {
		t.Errorf("a Ref of a file that is gone: %v", err)
	}
	other := nfsserver.TypeDir
	ino, _, _ := f.parse(&r)
	if _, err := f.Getattr(f.ref(ino, other)); !errors.Is(err, nfsserver.ErrStale) {
		t.Errorf("a Ref of a number that is of another type now: %v", err)
	}
	closeFS(t, f)

	f = openNew(t, Local{})
	defer closeFS(t, f)
	if _, err := f.Getattr(root); !errors.Is(err, nfsserver.ErrStale) {
		t.Errorf("a Ref of another volume: %v", err)
	}
}

func create(t *testing.T, f *FS, dir nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr) {
	t.Helper()
	r, a, err := f.Create(me, dir, name, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o644})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return r, a
}

// TestOpenTwice: only one process can open a volume in a directory, and the error says so.
func TestOpenTwice(t *testing.T) {
	l := Local{Dir: newDir(t)}
	f := reopen(t, l)
	defer closeFS(t, f)
	if _, err := l.Make(); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Errorf("the second opening: %v", err)
	}
	for _, url := range []string{"/srv/meta", "memkv://x", "nosuch://host/1"} {
		if _, err := Open(Options{Meta: url}); err == nil {
			t.Errorf("%s could be opened", url)
		}
	}
}

// TestCloseAfterRemoval: JuiceFS's work on a removed file's data has ended when Badger is closed.
func TestCloseAfterRemoval(t *testing.T) {
	f := openNew(t, Local{})
	r, _ := create(t, f, f.Root(), "f")
	const chunks = 400 // removing each takes a transaction
	for i := range uint64(chunks) {
		put(t, f, r, []byte("data"), i*meta.ChunkSize)
	}
	commit(t, f, r)
	if err := f.Remove(me, f.Root(), "f"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	closeFS(t, f)
	if n := f.work.count(); n > 0 {
		t.Errorf("%d goroutines go on", n)
	}
}

// TestObjectsInMemory: a volume whose contents are only in memory is refused.
func TestObjectsInMemory(t *testing.T) {
	url := "badger://" + newDir(t)
	m, err := connect(url, meta.DefaultConf())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	err = m.Init(&meta.Format{Name: "local", UUID: "u", Storage: "mem", Bucket: "b/", BlockSize: blockKiB, MetaVersion: meta.MaxVersion}, false)
	if e := m.Shutdown(); err != nil || e != nil {
		t.Fatal(err, e)
	}
	if f, err := Open(Options{Meta: url}); err == nil {
		closeFS(t, f)
		t.Error("it could be opened")
	} else if !strings.Contains(err.Error(), "memory") {
		t.Error(err)
	}
}
