// Records as written; a full queue, a full disk, and a replaced file.

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	logrus.SetLevel(logrus.PanicLevel) // hides log lines about the failures that tests provoke
	os.Exit(m.Run())
}

func handle(t testing.TB, s string) nfs3.FH {
	t.Helper()
	fh, err := nfs3.MakeFH([]byte(s))
	if err != nil {
		t.Fatalf("MakeFH: %v", err)
	}
	return fh
}

// sample returns a CREATE in the root of an export.
func sample(t testing.TB, name string) *nfsserver.Change {
	root := handle(t, "root")
	how := nfs3.Guarded
	return &nfsserver.Change{Time: time.Unix(1e9, 5), Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700}, Named: true, Acted: true, ActsUID: 65534, ActsGID: 65534,
		Operation: "CREATE", Export: "/x", Root: root, At: nfsserver.Place{FH: root, Name: []byte(name), Fileid: 2}, Fileid: 7, How: &how,
		Attr: &nfs3.Sattr{SetMode: true, Mode: 0o640, SetUID: true, UID: 1, SetGID: true, GID: 2, SetSize: true, Size: 1 << 40,
			AtimeHow: nfs3.SetToServerTime, MtimeHow: nfs3.SetToClientTime, Mtime: nfs3.Time{Sec: 12, Nsec: 34}}}
}

// TestLines: the JSON lines of complete records have the expected text.
func TestLines(t *testing.T) {
	where := `"time":"2001-09-09T01:46:40.000000005Z","client":"192.0.2.1","port":700,"transport":"tcp","uid":0,"gid":0,"as_uid":65534,"as_gid":65534`
	rename := sample(t, "a")
	rename.Operation, rename.How, rename.Attr, rename.Fileid, rename.RDMA, rename.Acted, rename.Named = "RENAME", nil, nil, 0, true, false, false
	rename.To, rename.Status = nfsserver.Place{FH: handle(t, "dir"), Name: []byte("b")}, nfs3.ErrNoEnt
	acl := sample(t, "")
	acl.Operation, acl.How, acl.Attr, acl.At.Name, acl.Root = "SETACL", nil, nil, nil, nfs3.FH{}
	acl.ACLs = &nfsacl3.ACLs{Mask: nfsacl3.MaskAccess | nfsacl3.MaskDefault, Access: []nfsacl3.Entry{{Tag: nfsacl3.TagUserObj, Perm: 7, ID: 3}, {Tag: nfsacl3.TagUser, Perm: 5, ID: 3}}}
	node := sample(t, "")
	node.Operation, node.How, node.Attr, node.Type, node.Rdev, node.Target = "MKNOD", nil, nil, nfs3.TypeChr, nfs3.Specdata{Major: 1, Minor: 3}, []byte("to")
	for want, c := range map[string]*nfsserver.Change{
		`{` + where + `,"op":"CREATE","export":"/x","path":"/x/n","dir":"726f6f74","dir_fileid":2,"name":"n","fileid":7,"how":"GUARDED","mode":"0640","owner":1,"group":2,"size":1099511627776,"atime":"now","mtime":"12.000000034","result":"NFS3_OK"}`: sample(t, "n"),
		`{"time":"2001-09-09T01:46:40.000000005Z","client":"192.0.2.1","port":700,"transport":"rdma","op":"RENAME","export":"/x","path":"/x/a","dir":"726f6f74","dir_fileid":2,"name":"a","to_dir":"646972","to_name":"b","result":"NFS3ERR_NOENT"}`:     rename,
		`{` + where + `,"op":"SETACL","export":"/x","fh":"726f6f74","fileid":7,"acl":"user::rwx,user:3:r-x","default_acl":"","result":"NFS3_OK"}`:                                                                                                        acl,
		`{` + where + `,"op":"MKNOD","export":"/x","path":"/x/","dir":"726f6f74","dir_fileid":2,"name":"","fileid":7,"type":"NF3CHR","major":1,"minor":3,"target":"to","result":"NFS3_OK"}`:                                                              node,
	} {
		if got := string(appendChange(nil, c)); got != want+"\n" {
			t.Errorf("got\n%s want\n%s", got, want)
		}
		if got := appendChange(nil, c); !json.Valid(got) {
			t.Errorf("no JSON: %s", got)
		}
	}
}

