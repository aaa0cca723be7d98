// Connections of a process that is killed, which the next one ends.

package roce

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/test/machine"
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

// TestSuccessorEndsConnections: a peer that sends nothing, and so would not notice that the process at the other end is another one now,
// is told so by that; and the file of connections is only for its owner, and goes with the last of them.
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
		t.Fatal(err)
	}
	defer l.Close()
	<-a.qp.Done()
	files(t, dir, 0)
}

// TestKeptConnections: a file that is not whole, or that holds what can be no connection, is as none; what another process has left stays
// in it until its peer knows.
func TestKeptConnections(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "half": `[{"Peer":"127.0.0.1","I`, "no connection": `[{"Peer":"fd00::1"},{},7]`} {
		_, host := hosts(t)
		dir := t.TempDir()
		path := filepath.Join(dir, "roce-"+host.String()+"-4791.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OpenWith(rnic.DeviceConfig{}, Options{State: dir}).Listen("udp", host.String()+":20049")
		if err != nil {
			t.Fatal(name, err)
		}
		l.Close()
		files(t, dir, 0)
	}
	dir := t.TempDir()
	k := kept{path: filepath.Join(dir, "f")}
	one := cm.Former{Peer: machine.Addr(t), ID: 1, RemoteID: 2, LocalQPN: 3, RemoteQPN: 4}
	k.write([]cm.Former{one})
	if list := k.read(); len(list) != 1 || list[0] != one {
		t.Errorf("%+v", list)
	}
	k.write(nil)
	if _, err := os.Stat(k.path); !os.IsNotExist(err) {
		t.Error(err)
	}
}
