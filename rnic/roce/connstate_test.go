// A killed process's connections, ended by the next one.

package roce

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sys/unix"
)

// files waits until a directory has n files, and returns them.
func files(t *testing.T, dir string, n int) []fs.DirEntry {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		list, err := os.ReadDir(dir)
		if err != nil || time.Now().After(end) {
			t.Fatalf("%d files, want %d: %v", len(list), n, err)
		}
		if len(list) == n && (n == 0 || filepath.Ext(list[0].Name()) == ".json") {
			return list
		}
	}
}

// TestSuccessorEndsConnections: an idle peer, which would not notice that a new process has
// replaced its peer, is disconnected by the new one. The connection file is readable only by its
// owner, and removed with the last connection.
func TestSuccessorEndsConnections(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(victimState, dir)
	a, at, kill := victim(t)
	file := files(t, dir, 1)[0]
	if info, err := file.Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	kill()
	files(t, dir, 1)
	dev := OpenWith(rnic.DeviceConfig{}, Options{State: dir})
	l, err := dev.Listen("udp", at.String())
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	<-a.qp.Done()
	files(t, dir, 0)
}

// TestConnStateFile: an incomplete file, or one with invalid connections, counts as empty.
// Another process's connections stay in it until their peers know.
func TestConnStateFile(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "half": `[{"Peer":"127.0.0.1","I`, "no connection": `[{"Peer":"fd00::1"},{},7]`} {
		_, host := hosts(t)
		dir := t.TempDir()
		path := filepath.Join(dir, "roce-"+host.String()+"-4791.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		l, err := OpenWith(rnic.DeviceConfig{}, Options{State: dir}).Listen("udp", host.String()+":20049")
		if err != nil {
			t.Fatal(name, err)
		}
		l.Close()
		files(t, dir, 0)
	}
	dir := t.TempDir()
	k := connStateFile{path: filepath.Join(dir, "f")}
	one := cm.Former{Peer: machine.Addr(t), ID: 1, RemoteID: 2, LocalQPN: 3, RemoteQPN: 4}
	k.write([]cm.Former{one})
	if list := k.read(); len(list) != 1 || list[0] != one {
		t.Errorf("%+v", list)
	}
	k.write(nil)
	if _, err := os.Stat(k.path); !os.IsNotExist(err) {
		t.Errorf("Stat: %v, want no file", err)
	}
}

// TestConnStateFileReplaced: foreign objects in the files' place are neither waited for, nor
// read, nor written.
func TestConnStateFileReplaced(t *testing.T) {
	dir := t.TempDir()
	k := connStateFile{path: filepath.Join(dir, "f")}
	list := []cm.Former{{Peer: machine.Addr(t), ID: 1, RemoteID: 2, LocalQPN: 3, RemoteQPN: 4}}
	k.write(list)
	other := filepath.Join(dir, "other")
	if err := os.Rename(k.path, other); err != nil {
		t.Fatalf("Rename: %v", err)
	}
	before, err := os.ReadFile(other)
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	for name, put := range map[string]func(path string) error{
		"a FIFO":           func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link":           func(path string) error { return os.Symlink(other, path) },
		"a link to nobody": func(path string) error { return os.Symlink(path, path) },
		"too much": func(path string) error {
			return os.WriteFile(path, append(bytes.Repeat([]byte(" "), maxStateFile), before...), 0o600)
		},
	} {
		for _, path := range []string{k.path, k.path + ".new"} {
			if err := put(path); err != nil {
				t.Fatal(name, err)
			}
		}
		read := make(chan []cm.Former, 1)
		go func() { read <- k.read() }()
		select {
		case got := <-read:
			if got != nil {
				t.Errorf("%s is read: %+v", name, got)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is waited for", name)
		}
		k.write(list)
		if got := k.read(); len(got) != 1 || got[0] != list[0] {
			t.Errorf("%s: then %+v is read", name, got)
		}
		if after, err := os.ReadFile(other); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s is written to: %q, %v", name, after, err)
		}
		k.write(nil)
	}
}

// TestConnStateWriteRate: a change after a pause is written at once, and other changes later,
// together. At the end they are written immediately. Nothing is written twice.
func TestConnStateWriteRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newConnStateFile(filepath.Join(t.TempDir(), "f"))
		go k.loop()
		change := func(id uint32) {
			k.mu.Lock()
			k.conns[new(cm.Conn)] = cm.Former{ID: id}
			k.mu.Unlock()
			k.changed()
			synctest.Wait()
		}
		want := func(when string, n int) {
			t.Helper()
			if list := k.read(); len(list) != n {
				t.Errorf("%s %d connections are in the file, want %d", when, len(list), n)
			}
		}
		change(1)
		want("first", 1)
		change(2)
		change(3)
		want("at once", 1)
		time.Sleep(minStatePause)
		synctest.Wait()
		want("after a while", 3)
		change(4)
		k.end()
		want("at the end", 4)

		k = newConnStateFile(k.path)
		go k.loop()
		change(5)
		want("then", 1)
		(&connStateFile{path: k.path}).write([]cm.Former{{ID: 6}, {ID: 7}})
		k.end()
		want("of the next process", 2)
	})
}
