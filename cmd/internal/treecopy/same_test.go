// When two objects are the same: within a domain by number, between two domains also by other
// attributes.

package treecopy

import (
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// handle returns a file handle of one byte.
func handle(t *testing.T, b byte) nfs3.FH {
	t.Helper()
	fh, err := nfs3.MakeFH([]byte{b})
	if err != nil {
		t.Fatalf("MakeFH: %v", err)
	}
	return fh
}

func TestSameObject(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	here := Meta{Fsid: 1, Fileid: 2, Mode: 0o644, Size: 3, UID: 4, Mtime: now, Ctime: now, domain: localDomain}
	server := here
	server.domain, server.FH = "server", handle(t, 1)
	other := server
	other.domain, other.FH = "the same over another connection", handle(t, 2)
	with := func(m Meta, change func(*Meta)) Meta { change(&m); return m }
	for _, c := range []struct {
		what string
		a, b Meta
		want bool
	}{
		{"itself", here, here, true},
		{"in one domain, whatever else differs", here, with(here, func(m *Meta) { m.Size, m.Mode = 9, 0 }), true},
		{"in one domain, another number", here, with(here, func(m *Meta) { m.Fileid = 9 }), false},
		{"in one domain, another file system", here, with(here, func(m *Meta) { m.Fsid = 9 }), false},
		{"an export that is mounted here", here, with(server, func(m *Meta) { m.Fsid = 77 }), true},
		{"over two connections", server, other, true},
		{"over two connections, another file system", server, with(other, func(m *Meta) { m.Fsid = 9 }), false},
		{"another number", here, with(server, func(m *Meta) { m.Fileid = 9 }), false},
		{"another mode", here, with(server, func(m *Meta) { m.Mode = 0o600 }), false},
		{"another size", here, with(server, func(m *Meta) { m.Size = 9 }), false},
		{"another owner", here, with(server, func(m *Meta) { m.UID = 9 }), false},
		{"written at another time", here, with(server, func(m *Meta) { m.Mtime = now.Add(1) }), false},
		{"changed at another time", here, with(server, func(m *Meta) { m.Ctime = now.Add(1) }), false},
		{"the same time in another zone", here, with(server, func(m *Meta) { m.Mtime = now.UTC() }), true},
	} {
		if same(&c.a, &c.b) != c.want || same(&c.b, &c.a) != c.want {
			t.Errorf("%s: %v", c.what, !c.want)
		}
	}
}

func TestSparseFiles(t *testing.T) {
	for _, c := range []struct {
		m    Meta
		want bool
	}{
		{Meta{Size: 10, Used: 0}, true}, {Meta{Size: 4097, Used: 4096}, true}, {Meta{Size: 4096, Used: 4096}, false},
		{Meta{Size: 1, Used: 4096}, false}, {Meta{}, false}, {Meta{Size: -1}, false},
		{Meta{Size: 10, Mode: 1 << 31}, false},
	} {
		if c.m.sparse() != c.want {
			t.Errorf("%+v: %v", c.m, !c.want)
		}
	}
}

// TestLinkTableForgetsWhatIsComplete: the first caller copies, all others link. After the last name
// the table is empty; an additional name, made meanwhile, starts a new entry.
func TestLinkTableForgetsWhatIsComplete(t *testing.T) {
	var table linkTable
	m := Meta{Fsid: 1, Fileid: 2, Nlink: 50, domain: localDomain}
	var wg sync.WaitGroup
	var mu sync.Mutex
	firsts, entries := 0, map[*linkEntry]int{}
	for range m.Nlink {
		wg.Go(func() {
			e, first := table.claim(&m)
			mu.Lock()
			defer mu.Unlock()
			entries[e]++
			if first {
				firsts++
			}
		})
	}
	wg.Wait()
	if firsts != 1 || len(entries) != 1 || len(table.list) != 0 {
		t.Errorf("%d first, %d entries, %d left", firsts, len(entries), len(table.list))
	}
	if _, first := table.claim(&m); !first {
		t.Error("a name more links to a copy that is forgotten")
	}
	other := m
	other.domain = "server"
	if _, first := table.claim(&other); !first {
		t.Error("a file of another domain with these numbers is taken for the same")
	}
	if len(table.list) != 2 {
		t.Errorf("%d entries", len(table.list))
	}
}
