// The rig of the listing tests: an export in memory with one file of each type.

package listing

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// old is the files' modification time: long enough ago to be shown with its year.
var old = time.Date(2001, time.February, 3, 4, 5, 6, 0, time.Local)

// A rig is a mounted export with its reported errors.
type rig struct {
	t      *testing.T
	url    string
	s      *session.Session
	fsys   *nfsclient.FS
	stderr bytes.Buffer
}

// newRig serves an empty tree in memory over TCP.
func newRig(t *testing.T) *rig {
	t.Helper()
	squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	srv, err := nfsserver.New(nfsserver.Options{Squash: squash, AsyncNames: true, Exports: []nfsserver.Export{
		{Name: "/mem", FS: memfs.New(memfs.Options{UID: squash.UID, GID: squash.GID})},
	}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	service, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("srv.Start: %v", err)
	}
	r := &rig{t: t, url: "nfs://" + service.TCPAddr.String() + "/mem"}
	r.s = &session.Session{Stderr: &r.stderr, Flags: session.Flags{NConnect: 1, CRC: "on", ConnectTimeout: time.Minute}}
	t.Cleanup(func() {
		r.s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		service.Shutdown(ctx)
		srv.Close()
	})
	r.fsys = r.operand("").FS
	return r
}

// operand returns the mounted path below the export.
func (r *rig) operand(path string) session.Operand {
	r.t.Helper()
	o, err := r.s.Operand(r.t.Context(), r.url+path)
	r.must(err)
	return o
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// file makes a file of n bytes with the modification time old plus after.
func (r *rig) file(name string, n int, mode os.FileMode, after time.Duration) {
	r.t.Helper()
	ctx := r.t.Context()
	r.must(r.fsys.WriteFile(ctx, name, make([]byte, n), mode))
	r.must(r.fsys.Chmod(ctx, name, mode))
	r.must(r.fsys.Chtimes(ctx, name, old, old.Add(after)))
}

// tree makes a directory "d" with a file of each type.
func (r *rig) tree() {
	r.t.Helper()
	ctx := r.t.Context()
	r.must(r.fsys.Mkdir(ctx, "d", 0o755))
	r.file("d/b", 100, 0o640, 0)
	r.file("d/a b", 5, 0o755, time.Hour)
	r.file("d/.hidden", 1, 0o600, 2*time.Hour)
	r.must(r.fsys.Mkdir(ctx, "d/sub", 0o750))
	r.file("d/sub/in", 0, 0o644, 0)
	r.must(r.fsys.Chtimes(ctx, "d/sub", old, old.Add(-time.Hour)))
	r.must(r.fsys.Symlink(ctx, "sub", "d/link"))
	r.must(r.fsys.SetAttr(ctx, "d/link", nfs3.Sattr{MtimeHow: nfs3.SetToClientTime, Mtime: nfs3.MakeTime(old.Add(-2 * time.Hour))}, false))
	r.must(r.fsys.Mknod(ctx, "d/pipe", os.ModeNamedPipe|0o600, 0, 0))
	r.must(r.fsys.Chtimes(ctx, "d/pipe", old, old.Add(3*time.Hour)))
}

// ls runs ls on paths below the export and returns its output, with the URL as "URL".
func (r *rig) ls(o Options, paths ...string) (string, error) {
	r.t.Helper()
	var out bytes.Buffer
	run, err := New(r.s, &out, o)
	if err != nil {
		return "", err
	}
	for i, p := range paths {
		paths[i] = r.url + p
	}
	err = run.Run(r.t.Context(), paths)
	return strings.ReplaceAll(out.String(), r.url, "URL"), err
}