// FuzzNames: each name becomes one line of JSON without control characters, and can be recovered.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "plain", "caf\xe9", `\xe9`, `\`, "\xff\xfe\\", "\n\"\x00\x1b[2J", "\u0085\u009b", "ä\u2028\ufffd", "\xed\xa0\x80", "\xf0\x9f\x92"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, name []byte) {
		b := appendChange(nil, &nfsserver.Change{At: nfsserver.Place{Name: append([]byte{}, name...)}})
		for _, r := range string(b[:len(b)-1]) {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q has %q", b, r)
			}
		}
		var got struct{ Name string }
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if back := unescape(t, got.Name); !bytes.Equal(back, name) {
			t.Fatalf("%q came back as %q", name, back)
		}
	})
}

// unescape reverses the documented escapes of names.
func unescape(t *testing.T, s string) (b []byte) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			b = append(b, s[i])
		case i+1 < len(s) && s[i+1] == '\\':
			b = append(b, '\\')
			i++
		default:
			var c byte
			if _, err := fmt.Sscanf(s[i:i+4], `\x%02x`, &c); err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			b = append(b, c)
			i += 3
		}
	}
	return b
}

// A disk is a sink that can be full or slow.
type disk struct {
	mu   sync.Mutex
	data []byte
	room int           // bytes; -1: unlimited
	slow chan struct{} // not nil: writes wait until it is closed
}

func (d *disk) Write(b []byte) (int, error) {
	if d.slow != nil {
		<-d.slow
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(b)
	if d.room >= 0 {
		n = min(n, d.room)
		d.room -= n
	}
	d.data = append(d.data, b[:n]...)
	if n < len(b) {
		return n, unix.ENOSPC
	}
	return n, nil
}

func (d *disk) Sync() error  { return nil }
func (d *disk) Close() error { return nil }

func end(t *testing.T, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("l.Close: %v", err)
	}
}

