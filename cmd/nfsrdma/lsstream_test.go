// Listings of directories with any number of names: output keeps up with the server, and memory use
// stays bounded.

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/listing"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// hugeNames is the number of names in serveHuge's directory, and hugePage the number in each page.
const hugeNames, hugePage = 30000, 500

// serveHuge serves a directory of invented files. For each page that a client requests, it calls
// asked with the number of names listed before.
func serveHuge(t *testing.T, asked func(listed int)) string {
	t.Helper()
	squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	srv, err := nfsserver.New(nfsserver.Options{Squash: squash, Exports: []nfsserver.Export{
		{Name: "/mem", FS: memfs.New(memfs.Options{UID: squash.UID, GID: squash.GID})}}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { srv.Close() })
	list := slices.Clone(srv.Programs())
	for i, p := range list {
		if p.Number != nfs3.Program {
			continue
		}
		changed := *p
		changed.Procs = slices.Clone(p.Procs)
		changed.Procs[nfs3.ProcReaddir].Run = func(c *transport.Call) error {
			var args nfs3.ReaddirArgs
			args.DecodeXDR(c.Args)
			res := &nfs3.ReaddirRes{EOF: args.Cookie+hugePage >= hugeNames}
			asked(int(args.Cookie))
			for n := args.Cookie; n < min(args.Cookie+hugePage, hugeNames); n++ {
				res.Entries = append(res.Entries, nfs3.Entry{Fileid: n + 2, Name: fmt.Appendf(nil, "name-%08d", n), Cookie: n + 1})
			}
			res.EncodeXDR(c.Res)
			return nil
		}
		changed.Procs[nfs3.ProcReaddirplus].Run = func(c *transport.Call) error {
			var args nfs3.ReaddirplusArgs
			args.DecodeXDR(c.Args)
			res := &nfs3.ReaddirplusRes{EOF: args.Cookie+hugePage >= hugeNames}
			asked(int(args.Cookie))
			for n := args.Cookie; n < min(args.Cookie+hugePage, hugeNames); n++ {
				fh, _ := nfs3.MakeFH(fmt.Appendf(nil, "handle-%08d", n))
				res.Entries = append(res.Entries, nfs3.EntryPlus{Fileid: n + 2, Name: fmt.Appendf(nil, "name-%08d", n), Cookie: n + 1,
					Attr: nfs3.PostOpAttr{Present: true, Attr: nfs3.Fattr{Type: nfs3.TypeReg, Mode: 0o644, Nlink: 1, Size: n, Fileid: n + 2}},
					FH:   nfs3.PostOpFH{Present: true, FH: fh}})
			}
			res.EncodeXDR(c.Res)
			return nil
		}
		list[i] = &changed
	}
	_, tcp := servePrograms(t, list...)
	return tcp + "/mem"
}

// A lineCounter counts the lines written to it.
type lineCounter struct {
	lines atomic.Int64
	last  []byte
}

func (l *lineCounter) Write(p []byte) (int, error) {
	l.lines.Add(int64(bytes.Count(p, []byte("\n"))))
	l.last = append(l.last[:0], p[max(0, len(p)-100):]...)
	return len(p), nil
}

// TestUnsortedListingsKeepUp: when a page is requested, all earlier names but a bounded number have
// been written, in each mode that needs no sorting.
func TestUnsortedListingsKeepUp(t *testing.T) {
	var out atomic.Pointer[lineCounter] // read by the server's goroutines
	var most atomic.Int64
	url := serveHuge(t, func(listed int) {
		if behind := int64(listed) - out.Load().lines.Load(); behind > most.Load() {
			most.Store(behind)
		}
	})
	const bound = 4096 /* rows of a batch */ + hugePage + 64<<10/len("name-00000000\n")
	for _, flags := range []string{"-U", "-lU", "-aU", "-iU", "-FU", "-lhiU", "-U0", "--json -U"} {
		out.Store(&lineCounter{})
		most.Store(0)
		args := append(append([]string{"ls"}, strings.Fields(flags)...), url)
		if flags == "-U0" {
			most.Store(-1 << 40) // its lines end in zero bytes, so only the exit status counts
		}
		if code := run(t.Context(), args, strings.NewReader(""), out.Load(), io.Discard); code != 0 {
			t.Fatalf("ls %s: exit status %d", flags, code)
		}
		if flags != "-U0" && (int(most.Load()) > bound || out.Load().lines.Load() < hugeNames) {
			t.Errorf("ls %s: %d names were kept at once, want at most %d; %d lines", flags, most.Load(), bound, out.Load().lines.Load())
		}
	}
}

// Names with newlines and invalid text are distinguishable in each machine format.
func TestNamesOfAnyBytesCanBeScripted(t *testing.T) {
	dir := t.TempDir()
	_, base := serveDir(t, dir)
	odd := []string{"new\nline", "\xff\xfe", "sp ace", "quo'te", "\x1b[31m"}
	for _, n := range odd {
		must.Succeed(t, os.WriteFile(dir+"/"+n, nil, 0o600))
	}
	slices.Sort(odd)
	if got := strings.Split(strings.TrimSuffix(nfs(t, "ls", "--zero", base+"/dir"), "\x00"), "\x00"); !slices.Equal(got, odd) {
		t.Errorf("--zero: %q", got)
	}
	if got := strings.Split(strings.TrimSuffix(nfs(t, "ls", "-0", base+"/dir"), "\x00"), "\x00"); !slices.Equal(got, odd) {
		t.Errorf("-0: %q", got)
	}
	var list []listing.Object
	if err := json.Unmarshal([]byte(nfs(t, "ls", "--json", base+"/dir")), &list); err != nil || len(list) != len(odd) {
		t.Fatalf("--json: %v, %d objects", err, len(list))
	}
	for i, o := range list {
		name := o.Name
		if o.NameBase64 != "" {
			b, err := base64.StdEncoding.DecodeString(o.NameBase64)
			if err != nil {
				t.Fatalf("DecodeString: %v", err)
			}
			name = string(b)
		}
		if name != odd[i] {
			t.Errorf("--json: %q, want %q", name, odd[i])
		}
	}
	if err := json.Unmarshal([]byte(nfs(t, "stat", "--json", base+"/dir", base+"/mem")), &list); err != nil || len(list) != 2 || list[0].Type != "directory" {
		t.Errorf("stat --json: %v, %+v", err, list)
	}
}
