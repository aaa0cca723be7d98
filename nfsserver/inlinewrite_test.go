// WRITEs that their connection's receive loop may run.

package nfsserver_test

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A remoteFS is on no local disk.
type remoteFS struct{ nfsserver.FS }

func (f remoteFS) Info() nfsserver.Info {
	in := f.FS.Info()
	in.Quick = false
	return in
}

// TestShortWrites: a WRITE is short if it has few bytes, needs no disk, and is to a local file in
// use.
func TestShortWrites(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{
		{Name: "/x", FS: memory(t)}, {Name: "/remote", FS: remoteFS{memory(t)}}, {Name: "/disk", FS: disk(t)}}})
	c := h.dial(root)
	here, remote := c.mount("/x").file(c.root, "f", 0o644), c.mount("/remote").file(c.root, "f", 0o644)
	used := c.mount("/disk").file(c.root, "used", 0o644)
	short := h.srv.Programs()[0].Procs[nfs3.ProcWrite].Short
	for _, x := range []struct {
		name string
		args nfs3.WriteArgs
		want bool
	}{
		{"4 KiB", nfs3.WriteArgs{FH: here, Count: 4096}, true},
		{"the longest", nfs3.WriteArgs{FH: here, Count: 16 << 10, Offset: 1 << 40}, true},
		{"longer", nfs3.WriteArgs{FH: here, Count: 16<<10 + 1}, false},
		{"stable", nfs3.WriteArgs{FH: here, Count: 4096, Stable: nfs3.FileSync}, false},
		{"data stable", nfs3.WriteArgs{FH: here, Count: 4096, Stable: nfs3.DataSync}, false},
		{"elsewhere", nfs3.WriteArgs{FH: remote, Count: 4096}, false},
		{"a disk", nfs3.WriteArgs{FH: used, Count: 4096}, true},
	} {
		e := xdr.NewEncoder(nil)
		x.args.Data = make([]byte, x.args.Count)
		x.args.EncodeXDR(e)
		call := transport.Call{Cred: root, Args: xdr.NewDecoder(e.Bytes())}
		got := short(&call)
		// A synced file is closed for a moment; a GETATTR opens it for a while.
		for end := time.Now().Add(time.Minute); x.want && !got && x.args.FH == used && time.Now().Before(end); got = short(&call) {
			c.attr(used)
			call.Args = xdr.NewDecoder(e.Bytes())
		}
		if got != x.want {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
		if string(call.Args.Opaque(nfs3.FHSize)) != string(x.args.FH.Bytes()) {
			t.Errorf("%s: the arguments are not as they were", x.name)
		}
	}
	for n := range 5 {
		call := transport.Call{Cred: root, Args: xdr.NewDecoder(make([]byte, 4*n))}
		if short(&call) {
			t.Errorf("%d bytes of arguments are short", 4*n)
		}
	}
}