// numbers returns the names of the records in data, in order, and how many records were lost.
func numbers(t *testing.T, data []byte) (names []int, lost int) {
	t.Helper()
	for line := range bytes.Lines(data) {
		var r struct {
			Op, Name string
			Records  int
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if r.Op == "LOST" {
			lost += r.Records
			continue
		}
		n, err := strconv.Atoi(r.Name)
		if err != nil {
			t.Fatalf("strconv.Atoi: %v", err)
		}
		if n != len(names)+lost {
			t.Fatalf("record %d comes after %d and %d that are lost", n, len(names), lost)
		}
		names = append(names, n)
	}
	return names, lost
}

// TestFullQueueIsCounted: while the disk does not respond, records that find the queue full are
// dropped. One record with their number replaces them.
func TestFullQueueIsCounted(t *testing.T) {
	d := &disk{room: -1, slow: make(chan struct{})}
	l := start("x", d, 4096)
	const n = 200
	for i := range n {
		// lengths alternate, because a short record might fit where a long one does not
		l.Change(sample(t, fmt.Sprintf("%0*d", 1+i%2*2000, i)))
	}
	l.mu.Lock() // the writer may take the first records only now
	queued := len(l.pending)
	l.mu.Unlock()
	if queued > 4096 {
		t.Errorf("%d bytes in the queue", queued)
	}
	close(d.slow)
	// wait until the record about the loss is written too
	for begin := time.Now(); l.waiting.Load() > 0; {
		if time.Since(begin) > time.Minute {
			t.Fatal("nothing is written")
		}
		time.Sleep(time.Millisecond)
	}
	for i := n; i < n+3; i++ {
		l.Change(sample(t, fmt.Sprint(i)))
	}
	end(t, l)
	if names, lost := numbers(t, d.data); lost == 0 || len(names)+lost != n+3 {
		t.Errorf("%d records, %d lost, of %d", len(names), lost, n+3)
	}
}

// TestFullDiskTearsNoLine: when a full disk has room again, writing continues where it ended.
func TestFullDiskTearsNoLine(t *testing.T) {
	d := &disk{room: 1000}
	l := start("x", d, queueSize)
	for i := range 10 {
		l.Change(sample(t, fmt.Sprint(i)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	d.mu.Lock()
	d.room = -1
	d.mu.Unlock()
	end(t, l)
	if names, lost := numbers(t, d.data); len(names) != 10 || lost != 0 {
		t.Errorf("%d records, %d lost", len(names), lost)
	}
}

// TestCloseSaysWhatIsNotWritten: a disk that stays full does not prevent the end of the server.
func TestCloseSaysWhatIsNotWritten(t *testing.T) {
	l := start("x", &disk{}, queueSize)
	for range 3 {
		l.Change(sample(t, "n"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); err == nil || !strings.Contains(err.Error(), "records that are not written: 3") {
		t.Errorf("l.Close: %v, want %q", err, "records that are not written: 3")
	}
	<-l.done
}

// TestRotationUnderLoad: the file is renamed and reopened while records arrive; no record is lost.
func TestRotationUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l, err := Open(path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	l.reopenWait = time.Minute // a shared disk may be slow
	const n = 20000
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range n {
			l.Change(sample(t, fmt.Sprint(i)))
			for i%1000 == 0 && l.waiting.Load() > 0 {
				// the pause leaves time for rotations, and keeps the queue from filling
				time.Sleep(time.Millisecond)
			}
		}
	}()
	var files []string
	for i := range 5 {
		files = append(files, fmt.Sprint(path, i))
		must.Succeed(t, os.Rename(path, files[i]))
		if err := l.Reopen(); err != nil {
			t.Fatalf("Reopen: %v", err)
		}
		if err := l.Reopen(); err != nil { // path is still the same file, so nothing changes
			t.Fatalf("Reopen: %v", err)
		}
	}
	<-sent
	end(t, l)
	var all []byte
	for _, f := range append(files, path) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		if len(b) > 0 && b[len(b)-1] != '\n' {
			t.Errorf("%s ends in a line", f)
		}
		all = append(all, b...)
	}
	if names, lost := numbers(t, all); len(names)+lost != n || lost > 0 {
		t.Errorf("%d records, %d lost, of %d", len(names), lost, n)
	}
}

// TestFullDiskIsReplaced: a line that is incomplete on the full disk is complete in the new file.
func TestFullDiskIsReplaced(t *testing.T) {
	d := &disk{room: 1000}
	path := filepath.Join(t.TempDir(), "audit")
	l := start(path, d, queueSize)
	l.reopenWait = time.Minute
	for i := range 10 {
		l.Change(sample(t, fmt.Sprint(i)))
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		full := d.room == 0
		d.mu.Unlock()
		if full {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("nothing is written")
		}
	}
	if err := l.Reopen(); err != nil {
		t.Fatalf("Reopen: %v", err)
	}
	end(t, l)
	more, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	whole := d.data[:bytes.LastIndexByte(d.data, '\n')+1]
	if names, lost := numbers(t, append(whole, more...)); len(names) != 10 || lost != 0 {
		t.Errorf("%d records, %d lost", len(names), lost)
	}
}

// TestOpen: the mode, an incomplete line, and refused files.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit")
	must.Succeed(t, os.WriteFile(path, []byte("{}\n{\"cut"), 0o600))
	l, err := Open(path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	l.reopenWait = time.Minute
	l.Change(sample(t, "0"))
	must.Succeed(t, os.Rename(path, path+".1"))
	must.Succeed(t, os.Symlink("elsewhere", path))
	if err := l.Reopen(); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("Reopen: %v", err)
	}
	l.Change(sample(t, "1"))
	end(t, l)
	b, err := os.ReadFile(path + ".1")
	rest, found := bytes.CutPrefix(b, []byte("{}\n{\"cut\n"))
	if names, _ := numbers(t, rest); err != nil || !found || len(names) != 2 {
		t.Errorf("%v: %s", err, b)
	}
	if l, err = Open(path + ".new"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	end(t, l)
	if info, err := os.Stat(path + ".new"); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must.Succeed(t, unix.Mkfifo(path+".fifo", 0o600))
	for name, want := range map[string]string{path: "symbolic link", path + ".fifo": "not a regular file", dir: "is a directory", dir + "/not/there": "cannot be opened: make its directory first, with mkdir -p -m 700", "/dev/full": "not a regular file"} {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the target of the symbolic link was made")
	}
}

// BenchmarkChange measures how long a record delays the call. The writer's CPU time is excluded if
// there is another CPU.
func BenchmarkChange(b *testing.B) {
	l := start("x", devNull{}, queueSize)
	c := sample(b, "a name of the usual length")
	b.ReportAllocs()
	for b.Loop() {
		l.Change(c)
	}
}

// A devNull is a disk that is never slow.
type devNull struct{}

func (devNull) Write(b []byte) (int, error) { return len(b), nil }
func (devNull) Sync() error                 { return nil }
func (devNull) Close() error                { return nil }
